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
    exchange,
)
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.check.subject import Answer, Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("lifecycle")

SOURCE: Final = "basic/lifecycle#initialization"
KNOWN: Final = tuple(revision.name for revision in REVISIONS)
FUTURE: Final = "2099-01-01"

case = FAMILY.where(revisions=LEGACY)
first = case.where(start=Start.RAW, is_quick=False, bound_s=40.0)


def _hello(subject: Subject, **changed: Any) -> dict[str, Any]:
    """Return the params of `initialize` with changes; ``None`` removes a member."""
    members = {**subject.hello(), **changed}
    return {name: value for name, value in members.items() if value is not None}


async def _initialize(subject: Subject, params: Mapping[str, Any] | None) -> Answer:
    """Send `initialize`; over HTTP, use the session id of its response."""
    answer = await subject.request("initialize", params)
    if answer.response is not None:
        made = answer.response.fields.get("mcp-session-id")
        subject.session_id = made or subject.session_id
    return answer


# --- result ---------------------------------------------------------------------------


@case.must(
    "LIFE-03.a",
    "the result of `initialize` has version, capabilities and the server's name",
    source=SOURCE,
    sends="nothing more: it looks at the answer to the first `initialize`",
    expects="`protocolVersion`, `capabilities`, and `serverInfo` with name and version",
    why="clients refuse the connection",
)
async def hello_is_whole(subject: Subject) -> None:
    hello = subject.facts.hello
    subject.expect(isinstance(hello.get("protocolVersion"), str), "a version", hello)
    subject.expect(isinstance(hello.get("capabilities"), dict), "capabilities", hello)
    info = hello.get("serverInfo")
    for name in ("name", "version"):
        holds = isinstance(info, dict) and isinstance(info.get(name), str)
        subject.expect(holds, f"serverInfo.{name}", hello)


@case.robust(
    "LIFE-03.b",
    "what is declared is there",
    sends="the list of each of tools, prompts and resources that is declared",
    expects="a result for each",
    why="a client shows what it cannot use, or ends with an error",
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
    "an unknown version is answered with another one that it speaks",
    source="basic/lifecycle#version-negotiation",
    sends=f"`initialize` with the version {FUTURE}",
    expects="a result with a version that exists; lenient: an error",
    why="a newer client cannot fall back to a version that both speak",
)
async def unknown_version(subject: Subject) -> None:
    answer = await _initialize(subject, _hello(subject, protocolVersion=FUTURE))
    if answer.error is not None:
        # The error in basic/lifecycle#error-handling contradicts the rule.
        subject.lenient("a result with another version", answer)
    got = (answer.result or {}).get("protocolVersion")
    subject.expect(got in KNOWN, f"a version of {', '.join(KNOWN)}", answer)


exchange(
    first.robust,
    "C02.a",
    "the version of the stateless revision is not agreed on in a handshake",
    rules=("LIFE-08",),
    revisions=("2025-11-25",),
    send=Request(
        "initialize",
        lambda subject: _hello(subject, protocolVersion="2026-07-28"),
        text="`initialize` with the version 2026-07-28",
    ),
    expect=AnyOf(
        Error(-32600, -32602, -32601, -32022),
        Result(
            lambda result: result.get("protocolVersion") in LEGACY,
            "a result with the version of a session revision",
        ),
    ),
    why="the revision has no handshake, so both sides go on by different rules",
)


@first.robust(
    "C02.b",
    "an `initialize` that lacks what it must have is refused",
    sends="`initialize` without params, without a version, with a version that is a "
    "number, without the client's name, without capabilities",
    expects="an error for each; lenient: a result",
    why="a faulty client is found out much later, with an error that does not say it",
)
async def incomplete_hello(subject: Subject) -> None:
    variants: list[tuple[str, dict[str, Any] | None]] = [
        ("no params", None),
        ("no version", _hello(subject, protocolVersion=None)),
        ("the version 5", _hello(subject, protocolVersion=5)),
        ("no clientInfo", _hello(subject, clientInfo=None)),
        ("no capabilities", _hello(subject, capabilities=None)),
    ]
    for text, params in variants:
        answer = await _initialize(subject, params)
        if answer.result is not None:
            subject.lenient(f"an error for an `initialize` with {text}", answer)


@first.robust(
    "C02.c",
    "after a refused `initialize` a proper one works",
    sends="`initialize` without params, then as it has to be",
    expects="a result for the second, if the first is refused",
    why="a client cannot mend its mistake without a new process",
)
async def second_try(subject: Subject) -> None:
    first = await _initialize(subject, None)
    if first.result is not None:
        subject.absent("refusal of an `initialize` without params")
    second = await _initialize(subject, subject.hello())
    subject.expect(second.result is not None, "a result", second)


@first.robust(
    "C02.d",
    "unknown capabilities and members of `initialize` are ignored",
    rules=("RPC-33",),
    sends="`initialize` with an unknown capability, `experimental`, a title, icons and "
    "one more member",
    expects="a result",
    why="newer clients, and those with extensions, cannot connect",
)
async def open_hello(subject: Subject) -> None:
    params = {
        **subject.hello(),
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
    sends="a request for a list as the first message, then `initialize`",
    expects="an error, then a result; lenient: two results",
    why="a server that ends over it cannot be probed",
    bound_s=40.0,
)
async def early_request(subject: Subject) -> None:
    id = subject.next_id()
    response = await subject.send(subject.message(subject.need_list(), {}, id=id))
    if response is not None:  # over HTTP each request has its own response
        answer = await _http_answer(subject, id, response)
        if answer is None:
            return
    hello = await _initialize(subject, subject.hello())
    subject.expect(hello.result is not None, "a result of `initialize`", hello)
    try:
        found = await subject.answer(id, response)
    except NoAnswer:
        subject.broken("an error for the early request", "no answer")
    if found.error is None:
        subject.lenient("an error for the early request", found)


async def _http_answer(subject: Subject, id: int, response: Any) -> Answer | None:
    """Return the answer to an HTTP request; ``None`` if a 4xx status refuses it."""
    try:
        return await subject.answer(id, response)
    except NoAnswer:
        if 400 <= response.status < 500:
            return None
        raise


@first.robust(
    "C01.b",
    "a ping before `initialize` does no harm",
    rules=("PING-01", "LIFE-05"),
    transports=("stdio",),
    is_once=True,
    sends="a ping as the first message, then `initialize`",
    expects="two results; lenient: an error for the ping",
    why="clients ping a server to see whether it has started",
)
async def early_ping(subject: Subject) -> None:
    id = subject.next_id()
    await subject.send(subject.message("ping", id=id))
    hello = await _initialize(subject, subject.hello())
    subject.expect(hello.result is not None, "a result of `initialize`", hello)
    try:
        found = await subject.answer(id)  # a server may answer out of order
    except NoAnswer as error:
        subject.broken("an answer to the ping", error.actual)
    if found.error is not None:
        subject.lenient("a result of the ping", found.message.raw)


@case.robust(
    "C01.c",
    "a second `initialize` in a session does not begin it anew",
    rules=("LIFE-01",),
    start=Start.OWN,
    is_once=True,
    is_quick=False,
    sends="`initialize` once more, with another version",
    expects="an error; lenient: a result; then requests are answered as before",
    why="what was agreed changes below calls that run",
)
async def second_hello(subject: Subject) -> None:
    other = next(name for name in LEGACY if name != subject.revision.name)
    kept = subject.session_id
    answer = await subject.request("initialize", _hello(subject, protocolVersion=other))
    if answer.response is not None:
        made = answer.response.fields.get("mcp-session-id")
        if answer.result is not None and made not in {None, kept}:
            return  # the server has opened another session
    await subject.barrier()
    if answer.result is not None:
        subject.lenient("an error", answer)


@first.robust(
    "C01.d",
    "a ping between `initialize` and `initialized` is answered",
    rules=("PING-01",),
    is_once=True,
    sends="`initialize`, a ping, `initialized`, a ping",
    expects="a result for each ping",
    why="a client that checks the connection while it starts ends it",
)
async def ping_in_between(subject: Subject) -> None:
    await _initialize(subject, subject.hello())
    for _ in range(2):
        answer = await subject.request("ping")
        subject.expect(answer.result is not None, "a result", answer)
        await subject.notify("notifications/initialized")


exchange(
    case.robust,
    "C01.e",
    "a second `initialized` is ignored",
    send=Notification("notifications/initialized"),
    expect=IGNORED,
    why="a client that connects through a proxy may send it twice",
)


@first.should(
    "LIFE-06.a",
    "the server sends no requests but pings before `initialized`",
    source=SOURCE,
    transports=("stdio",),
    capabilities={
        "roots": {"listChanged": True},
        "sampling": {},
        "elicitation": {},
    },
    sends="`initialize` with all capabilities, then pings, and no `initialized`",
    expects="no request of the server but ping",
    why="the client is not ready for it, and answers with an error",
)
async def patient_server(subject: Subject) -> None:
    await _initialize(subject, subject.hello())
    for _ in range(2):
        await subject.request("ping")
    for each in subject.received:
        is_request = each.method is not None and "id" in each.value
        subject.expect(
            not is_request or each.method == "ping", "no request but ping", each.raw
        )
