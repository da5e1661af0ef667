"""The handshake of the session revisions: result, versions, params, order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, Family, NoAnswer, Start
from mcpwire.check.cases._exchange import (
    IGNORED,
    AnyOf,
    Error,
    Notification,
    Request,
    Result,
    add_exchange_case,
)
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("lifecycle")

SOURCE: Final = "basic/lifecycle#initialization"
KNOWN_VERSIONS: Final = tuple(revision.name for revision in REVISIONS)
UNKNOWN_VERSION: Final = "2099-01-01"

case = FAMILY.with_defaults(revisions=LEGACY)
first = case.with_defaults(start=Start.RAW, is_quick=False, bound_s=40.0)


def _initialize_params(subject: Subject, **changes: Any) -> dict[str, Any]:
    """Return the params of `initialize` with changes; ``None`` removes a member."""
    members = {**subject.initialize_params(), **changes}
    return {name: value for name, value in members.items() if value is not None}


async def _initialize(subject: Subject, params: Mapping[str, Any] | None) -> Answer:
    """Send `initialize`; over HTTP, use the session id of its response."""
    answer = await subject.request("initialize", params)
    if answer.response is not None:
        session_id = answer.response.fields.get("mcp-session-id")
        subject.session_id = session_id or subject.session_id
    return answer


# --- result ---------------------------------------------------------------------------


@case.must(
    "LIFE-03.a",
    "the result of `initialize` has version, capabilities and the server's name",
    source=SOURCE,
    sends="nothing; checks the answer to the first `initialize`",
    expects="`protocolVersion`, `capabilities`, and `serverInfo` with name and version",
    why="clients refuse the connection",
)
async def result_is_complete(subject: Subject) -> None:
    handshake = subject.facts.handshake
    subject.expect(
        isinstance(handshake.get("protocolVersion"), str), "a version", handshake
    )
    subject.expect(
        isinstance(handshake.get("capabilities"), dict), "capabilities", handshake
    )
    info = handshake.get("serverInfo")
    for name in ("name", "version"):
        is_text = isinstance(info, dict) and isinstance(info.get(name), str)
        subject.expect(is_text, f"serverInfo.{name}", handshake)


@case.robust(
    "LIFE-03.b",
    "the list request of each declared capability returns a result",
    sends="the list request of each declared capability: tools, prompts, resources",
    expects="a result for each",
    why="clients offer features that do not work, or fail",
)
async def declared_lists_answer(subject: Subject) -> None:
    subject.need_list()
    for capability in ("tools", "prompts", "resources"):
        if subject.facts.declares(capability):
            answer = await subject.request(f"{capability}/list", {})
            subject.expect(answer.result is not None, "a result", answer)


# --- versions -------------------------------------------------------------------------


@first.must(
    "LIFE-08.a",
    "an unknown version is answered with an existing one",
    source="basic/lifecycle#version-negotiation",
    sends=f"`initialize` with the version {UNKNOWN_VERSION}",
    expects="a result with an existing version; lenient: an error",
    why="a newer client cannot fall back to a version that both support",
)
async def unknown_version(subject: Subject) -> None:
    answer = await _initialize(
        subject, _initialize_params(subject, protocolVersion=UNKNOWN_VERSION)
    )
    if answer.error is not None:
        # The error in basic/lifecycle#error-handling contradicts the rule.
        subject.raise_lenient("a result with another version", answer)
    version = (answer.result or {}).get("protocolVersion")
    subject.expect(
        version in KNOWN_VERSIONS,
        f"one of the versions {', '.join(KNOWN_VERSIONS)}",
        answer,
    )


add_exchange_case(
    first.robust,
    "C02.a",
    "`initialize` does not negotiate 2026-07-28",
    rules=("LIFE-08",),
    revisions=("2025-11-25",),
    send=Request(
        "initialize",
        lambda subject: _initialize_params(subject, protocolVersion="2026-07-28"),
        text="`initialize` with the version 2026-07-28",
    ),
    expect=AnyOf(
        Error(-32600, -32602, -32601, -32022),
        Result(
            lambda result: result.get("protocolVersion") in LEGACY,
            "a result with the version of a session revision",
        ),
    ),
    why="2026-07-28 has no handshake, so both sides follow different rules",
)


@first.robust(
    "C02.b",
    "an incomplete `initialize` is refused",
    sends="`initialize` without params, without a version, with a version that is a "
    "number, without `clientInfo`, without `capabilities`",
    expects="an error for each; lenient: a result",
    why="the mistake shows up much later, with an unrelated error",
)
async def incomplete_initialize(subject: Subject) -> None:
    variants: list[tuple[str, dict[str, Any] | None]] = [
        ("no params", None),
        ("no version", _initialize_params(subject, protocolVersion=None)),
        ("the version 5", _initialize_params(subject, protocolVersion=5)),
        ("no clientInfo", _initialize_params(subject, clientInfo=None)),
        ("no capabilities", _initialize_params(subject, capabilities=None)),
    ]
    for text, params in variants:
        answer = await _initialize(subject, params)
        if answer.result is not None:
            subject.raise_lenient(f"an error for an `initialize` with {text}", answer)


@first.robust(
    "C02.c",
    "a valid `initialize` after a refused one succeeds",
    sends="`initialize` without params, then a valid one",
    expects="a result for the second, if the first is refused",
    why="a client cannot retry without a new process",
)
async def retry_after_refusal(subject: Subject) -> None:
    first = await _initialize(subject, None)
    if first.result is not None:
        subject.raise_absent("refusal of an `initialize` without params")
    second = await _initialize(subject, subject.initialize_params())
    subject.expect(second.result is not None, "a result", second)


@first.robust(
    "C02.d",
    "unknown capabilities and members of `initialize` are ignored",
    rules=("RPC-33",),
    sends="`initialize` with an unknown capability, `experimental`, a title, icons and "
    "unknown members",
    expects="a result",
    why="newer clients and clients with extensions cannot connect",
)
async def unknown_members(subject: Subject) -> None:
    params = {
        **subject.initialize_params(),
        "capabilities": {
            "experimental": {"com.example/x": {"a": 1}},
            "mcpwireUnknown": {"a": [1]},
            "extensions": {"com.example/mcpwire": {}},
        },
        "clientInfo": {
            "name": "mcpwire-check",
            "version": "1",
            "title": "A client",
            "icons": [{"src": "https://example.com/a.png"}],
            "mcpwireUnknown": True,
        },
        "mcpwireUnknown": None,
        "_meta": {"com.example/mcpwire": 1},
    }
    answer = await _initialize(subject, params)
    subject.expect(answer.result is not None, "a result", answer)
    await subject.notify("notifications/initialized")
    await subject.barrier()


# --- order ----------------------------------------------------------------------------


@case.robust(
    "C01.a",
    "a request before `initialize` is refused",
    rules=("LIFE-01",),
    start=Start.RAW,
    is_once=True,
    sends="a list request as the first message, then `initialize`",
    expects="an error, then a result (lenient: two results); over HTTP also a status "
    "from 400 to 499",
    why="a server that exits cannot be probed",
    bound_s=40.0,
)
async def early_request(subject: Subject) -> None:
    id = subject.next_id()
    response = await subject.send(subject.message(subject.need_list(), {}, id=id))
    if response is not None:  # over HTTP each request has its own response
        answer = await _http_answer(subject, id, response)
        if answer is None:
            return
    handshake = await _initialize(subject, subject.initialize_params())
    subject.expect(handshake.result is not None, "a result of `initialize`", handshake)
    try:
        early = await subject.wait_answer(id, response)
    except NoAnswer:
        subject.raise_broken("an error for the early request", "no answer")
    if early.error is None:
        subject.raise_lenient("an error for the early request", early)


async def _http_answer(subject: Subject, id: int, response: Any) -> Answer | None:
    """Return the answer to an HTTP request; ``None`` if a 4xx status refuses it."""
    try:
        return await subject.wait_answer(id, response)
    except NoAnswer:
        if 400 <= response.status < 500:
            return None
        raise


@first.robust(
    "C01.b",
    "a ping before `initialize` is answered",
    rules=("PING-01", "LIFE-05"),
    transports=("stdio",),
    is_once=True,
    sends="a ping as the first message, then `initialize`",
    expects="two results; lenient: an error for the ping",
    why="clients ping a server to find out whether it has started",
)
async def early_ping(subject: Subject) -> None:
    id = subject.next_id()
    await subject.send(subject.message("ping", id=id))
    handshake = await _initialize(subject, subject.initialize_params())
    subject.expect(handshake.result is not None, "a result of `initialize`", handshake)
    try:
        ping = await subject.wait_answer(id)  # a server may answer out of order
    except NoAnswer as error:
        subject.raise_broken("an answer to the ping", error.actual)
    if ping.error is not None:
        subject.raise_lenient("a result of the ping", ping.message.raw)


@case.robust(
    "C01.c",
    "a second `initialize` does not restart the session",
    rules=("LIFE-01",),
    start=Start.OWN,
    is_once=True,
    is_quick=False,
    sends="`initialize` once more, with another version",
    expects="an error (lenient: a result), and an answer to the next request; over "
    "HTTP also a new session",
    why="the negotiated version changes during running calls",
)
async def second_initialize(subject: Subject) -> None:
    other = next(name for name in LEGACY if name != subject.revision.name)
    session_id = subject.session_id
    answer = await subject.request(
        "initialize", _initialize_params(subject, protocolVersion=other)
    )
    if answer.response is not None:
        new_id = answer.response.fields.get("mcp-session-id")
        if answer.result is not None and new_id not in {None, session_id}:
            return  # the server has opened another session
    await subject.barrier()
    if answer.result is not None:
        subject.raise_lenient("an error", answer)


@first.robust(
    "C01.d",
    "a ping between `initialize` and `initialized` is answered",
    rules=("PING-01",),
    is_once=True,
    sends="`initialize`, a ping, `initialized`, a ping",
    expects="a result for each ping",
    why="clients that check the connection during startup close it",
)
async def ping_in_between(subject: Subject) -> None:
    await _initialize(subject, subject.initialize_params())
    for _ in range(2):
        answer = await subject.request("ping")
        subject.expect(answer.result is not None, "a result", answer)
        await subject.notify("notifications/initialized")


add_exchange_case(
    case.robust,
    "C01.e",
    "a second `initialized` is ignored",
    send=Notification("notifications/initialized"),
    expect=IGNORED,
    why="a client that connects through a proxy may send it twice",
)


@first.should(
    "LIFE-06.a",
    "before `initialized` the server sends no request except ping",
    source=SOURCE,
    transports=("stdio",),
    capabilities={"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}},
    sends="`initialize` with all capabilities, then pings, and no `initialized`",
    expects="no server request except ping",
    why="the client is not ready, and answers with an error",
)
async def no_early_requests(subject: Subject) -> None:
    await _initialize(subject, subject.initialize_params())
    for _ in range(2):
        await subject.request("ping")
    for message in subject.received:
        is_request = message.method is not None and "id" in message.value
        subject.expect(
            not is_request or message.method == "ping",
            "no request except ping",
            message.raw,
        )
