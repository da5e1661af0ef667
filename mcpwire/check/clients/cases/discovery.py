"""Choice of the protocol version and of its era."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.clients.cases._forms import (
    OPERATIONS,
    answering,
    observed_case,
    undisturbed_case,
)
from mcpwire.check.subject import META, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.check.clients.subject import ClientSubject, Exchange

    Answer: TypeAlias = Callable[[Exchange], Awaitable[None]]

FAMILY: Final = Family("discovery", defaults={"role": "client"})

_NEGOTIATION: Final = "basic/versioning#protocol-version-negotiation"
_STDIO: Final = "2026-07-28 basic/transports/stdio#backward-compatibility"
_HTTP: Final = "2026-07-28 basic/transports/streamable-http#backward-compatibility"
_UNKNOWN: Final = ["2099-01-01", "2098-01-01"]
"""Versions that nobody supports."""
_MAX_PROBE_S: Final = 90.0
"""Time for a client to give up `server/discover`; official SDKs take up to 60 s."""

case = FAMILY.with_defaults(revisions=MODERN)


# --- choice of a version in the stateless era -----------------------------------------


@case.should(
    "C-VER-03.b",
    "a client that supports no version in the data of -32022 sends no `initialize`",
    source=_NEGOTIATION,
    start=Start.OWN,
    sends="-32022 to each request, with unknown versions in `supported`",
    expects="no `initialize`",
    why="a stateless server has no handshake; the user reads a misleading error",
)
async def no_mutual_version(client: ClientSubject) -> None:
    refused: list[int] = []

    async def refuse(exchange: Exchange) -> None:
        refused.append(len(client.messages))
        data = {"supported": _UNKNOWN, "requested": client.revision.name}
        await exchange.fail(-32022, "unsupported protocol version", data)

    client.answers |= dict.fromkeys(("server/discover", *OPERATIONS), refuse)
    await client.run(must_end=True)
    if not refused:
        client.raise_absent("request besides initialize")
    for message in client.messages[refused[0] :]:
        if message.method == "initialize":
            client.raise_broken("no initialize after -32022", message.raw)


def _answer_discover(client: ClientSubject, **members: Any) -> None:
    """Let the server change members of the result of `server/discover`."""
    client.change_result("server/discover", lambda result: {**result, **members})


@undisturbed_case(
    case.should,
    "C-VER-03.c",
    "of several versions a client chooses one that it supports",
    source=_NEGOTIATION,
    needs=("sends:server/discover",),
    sends="`supportedVersions` with unknown versions before the client's own",
    why="the client stops working when a server supports a newer version",
)
def _unknown_versions(client: ClientSubject) -> None:
    versions = [_UNKNOWN[0], "2026-07-28-draft", "", client.revision.name]
    _answer_discover(client, supportedVersions=versions)


@case.should(
    "C-VER-03.d",
    "a client that supports none of the server's versions uses nothing of the server",
    source=_NEGOTIATION,
    needs=("sends:server/discover",),
    start=Start.OWN,
    sends="`server/discover` answered with unknown versions only",
    expects="no further request besides those of the handshake",
    why="both sides then speak different protocols",
)
async def only_unknown_versions(client: ClientSubject) -> None:
    _answer_discover(client, supportedVersions=_UNKNOWN)
    await client.run(must_end=True)
    for message in client.messages:
        if message.method in OPERATIONS:
            client.raise_broken("no further request", message.raw)


@case.robust(
    "C-VER-13.e",
    "HTTP status 404 for a method that the server lacks is no end of a session",
    transports=("http",),
    start=Start.OWN,
    sends="status 404 with the error -32601 to the first request after the handshake",
    expects="no `initialize`",
    why="a stateless server has no handshake; the user reads a misleading error",
)
async def missing_method(client: ClientSubject) -> None:
    before: list[int] = []

    async def fail(exchange: Exchange) -> None:
        before.append(len(client.messages))
        await exchange.fail(-32601, "Method not found")

    client.first = fail
    await client.run()
    if not before:
        client.raise_absent("request besides the handshake")
    for message in client.messages[before[0] :]:
        if message.method == "initialize":
            client.raise_broken("no initialize", message.raw)


# --- fallback to `initialize` in the session era --------------------------------------

fallback = FAMILY.with_defaults(
    revisions=LEGACY,
    needs=("sends:server/discover",),
    is_once=True,
    why="the client cannot use servers of earlier revisions",
)


def _add_fallback_case(id: str, sends: str, answer: Answer, **attributes: Any) -> None:
    """Add a case in which a server of the session era answers `server/discover`."""
    title = f"after {sends} to `server/discover` a client sends `initialize`"
    undisturbed_case(
        attributes.pop("add", fallback.robust),
        id,
        title,
        sends=f"{sends} as the response to `server/discover`",
        **{"transports": ("http",), **attributes},
    )(answering("server/discover")(answer))


def _fail(code: int, text: str) -> Answer:
    async def answer(exchange: Exchange) -> None:
        await exchange.fail(code, text)

    return answer


def _respond(
    status: int, body: bytes = b"", fields: dict[str, str] | None = None
) -> Answer:
    async def answer(exchange: Exchange) -> None:
        assert exchange.http is not None
        await exchange.http.respond(status, body, fields)

    return answer


_ON_STDIO: Final[dict[str, Any]] = {
    "transports": ("stdio",),
    "add": fallback.must,
    "source": _STDIO,
}
_add_fallback_case(
    "C-VER-11.a", "the error -32602", _fail(-32602, "Invalid params"), **_ON_STDIO
)
_add_fallback_case(
    "C-VER-11.b", "the error -32000", _fail(-32000, "Not initialized"), **_ON_STDIO
)


async def _empty_result(exchange: Exchange) -> None:
    await exchange.answer({})


_add_fallback_case(
    "C-VER-12.a", "an empty result", _empty_result, transports=("stdio",)
)


def _await_initialize(client: ClientSubject) -> asyncio.Event:
    """Return an event that is set when `initialize` is answered."""
    answered = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.correct()
        answered.set()

    client.answers["initialize"] = answer
    return answered


@undisturbed_case(
    fallback.robust,
    "C-VER-12.b",
    "if the server's process ends at `server/discover` a client starts it again",
    transports=("stdio",),
    sends="the end of the process as the response to `server/discover`",
)
def _exit(client: ClientSubject) -> None:
    answered = _await_initialize(client)

    async def end(_: Exchange) -> None:
        await client.connections[-1].exit(1)
        await answered.wait()  # a client that stays running is not idle until then

    client.answers["server/discover"] = end


@undisturbed_case(
    fallback.robust,
    "C-VER-12.c",
    "without a response to `server/discover` a client sends `initialize`",
    transports=("stdio",),
    is_quick=False,
    sends="no response to `server/discover` until `initialize` is answered",
)
def _stay_silent(client: ClientSubject) -> None:
    answered = _await_initialize(client)
    client.run_s = max(client.run_s, _MAX_PROBE_S)

    async def answer_late(exchange: Exchange) -> None:
        await answered.wait()
        await exchange.fail(-32601, "Method not found")

    client.answers["server/discover"] = answer_late


_add_fallback_case(
    "C-VER-13.a",
    "HTTP status 400 without a body",
    _respond(400),
    add=fallback.should,
    source=_HTTP,
)
_add_fallback_case(
    "C-VER-13.b",
    "HTTP status 404 with a page",
    _respond(404, b"<html>Not Found</html>", {"Content-Type": "text/html"}),
)
_add_fallback_case(
    "C-VER-13.c", "HTTP status 405", _respond(405, fields={"Allow": "GET"})
)
_add_fallback_case(
    "C-VER-13.d", "the error -32601 with status 200", _fail(-32601, "Method not found")
)


@observed_case(
    FAMILY.robust,
    "C-VER-14.a",
    "`initialize` proposes no version of the stateless era, nor has it as header field",
    revisions=LEGACY,
    expects="a protocol version that has a handshake",
    why="servers of both eras treat the request as one without a session",
)
def _modern_proposal(client: ClientSubject) -> object:
    for message in client.sent("initialize"):
        if message.params.get("protocolVersion") in MODERN:
            return message.raw
    for request in client.requests:
        version = request.value("mcp-protocol-version")
        if b'"initialize"' in request.body and version in MODERN:
            return f"MCP-Protocol-Version: {version} with {printable(request.body)}"
    return None


@observed_case(
    FAMILY.robust,
    "C-D72.a",
    "a session has no metadata and no header field of the stateless era",
    revisions=LEGACY,
    expects="after initialize no stateless version in _meta or MCP-Protocol-Version",
    why="servers of both eras treat the request as one without a session",
)
def _modern_meta(client: ClientSubject) -> object:
    methods = [message.method for message in client.messages]
    for message in client.messages[methods.index("initialize") :]:
        if message.method == "server/discover":  # of a second connection
            continue
        meta = message.params.get("_meta")
        is_probe = message.method == "server/discover"  # of a further connection
        if not is_probe and isinstance(meta, dict) and META + "protocolVersion" in meta:
            return message.raw
    is_session = False
    for request in client.requests:
        if b'"server/discover"' in request.body:
            continue
        is_session |= b'"initialize"' in request.body
        is_probe = b'"server/discover"' in request.body
        version = request.value("mcp-protocol-version")
        if is_session and not is_probe and version in MODERN:
            return f"MCP-Protocol-Version: {version} with {printable(request.body)}"
    return None
