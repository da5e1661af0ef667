"""2026-07-28: discovery, versions, metadata of requests and results, statelessness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.cases._calls import ALL_CAPABILITIES
from mcpwire.check.cases._exchange import (
    AnyOf,
    ChangedRequest,
    Error,
    Refusal,
    Request,
    Result,
    add_exchange_case,
)
from mcpwire.check.cases._items import PREFIXED, is_integer, with_capabilities
from mcpwire.check.roles import call_params

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.check.case import CaseFunction
    from mcpwire.check.subject import Answer, Message, Reaction, Subject

FAMILY: Final = Family("discovery")

META_PREFIX: Final = "io.modelcontextprotocol/"
UNKNOWN_VERSION: Final = "1900-01-01"

case = FAMILY.with_defaults(revisions=MODERN)
first = case.with_defaults(start=Start.RAW, bound_s=40.0)
last = case.with_defaults(
    start=Start.LAST, sends="nothing; checks all messages of the connection"
)


# --- server/discover ------------------------------------------------------------------


def _lists_revision(result: dict[str, Any]) -> bool:
    versions = result.get("supportedVersions")
    return isinstance(versions, list) and MODERN[0] in versions


add_exchange_case(
    case.must,
    "VER-04.a",
    "`server/discover` returns versions and capabilities",
    source="server/discover",
    rules=("VER-05",),
    send=Request("server/discover"),
    expect=Result(
        lambda result: (
            _lists_revision(result) and isinstance(result.get("capabilities"), dict)
        ),
        "`supportedVersions` with 2026-07-28, and `capabilities`",
    ),
    why="clients cannot find out what the server supports",
)

add_exchange_case(
    case.must,
    "VER-05.a",
    "the result of `server/discover` has `resultType` and caching hints",
    source="schema#DiscoverResult",
    send=Request("server/discover"),
    expect=Result(
        lambda result: (
            result.get("resultType") == "complete"
            and is_integer(result.get("ttlMs"))
            and result["ttlMs"] >= 0
            and result.get("cacheScope") in {"public", "private"}
        ),
        "`resultType` complete, a non-negative integer as `ttlMs`, `cacheScope` public "
        "or private",
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
        subject.raise_absent("extensions")
    wrong = [name for name in extensions if not PREFIXED.fullmatch(name)]
    subject.expect(not wrong, "names with a prefix and a slash", wrong)


# --- versions -------------------------------------------------------------------------


def _change_meta(**members: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets members of `_meta`; ``None`` removes a member."""

    def change(message: dict[str, Any]) -> None:
        meta = message["params"]["_meta"]
        meta.update({META_PREFIX + name: value for name, value in members.items()})
        for name, value in members.items():
            if value is None:
                del meta[META_PREFIX + name]

    return change


def _request_of_version(
    version: str, method: str = "server/discover"
) -> ChangedRequest:
    return ChangedRequest(
        _change_meta(protocolVersion=version),
        f"{method} with the version {version}",
        method=method,
        headers={"MCP-Protocol-Version": version},
    )


def names_versions(data: Any) -> bool:
    """Return whether the data of an error lists 2026-07-28 as a supported version."""
    supported = data.get("supported") if isinstance(data, dict) else None
    return isinstance(supported, list) and MODERN[0] in supported


add_exchange_case(
    case.must,
    "VER-02.a",
    "an unknown version is answered with -32022 and the supported versions",
    source="basic/versioning#protocol-version-negotiation",
    rules=("TR-HTTP-27",),
    send=_request_of_version(UNKNOWN_VERSION),
    expect=Error(
        -32022,
        status=(400,),
        data=names_versions,
        text="whose `data.supported` has 2026-07-28",
    ),
    why="a newer client cannot choose a version that both support",
)


async def _request_unknown_version(subject: Subject) -> tuple[dict[str, Any], Reaction]:
    """Request an unknown version; return the data of the error and the reaction."""
    reaction = await subject.wait_late_answer(
        await _request_of_version(UNKNOWN_VERSION).send(subject)
    )
    if -32022 not in reaction.codes:
        subject.raise_absent("error -32022")
    data = reaction.errors[0].value["error"].get("data")
    return data if isinstance(data, dict) else {}, reaction


@case.must(
    "VER-02.b",
    "the error for an unknown version names it",
    source="schema#UnsupportedProtocolVersionError",
    sends=f"a request with the version {UNKNOWN_VERSION}",
    expects=f"`data.requested` {UNKNOWN_VERSION} in the error -32022",
    why="a client with several requests in flight cannot say which version failed",
)
async def unknown_version_is_named(subject: Subject) -> None:
    data, reaction = await _request_unknown_version(subject)
    is_named = data.get("requested") == UNKNOWN_VERSION
    subject.expect(is_named, f"`data.requested` {UNKNOWN_VERSION}", reaction)


add_exchange_case(
    case.must,
    "VER-02.c",
    "an unknown version is refused for other methods too",
    source="basic/versioning#protocol-version-negotiation",
    needs=("tools",),
    send=_request_of_version(UNKNOWN_VERSION, "tools/list"),
    expect=Error(-32022),
    why="a client of another version misreads the answer",
)

add_exchange_case(
    case.robust,
    "VER-02.d",
    "a version that is not a string is refused",
    rules=("VER-02", "META-08"),
    send=(
        ChangedRequest(
            _change_meta(protocolVersion=20260728), "a request with a number as version"
        ),
        ChangedRequest(
            _change_meta(protocolVersion=["2026-07-28"]), "one with an array"
        ),
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
    expects="the same versions in both, apart from revisions with sessions",
    why="a client retries with a version that is refused again",
)
async def versions_agree(subject: Subject) -> None:
    result = (await subject.request("server/discover")).result or {}
    supported = (await _request_unknown_version(subject))[0].get("supported")
    listed = result.get("supportedVersions")
    are_lists = isinstance(supported, list) and isinstance(listed, list)
    # The error may omit the versions of the session era.
    agree = are_lists and _modern_only(supported) == _modern_only(listed)
    subject.expect(agree, f"{listed}", f"{supported}")


def _modern_only(versions: Any) -> set[str]:
    return set(versions) - set(LEGACY)


async def _initialize(subject: Subject) -> Answer:
    """Send the `initialize` request of a client of the session era."""
    params = {**subject.initialize_params(), "protocolVersion": LEGACY[-1]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return await subject.wait_answer(
        1, await subject.send(message, headers=_NO_HEADERS)
    )


@first.should(
    "VER-09.a",
    "the error for `initialize` names the supported versions",
    source="basic/versioning#backward-compatibility-with-initialization-based-versions",
    is_quick=False,
    sends="`initialize` of 2025-11-25, without the `_meta` of this revision",
    expects="an error with 2026-07-28 in its message or data",
    why="older clients cannot tell their users why the connection failed",
)
async def initialize_is_explained(subject: Subject) -> None:
    versions = subject.facts.handshake.get("supportedVersions") or []
    if set(versions) & set(LEGACY):
        subject.raise_absent("need for the rule: the server supports earlier revisions")
    answer = await _initialize(subject)
    if answer.result is not None:
        subject.raise_absent("need for the rule: the server supports earlier revisions")
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
    expects="a result with that version",
    why="older clients cannot connect, although the server lists their version",
)
async def both_eras(subject: Subject) -> None:
    versions = subject.facts.handshake.get("supportedVersions") or []
    if LEGACY[-1] not in versions:
        subject.raise_absent("2025-11-25 in `supportedVersions`")
    answer = await _initialize(subject)
    version = (answer.result or {}).get("protocolVersion")
    subject.expect(version == LEGACY[-1], LEGACY[-1], answer)


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
    _is_initialize = _method == "initialize"
    add_exchange_case(
        case.must,
        f"VER-10.{_letter}",
        f"`{_method}` is an unknown method in this revision",
        source="schema#MethodNotFoundError",
        rules=("RPC-31", "PING-03"),
        transports=("stdio",),
        start=Start.OWN if _is_initialize else Start.SHARED,
        follows="META-14.a" if _is_initialize else "",
        send=Request(
            _method, _params, text=f"`{_method}` with this revision's `_meta`"
        ),
        # A server of both eras may answer -32022: the connection is stateless.
        expect=Error(-32601, *([-32022] if _is_initialize else [])),
        # Such a server may also start a session: `initialize` selects that era.
        lenient=Result() if _is_initialize else None,
        why="clients of several revisions take the server for an older one",
    )


# --- request metadata -----------------------------------------------------------------

add_exchange_case(
    case.must,
    "META-08.a",
    "a request without `clientCapabilities` is refused with -32602",
    source="basic/index#meta",
    send=ChangedRequest(
        _change_meta(clientCapabilities=None),
        "a request without `clientCapabilities` in `_meta`",
    ),
    expect=Error(-32602, status=(400,)),
    why="the server has to guess what the client supports",
)

add_exchange_case(
    case.must,
    "META-08.b",
    "a request without a version in `_meta` is refused with -32602",
    source="basic/index#meta",
    transports=("http",),
    send=ChangedRequest(
        _change_meta(protocolVersion=None),
        "a request without `protocolVersion` in `_meta`",
    ),
    expect=Error(-32602, status=(400,)),
    why="the server has to guess the revision",
)

add_exchange_case(
    case.must,
    "META-08.c",
    "a request without `_meta` is refused with -32602",
    source="basic/index#meta",
    transports=("http",),
    send=(
        ChangedRequest({"params": {}}, "a request without `_meta`"),
        ChangedRequest(
            lambda message: message.pop("params") and None, "one without params"
        ),
    ),
    expect=Error(-32602, status=(400,)),
    why="the server has to guess the revision",
)

add_exchange_case(
    case.robust,
    "META-08.d",
    "over stdio, a request without `_meta`, or without a version in it, is refused",
    rules=("META-08",),
    transports=("stdio",),
    send=(
        ChangedRequest({"params": {}}, "a request without `_meta`"),
        ChangedRequest(_change_meta(protocolVersion=None), "one without a version"),
    ),
    expect=Refusal(),
    why="the server has to guess the revision",
)

add_exchange_case(
    case.robust,
    "META-08.e",
    "capabilities that are not an object are refused",
    rules=("META-08",),
    send=(
        ChangedRequest(
            _change_meta(clientCapabilities="all"), "a string as capabilities"
        ),
        ChangedRequest(_change_meta(clientCapabilities=[]), "an array as capabilities"),
    ),
    expect=Error(-32602, -32600),
    lenient=Result(),
    why="the server has to guess what the client supports",
)

add_exchange_case(
    case.must,
    "META-07.a",
    "a request without `clientInfo` is answered",
    source="basic/index#meta",
    send=ChangedRequest(
        _change_meta(clientInfo=None), "a request without `clientInfo`"
    ),
    expect=Result(),
    why="clients that send no name cannot use the server",
)

add_exchange_case(
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

add_exchange_case(
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
    why="one faulty client behind a proxy breaks the calls of all clients",
)
async def refusal_has_no_effect(subject: Subject) -> None:
    for request in (
        _request_of_version(UNKNOWN_VERSION),
        ChangedRequest(
            _change_meta(clientCapabilities=None), "a request without capabilities"
        ),
    ):
        reaction = await subject.wait_late_answer(await request.send(subject))
        if not reaction.errors:
            subject.raise_absent(f"refusal of {request}")
        answer = await subject.request("server/discover")
        subject.expect(answer.result is not None, "a result for the next", answer)


@case.must(
    "META-09.a",
    "capabilities of one request do not apply to the next",
    source="basic/index#meta",
    needs=("role:ask",),
    sends="two calls to the `ask` tool, with all capabilities and then without",
    expects="no `inputRequests` in the second answer",
    why="clients get requests that they do not support",
)
async def capabilities_are_forgotten(subject: Subject) -> None:
    params = call_params(subject.need_tool("ask"))
    first = await subject.request(
        "tools/call", with_capabilities(ALL_CAPABILITIES, params)
    )
    if (first.result or {}).get("resultType") != "input_required":
        subject.raise_absent("`ask` tool that requests client input")
    second = await subject.request("tools/call", params)
    requests = (second.result or {}).get("inputRequests")
    subject.expect(not requests, "no `inputRequests`", second)


# --- server messages ------------------------------------------------------------------


def _message_case(
    add: Callable[..., Callable[[CaseFunction], CaseFunction]],
    id: str,
    title: str,
    **facts: Any,
) -> Callable[[Callable[[Message], str | None]], None]:
    """Return a decorator that adds a case for all messages of the connection.

    The decorated function returns the fault of a message, or ``None``.
    """

    def decorate(check: Callable[[Message], str | None]) -> None:
        async def run(subject: Subject) -> None:
            if not subject.received:
                subject.raise_absent("message")
            for message in subject.received:
                if not isinstance(message.value, dict):
                    continue
                if subject.is_of_revision(message) and (problem := check(message)):
                    subject.last_sent = b""
                    expected = f"{facts['expects']}; found {problem}"
                    subject.raise_broken(expected, message.raw)

        add(id, title, **facts)(run)

    return decorate


def _check_code(is_wrong: Callable[[int], bool]) -> Callable[[Message], str | None]:
    """Return a check that reports each error with a wrong code."""

    def check(message: Message) -> str | None:
        error = message.value.get("error") if message.is_answer else None
        code = error.get("code") if isinstance(error, dict) else None
        return f"the code {code}" if isinstance(code, int) and is_wrong(code) else None

    return check


@_message_case(
    last.must,
    "RPC-16.a",
    "each result has `resultType`",
    source="basic/index#result-responses",
    expects="a string as `resultType` in each result",
    why="clients cannot tell a result from a request for input",
)
def _check_result_type(message: Message) -> str | None:
    result = message.value.get("result") if message.is_answer else None
    is_missing = isinstance(result, dict) and not isinstance(
        result.get("resultType"), str
    )
    return "a result without `resultType`" if is_missing else None


@_message_case(
    last.must,
    "RPC-20.a",
    "the server sends no requests",
    source="basic/patterns/index",
    rules=("TR-STDIO-07", "TR-HTTP-15"),
    expects="results, errors and notifications only",
    why="clients of this revision do not answer, and the call hangs",
)
def _check_no_request(message: Message) -> str | None:
    is_request = message.method is not None and "id" in message.value
    return f"the request {message.method}" if is_request else None


_message_case(
    last.must,
    "RPC-27.a",
    "error codes of earlier revisions are not used",
    source="basic/index#error-codes",
    expects="no error -32002 or -32042",
    why="clients of this revision do not know them",
)(_check_code(lambda code: code in {-32002, -32042}))

# RPC-27.a reports -32042 (here) and -32002 (below).
_DEFINED_CODES: Final = frozenset({-32020, -32021, -32022, -32042})

_message_case(
    last.must,
    "RPC-26.a",
    "reserved error codes are used only if they are defined",
    source="basic/index#error-codes",
    expects="no error from -32099 to -32020 except -32020, -32021 and -32022 "
    "(RPC-27.a checks -32042)",
    why="a later revision may give the code another meaning",
)(_check_code(lambda code: -32099 <= code <= -32020 and code not in _DEFINED_CODES))

_message_case(
    last.should,
    "RPC-24.a",
    "error codes of the legacy range are not used",
    source="basic/index#error-codes",
    expects="no error from -32019 to -32000 (RPC-27.a checks -32002)",
    why="implementations use them with different meanings",
)(_check_code(lambda code: -32019 <= code <= -32000 and code != -32002))
