"""2026-07-28: discovery, versions, metadata of requests and results, statelessness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.cases._asking import ALL
from mcpwire.check.cases._exchange import (
    AnyOf,
    Changed,
    Error,
    Refusal,
    Request,
    Result,
    exchange,
)
from mcpwire.check.cases._items import PREFIXED, declaring
from mcpwire.check.roles import call_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.check.case import Run
    from mcpwire.check.subject import Answer, Message, Reaction, Subject

FAMILY: Final = Family("discovery")

OURS: Final = "io.modelcontextprotocol/"
CLIENT: Final = OURS + "clientInfo"
SERVER: Final = OURS + "serverInfo"
UNKNOWN: Final = "1900-01-01"

case = FAMILY.where(revisions=MODERN)
first = case.where(start=Start.RAW, bound_s=40.0)
last = case.where(
    start=Start.LAST,
    sends="nothing; checks all messages of the connection",
)


# --- server/discover ------------------------------------------------------------------


def _speaks(result: dict[str, Any]) -> bool:
    versions = result.get("supportedVersions")
    return isinstance(versions, list) and MODERN[0] in versions


exchange(
    case.must,
    "VER-04.a",
    "`server/discover` returns versions and capabilities",
    source="server/discover",
    rules=("VER-05",),
    send=Request("server/discover"),
    expect=Result(
        lambda result: _speaks(result) and isinstance(result.get("capabilities"), dict),
        "`supportedVersions` with 2026-07-28, and `capabilities`",
    ),
    why="clients cannot find out what the server supports",
)

exchange(
    case.must,
    "VER-05.a",
    "the result of `server/discover` has caching hints",
    source="schema#DiscoverResult",
    send=Request("server/discover"),
    expect=Result(
        lambda result: (
            result.get("resultType") == "complete"
            and type(result.get("ttlMs")) is int
            and result["ttlMs"] >= 0
            and result.get("cacheScope") in {"public", "private"}
        ),
        "`resultType` complete, `ttlMs` of 0 or more, `cacheScope` public or private",
    ),
    why="clients repeat the request needlessly, or share a private result",
)


@case.must(
    "EXT-01.a",
    "the name of each extension has a prefix",
    source="basic/versioning#extension-negotiation",
    sends="nothing; checks the declared capabilities",
    expects="names such as `com.example/name`",
    why="extensions of the same name cannot be told apart",
)
async def extensions_have_prefixes(subject: Subject) -> None:
    extensions = subject.facts.capabilities.get("extensions")
    if not isinstance(extensions, dict) or not extensions:
        subject.absent("extensions")
    wrong = [name for name in extensions if not PREFIXED.fullmatch(name)]
    subject.expect(not wrong, "names with a prefix and a slash", wrong)


# --- versions -------------------------------------------------------------------------


def _with_meta(**changed: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets members of `_meta`; ``None`` removes a member."""

    def change(message: dict[str, Any]) -> None:
        meta = message["params"]["_meta"]
        meta.update({OURS + name: value for name, value in changed.items()})
        for name, value in changed.items():
            if value is None:
                del meta[OURS + name]

    return change


def _of_version(version: str, method: str = "server/discover") -> Changed:
    return Changed(
        _with_meta(protocolVersion=version),
        f"{method} with the version {version}",
        method=method,
        headers={"MCP-Protocol-Version": version},
    )


def names_versions(data: Any) -> bool:
    """Return whether the data of an error lists 2026-07-28 as a supported version."""
    supported = data.get("supported") if isinstance(data, dict) else None
    return isinstance(supported, list) and MODERN[0] in supported


exchange(
    case.must,
    "VER-02.a",
    "an unknown version is answered with -32022 and the supported versions",
    source="basic/versioning#protocol-version-negotiation",
    rules=("TR-HTTP-27",),
    send=_of_version(UNKNOWN),
    expect=Error(
        -32022,
        status=(400,),
        data=names_versions,
        text="whose `data.supported` has 2026-07-28",
    ),
    why="a newer client cannot choose a version that both support",
)


async def _refusal(subject: Subject) -> tuple[dict[str, Any], Reaction]:
    """Request an unknown version; return the data of the error and the reaction."""
    reaction = await subject.late(await _of_version(UNKNOWN).to(subject))
    if -32022 not in reaction.codes:
        subject.absent("error -32022")
    data = reaction.errors[0].value["error"].get("data")
    return data if isinstance(data, dict) else {}, reaction


@case.must(
    "VER-02.b",
    "the error for an unknown version names it",
    source="schema#UnsupportedProtocolVersionError",
    sends=f"a request with the version {UNKNOWN}",
    expects=f"`data.requested` {UNKNOWN} in the error -32022",
    why="a client with several requests in flight cannot say which version failed",
)
async def unknown_version_is_named(subject: Subject) -> None:
    data, reaction = await _refusal(subject)
    is_named = data.get("requested") == UNKNOWN
    subject.expect(is_named, f"`data.requested` {UNKNOWN}", reaction)


exchange(
    case.must,
    "VER-02.c",
    "an unknown version is refused for other methods too",
    source="basic/versioning#protocol-version-negotiation",
    needs=("tools",),
    send=_of_version(UNKNOWN, "tools/list"),
    expect=Error(-32022),
    why="a client of another version misreads the answer",
)

exchange(
    case.robust,
    "VER-02.d",
    "a version that is not a string is refused",
    rules=("VER-02", "META-08"),
    send=(
        Changed(
            _with_meta(protocolVersion=20260728), "a request with a number as version"
        ),
        Changed(_with_meta(protocolVersion=["2026-07-28"]), "one with an array"),
    ),
    expect=Refusal(),
    lenient=Result(),
    why="client and server compare versions differently",
)


@case.robust(
    "VER-07.a",
    "`supportedVersions` and `data.supported` agree",
    rules=("VER-07",),
    sends="`server/discover`, and a request with an unknown version",
    expects="the same versions in both; those with sessions may be missing",
    why="a client retries with a version that is refused again",
)
async def versions_agree(subject: Subject) -> None:
    versions = (await subject.request("server/discover")).result or {}
    supported = (await _refusal(subject))[0].get("supported")
    listed = versions.get("supportedVersions")
    both = isinstance(supported, list) and isinstance(listed, list)
    # The error may omit the versions of the session era.
    holds = both and _modern(supported) == _modern(listed)
    subject.expect(holds, f"{listed}", f"{supported}")


def _modern(versions: Any) -> set[str]:
    return set(versions) - set(LEGACY)


async def _initialize(subject: Subject) -> Answer:
    """Send the `initialize` request of a client of the session era."""
    hello = {**subject.hello(), "protocolVersion": LEGACY[-1]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    return await subject.answer(1, await subject.send(message, headers=_NO_HEADERS))


@first.should(
    "VER-09.a",
    "the error for `initialize` names the supported versions",
    source="basic/versioning#backward-compatibility-with-initialization-based-versions",
    is_quick=False,
    sends="`initialize` of 2025-11-25, without the `_meta` of this revision",
    expects="an error with 2026-07-28 in its message or data",
    why="older clients cannot tell their users why they fail",
)
async def initialize_is_explained(subject: Subject) -> None:
    versions = subject.facts.hello.get("supportedVersions") or []
    if set(versions) & set(LEGACY):
        subject.absent("server without earlier revisions")
    answer = await _initialize(subject)
    if answer.result is not None:
        subject.absent("server without earlier revisions")
    subject.expect(MODERN[0] in str(answer.error), f"{MODERN[0]} in the error", answer)


_NO_HEADERS: Final = {
    "MCP-Protocol-Version": None,
    "Mcp-Method": None,
    "Mcp-Name": None,
}


@first.robust(
    "VER-10.a",
    "a server that lists 2025-11-25 accepts its `initialize`",
    is_quick=False,
    sends="`initialize` of 2025-11-25 as the first message",
    expects="a result of that version",
    why="older clients cannot connect, although the server lists their version",
)
async def both_eras(subject: Subject) -> None:
    versions = subject.facts.hello.get("supportedVersions") or []
    if LEGACY[-1] not in versions:
        subject.absent("2025-11-25 in `supportedVersions`")
    answer = await _initialize(subject)
    got = (answer.result or {}).get("protocolVersion")
    subject.expect(got == LEGACY[-1], LEGACY[-1], answer)


_REMOVED: Final[dict[str, dict[str, Any]]] = {
    "initialize": {
        "protocolVersion": LEGACY[-1],
        "capabilities": {},
        "clientInfo": {"name": "mcpwire-check", "version": "1"},
    },
    "ping": {},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "mcpwire://none"},
    "resources/unsubscribe": {"uri": "mcpwire://none"},
}

for _letter, (_method, _params) in zip("bcdef", _REMOVED.items(), strict=True):
    _is_hello = _method == "initialize"
    exchange(
        case.must,
        f"VER-10.{_letter}",
        f"`{_method}` is an unknown method in this revision",
        source="schema#MethodNotFoundError",
        rules=("RPC-31", "PING-03"),
        transports=("stdio",),
        start=Start.OWN if _is_hello else Start.SHARED,
        follows="META-14.a" if _is_hello else "",
        send=Request(
            _method, _params, text=f"`{_method}` with this revision's `_meta`"
        ),
        # A server of both eras may answer -32022: the connection is stateless.
        expect=Error(-32601, *([-32022] if _is_hello else [])),
        # Such a server may also start a session: `initialize` selects that era.
        lenient=Result() if _is_hello else None,
        why="clients of several revisions take the server for an older one",
    )


# --- request metadata -----------------------------------------------------------------

exchange(
    case.must,
    "META-08.a",
    "a request without `clientCapabilities` is refused with -32602",
    source="basic/index#meta",
    send=Changed(_with_meta(clientCapabilities=None), "a request without it"),
    expect=Error(-32602, status=(400,)),
    why="the server has to guess what the client supports",
)

exchange(
    case.must,
    "META-08.b",
    "a request without a version in `_meta` is refused with -32602",
    source="basic/index#meta",
    transports=("http",),
    send=Changed(_with_meta(protocolVersion=None), "a request without it"),
    expect=Error(-32602, status=(400,)),
    why="the server has to guess the revision",
)

exchange(
    case.must,
    "META-08.c",
    "a request without `_meta` is refused with -32602",
    source="basic/index#meta",
    transports=("http",),
    send=(
        Changed({"params": {}}, "a request without `_meta`"),
        Changed(lambda message: message.pop("params") and None, "one without params"),
    ),
    expect=Error(-32602, status=(400,)),
    why="the server has to guess the revision",
)

exchange(
    case.robust,
    "META-08.d",
    "a request without `_meta` is refused over stdio",
    rules=("META-08",),
    transports=("stdio",),
    send=(
        Changed({"params": {}}, "a request without `_meta`"),
        Changed(_with_meta(protocolVersion=None), "one without a version"),
    ),
    expect=Refusal(),
    why="the server has to guess the revision",
)

exchange(
    case.robust,
    "META-08.e",
    "capabilities that are not an object are refused",
    rules=("META-08",),
    send=(
        Changed(_with_meta(clientCapabilities="all"), "a string as capabilities"),
        Changed(_with_meta(clientCapabilities=[]), "an array as capabilities"),
    ),
    expect=Error(-32602, -32600),
    lenient=Result(),
    why="the server has to guess what the client supports",
)

exchange(
    case.must,
    "META-07.a",
    "a request without `clientInfo` is answered",
    source="basic/index#meta",
    send=Changed(_with_meta(clientInfo=None), "a request without `clientInfo`"),
    expect=Result(),
    why="clients that send no name cannot use the server",
)

exchange(
    case.robust,
    "META-04.a",
    "unknown keys of `_meta` are ignored",
    rules=("META-04", "TRACE-01"),
    send=Request(
        "server/discover",
        {
            "_meta": {
                "com.example/mcpwire": {"a": [1]},
                "mcpwire": None,
                "traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
                "tracestate": "vendor=1",
                "baggage": "a=1",
            }
        },
        text="a request with trace keys and two unknown keys",
    ),
    expect=Result(),
    why="clients with tracing or extensions cannot use the server",
)

exchange(
    case.robust,
    "META-04.b",
    "malformed trace keys are ignored or refused",
    rules=("TRACE-01",),
    send=Request(
        "server/discover",
        {"_meta": {"traceparent": "x", "tracestate": 5, "baggage": ["a"]}},
        text="a request with malformed trace keys",
    ),
    expect=AnyOf(Result(), Error(-32602)),
    why="a mistake in tracing becomes a server failure",
)


# --- statelessness --------------------------------------------------------------------


@first.must(
    "META-14.a",
    "any request may be the first of a connection",
    source="basic/index#statelessness",
    rules=("VER-06",),
    sends="a list request as the first message",
    expects="a result",
    why="clients need an additional request before the first call",
)
async def no_handshake(subject: Subject) -> None:
    answer = await subject.request(subject.need_list())
    subject.expect(answer.result is not None, "a result", answer)


@case.must(
    "META-14.b",
    "a refused request does not affect the next one",
    source="basic/index#statelessness",
    sends="invalid requests (unknown version, no capabilities), a valid one after each",
    expects="errors for the invalid requests, results for the valid ones",
    why="one faulty client behind a proxy breaks the calls of all",
)
async def refusals_leave_nothing(subject: Subject) -> None:
    for part in (
        _of_version(UNKNOWN),
        Changed(_with_meta(clientCapabilities=None), "a request without capabilities"),
    ):
        reaction = await subject.late(await part.to(subject))
        if not reaction.errors:
            subject.absent(f"refusal of {part}")
        answer = await subject.request("server/discover")
        subject.expect(answer.result is not None, "a result for the next", answer)


@case.must(
    "META-09.a",
    "capabilities of one request do not apply to the next",
    source="basic/index#meta",
    needs=("role:ask",),
    sends="two calls of the `ask` tool, with all capabilities and then without",
    expects="no `inputRequests` in the second answer",
    why="clients get requests that they do not support",
)
async def capabilities_are_forgotten(subject: Subject) -> None:
    params = call_of(subject.need_tool("ask"))
    first = await subject.request("tools/call", declaring(ALL, params))
    if (first.result or {}).get("resultType") != "input_required":
        subject.absent("`ask` tool that requests client input")
    second = await subject.request("tools/call", params)
    asked = (second.result or {}).get("inputRequests")
    subject.expect(not asked, "no `inputRequests`", second)


# --- server messages ------------------------------------------------------------------


def _looks(
    of: Callable[..., Callable[[Run], Run]], id: str, title: str, **facts: Any
) -> Callable[[Callable[[Message], str | None]], None]:
    """Return a decorator that adds a case for all messages of the connection.

    The decorated function returns the fault of a message, or ``None``.
    """

    def add(check: Callable[[Message], str | None]) -> None:
        async def run(subject: Subject) -> None:
            if not subject.received:
                subject.absent("message")
            for message in subject.received:
                if not isinstance(message.value, dict):
                    continue
                if subject.is_of_revision(message) and (problem := check(message)):
                    subject.last_sent = b""
                    expected = f"{facts['expects']}; found {problem}"
                    subject.broken(expected, message.raw)

        of(id, title, **facts)(run)

    return add


def _has_code(is_wrong: Callable[[int], bool]) -> Callable[[Message], str | None]:
    """Return a check that reports each error with a wrong code."""

    def check(message: Message) -> str | None:
        error = message.value.get("error") if message.is_answer else None
        code = error.get("code") if isinstance(error, dict) else None
        return f"the code {code}" if isinstance(code, int) and is_wrong(code) else None

    return check


@_looks(
    last.must,
    "RPC-16.a",
    "each result has `resultType`",
    source="basic/index#result-responses",
    expects="a string as `resultType` in each result",
    why="clients cannot tell a result from a request for input",
)
def _has_type(message: Message) -> str | None:
    result = message.value.get("result") if message.is_answer else None
    lacks = isinstance(result, dict) and not isinstance(result.get("resultType"), str)
    return "a result without it" if lacks else None


@_looks(
    last.must,
    "RPC-20.a",
    "the server sends no requests",
    source="basic/patterns/index",
    rules=("TR-STDIO-07", "TR-HTTP-15"),
    expects="results, errors and notifications only",
    why="clients of this revision do not answer, and the call hangs",
)
def _is_no_request(message: Message) -> str | None:
    is_request = message.method is not None and "id" in message.value
    return f"the request {message.method}" if is_request else None


_looks(
    last.must,
    "RPC-27.a",
    "error codes of earlier revisions are not used",
    source="basic/index#error-codes",
    expects="no error -32002 or -32042",
    why="clients of this revision do not know them",
)(_has_code(lambda code: code in {-32002, -32042}))

# RPC-27.a reports -32042 (here) and -32002 (below).
_DEFINED: Final = frozenset({-32020, -32021, -32022, -32042})

_looks(
    last.must,
    "RPC-26.a",
    "reserved error codes are used only if they are defined",
    source="basic/index#error-codes",
    expects="no error from -32099 to -32020 except -32020, -32021 and -32022",
    why="a later revision may give the code another meaning",
)(_has_code(lambda code: -32099 <= code <= -32020 and code not in _DEFINED))

_looks(
    last.should,
    "RPC-24.a",
    "error codes of the legacy range are not used",
    source="basic/index#error-codes",
    expects="no error from -32019 to -32000",
    why="implementations use them with different meanings",
)(_has_code(lambda code: -32019 <= code <= -32000 and code != -32002))
