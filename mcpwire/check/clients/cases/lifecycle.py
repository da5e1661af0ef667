"""Handshake and its end, in the session revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, Family, Start, since
from mcpwire.check.clients.cases._forms import (
    answering,
    observed_case,
    undisturbed_case,
)
from mcpwire.versions import find_revision

if TYPE_CHECKING:
    from mcpwire.check.clients.subject import ClientSubject, Exchange
    from mcpwire.check.subject import Message

FAMILY: Final = Family("lifecycle", defaults={"role": "client"})

case = FAMILY.with_defaults(revisions=LEGACY)

_LIFECYCLE: Final = "basic/lifecycle#initialization"


@observed_case(
    case.must,
    "C-LIFE-01.a",
    "the first request of a session is `initialize`",
    source=_LIFECYCLE,
    expects="the request initialize first",
    why="servers refuse all other requests before it",
)
def _first_other_message(client: ClientSubject) -> object:
    first = client.messages[0]
    # A client of both eras asks with server/discover first.
    others = [m for m in client.messages if m.method != "server/discover"]
    return None if others[0].method == "initialize" else first.raw


@observed_case(
    case.must,
    "C-LIFE-07.a",
    "`initialize` proposes a published protocol version",
    source="basic/lifecycle#version-negotiation",
    expects="protocolVersion is the date of a revision",
    why="servers answer an unknown version with one that the client may not support",
)
def _invalid_proposal(client: ClientSubject) -> object:
    request = _need_initialize(client)
    version = request.params.get("protocolVersion")
    return None if find_revision(str(version)) else request.raw


def _need_initialize(client: ClientSubject) -> Message:
    requests = client.sent("initialize")
    return requests[0] if requests else client.raise_absent("initialize")


@observed_case(
    case.should,
    "C-LIFE-05.a",
    "requests other than ping follow `notifications/initialized`",
    source=_LIFECYCLE,
    rules=("LIFE-04",),
    expects="notifications/initialized before any operation",
    why="servers may refuse or drop requests of an unfinished handshake",
)
def _request_too_early(client: ClientSubject) -> object:
    begin = client.messages.index(_need_initialize(client))
    methods = [message.method for message in client.messages]
    end = methods.index("notifications/initialized")
    allowed = {"ping", "server/discover", "initialize"}
    for message in client.messages[begin:end]:
        is_request = message.method is not None and "id" in message.value
        if is_request and message.method not in allowed:
            return message.raw
    return None


@observed_case(
    FAMILY.robust,
    "C-A18.a",
    "a client ends without an error if its server has none",
    expects="the exit code 0, or a client that stays running",
    why="the other cases then see only what the client does before its error",
)
def _failed_ending(client: ClientSubject) -> object:
    ending = client.ending
    return ending if ending is not None and ending.code not in {0, None} else None


@case.should(
    "C-LIFE-09.a",
    "a client disconnects from a server whose version it does not support",
    source="basic/lifecycle#version-negotiation",
    start=Start.OWN,
    sends="`initialize` answered with the version 1999-01-01",
    expects="no further request",
    why="both sides then speak different protocols",
)
async def unsupported_version(client: ClientSubject) -> None:
    client.change_result("initialize", lambda r: {**r, "protocolVersion": "1999-01-01"})
    await client.run(must_end=True)
    client.need_request("initialize", "the request initialize")
    for key in client.operations():
        if key not in {"initialize", "server/discover"}:
            client.raise_broken("no further request", f"the client sent {key}")


@case.must(
    "C-LIFE-11.a",
    "a client uses only capabilities that the server declares",
    revisions=since("2025-06-18", LEGACY[-1]),
    source="basic/lifecycle#operation",
    start=Start.OWN,
    sends="`initialize` answered without capabilities",
    expects="no request of an undeclared capability",
    why="servers answer such requests with an error",
)
async def undeclared_capabilities(client: ClientSubject) -> None:
    gated = ("tools/", "resources/", "prompts/", "completion/", "logging/")
    if not any(key.startswith(gated) for key in client.facts.sent):
        client.raise_absent("request that needs a capability")
    client.capabilities = {}
    await client.run()
    client.need_request("initialize", "the request initialize")
    for message in client.messages:
        if (message.method or "").startswith(gated):
            client.raise_broken("no request of an undeclared capability", message.raw)


@undisturbed_case(
    case.must,
    "C-PING-01.b",
    "a ping before the result of `initialize` is answered",
    source="basic/utilities/ping#behavior-requirements",
    transports=("stdio",),
    sends="a ping before the result of `initialize`",
    why="servers that check their connection consider the client dead",
)
@answering("initialize")
async def _ping_before_the_result(exchange: Exchange) -> None:
    await exchange.ask("ping")
    await exchange.correct()


@undisturbed_case(
    case.robust,
    "C-A12.a",
    "a log message before the result of `initialize` is accepted",
    sends="a log message before the result of `initialize`",
    why="servers log while they start",
)
@answering("initialize")
async def _log_before_the_result(exchange: Exchange) -> None:
    data: dict[str, Any] = {"level": "info", "data": "starting"}
    await exchange.notify("notifications/message", data)
    await exchange.correct()
