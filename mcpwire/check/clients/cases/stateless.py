"""Metadata and header fields of stateless requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.clients.cases._forms import (
    OPERATIONS,
    observed_case,
    of_messages,
    undisturbed_case,
)
from mcpwire.check.clients.http import EVENTS
from mcpwire.check.clients.items import ADD, ECHO
from mcpwire.check.clients.subject import ENDPOINT, MAX_REPEATS, UNDISTURBED
from mcpwire.check.subject import META, decode_messages
from mcpwire.errors import InvalidMessage
from mcpwire.wire.headers import decode_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mcpwire.check.clients.http import HttpRequest
    from mcpwire.check.clients.subject import ClientSubject, Exchange
    from mcpwire.check.subject import Message

FAMILY: Final = Family("stateless", defaults={"role": "client"})

_META: Final = "basic/index#meta"
_RESULT_TYPE: Final = "basic/index#resulttype"
_PAGE: Final = "basic/transports/streamable-http"
_STANDARD: Final = f"{_PAGE}#standard-request-headers"
_PARAMS: Final = f"{_PAGE}#custom-headers-from-tool-parameters"
_SCHEMAS: Final = f"{_PAGE}#schema-extension"

case = FAMILY.with_defaults(revisions=MODERN)
http = case.with_defaults(transports=("http",))


# --- metadata of requests -------------------------------------------------------------


def _is_stateless_request(message: Message) -> bool:
    """Return whether a message is a request with metadata, unlike `initialize`."""
    is_request = message.method is not None and "id" in message.value
    return is_request and message.method != "initialize"


def _meta_of(message: Message) -> dict[str, Any]:
    meta = message.params.get("_meta")
    return meta if isinstance(meta, dict) else {}


@observed_case(
    case.must,
    "C-META-06.a",
    "each request has the protocol version and the client's capabilities",
    source=_META,
    rules=("VER-01",),
    expects="protocolVersion and clientCapabilities in _meta of each request",
    why="servers refuse the request with -32602",
)
@of_messages
def _lacks_meta(message: Message) -> bool:
    meta = _meta_of(message)
    is_complete = isinstance(meta.get(META + "protocolVersion"), str) and isinstance(
        meta.get(META + "clientCapabilities"), dict
    )
    return _is_stateless_request(message) and not is_complete


@observed_case(
    case.should,
    "C-META-07.a",
    "each request has the name and version of the client",
    source=_META,
    expects="clientInfo with name and version in _meta of each request",
    why="logs of servers do not say which client sends a request",
)
@of_messages
def _lacks_client_info(message: Message) -> bool:
    info = _meta_of(message).get(META + "clientInfo") or {}
    is_complete = all(isinstance(info.get(k), str) for k in ("name", "version"))
    return _is_stateless_request(message) and not is_complete


# --- header fields --------------------------------------------------------------------


def posts(client: ClientSubject) -> Iterator[tuple[HttpRequest, Message]]:
    """Yield the stateless requests with the HTTP requests that carry them."""
    for request in client.requests:
        if request.method == "POST" and request.path == ENDPOINT:
            for message in decode_messages(request.body, request.number, ""):
                if _is_stateless_request(message):
                    yield request, message


_PLAIN: Final = ("MCP-Protocol-Version", "Mcp-Method")
"""Header fields whose values are never Base64-encoded."""


def mirror_problem(request: HttpRequest, name: str, expected: str | None) -> str | None:
    """Return the difference of a header field from a value; ``None``: no field."""
    values = request.values(name.lower())
    problem = f"{name}: {', '.join(values)}" if values else f"no {name}"
    if expected is None:
        return problem if values else None
    try:
        decode = str if name in _PLAIN else decode_value
        is_same = len(values) == 1 and decode(values[0]) == expected
    except InvalidMessage:
        is_same = False
    return None if is_same else problem


def _add_mirror_case(
    id: str,
    title: str,
    name: str,
    expected: Callable[[Message], object],
    **attributes: Any,
) -> None:
    """Add a case for a header field that mirrors a part of each request."""

    def find_problem(client: ClientSubject) -> object:
        is_absent = True
        for request, message in posts(client):
            value = expected(message)
            if isinstance(value, str):
                is_absent = False
                problem = mirror_problem(request, name, value)
                if problem is not None:
                    return f"{problem} with {message.raw.decode(errors='replace')}"
        if is_absent:
            client.raise_absent(f"request with {name}")
        return None

    observed_case(http.must, id, title, **attributes)(find_problem)


_add_mirror_case(
    "C-TR-HTTP-25.a",
    "MCP-Protocol-Version is the version in `_meta`",
    "MCP-Protocol-Version",
    lambda message: _meta_of(message).get(META + "protocolVersion"),
    source=f"{_PAGE}#protocol-version-header",
    rules=("VER-01", "TR-HTTP-08"),
    expects="one MCP-Protocol-Version, equal to protocolVersion in _meta",
    why="servers refuse the request with -32020",
)
_add_mirror_case(
    "C-HDR-01.a",
    "Mcp-Method is the method of the request",
    "Mcp-Method",
    lambda message: message.method,
    source=_STANDARD,
    rules=("HDR-27", "TR-HTTP-08"),
    expects="one Mcp-Method, equal to the method",
    why="servers refuse the request with -32020",
)

_NAME_MEMBERS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
}


def _name_of(message: Message) -> object:
    return message.params.get(_NAME_MEMBERS.get(message.method or "", ""))


_add_mirror_case(
    "C-HDR-02.a",
    "Mcp-Name is the name of the tool or prompt, or the URI of the resource",
    "Mcp-Name",
    _name_of,
    source=_STANDARD,
    expects="one Mcp-Name, equal to the name or URI",
    why="servers refuse the request with -32020",
)


def list_more_tools(client: ClientSubject, tools: Sequence[dict[str, Any]]) -> None:
    """Let the server list tools besides its own; each returns a text."""
    names = {tool["name"] for tool in tools}

    async def call(exchange: Exchange) -> None:
        name = exchange.params.get("name")
        await exchange.correct(name="echo" if name in names else name)

    client.change_result("tools/list", lambda r: {**r, "tools": [ECHO, ADD, *tools]})
    client.answers["tools/call"] = call


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


_UNSAFE_NAMES: Final = ("grüße", " spaces ", "=?base64?aGk=?=")


@http.must(
    "C-HDR-04.a",
    "names that no header field may contain are Base64-encoded in Mcp-Name",
    source=_STANDARD,
    start=Start.OWN,
    sends="tools and prompts named grüße, ` spaces ` and `=?base64?aGk=?=`",
    expects="Mcp-Name: =?base64?...?= with the octets of the name",
    why="servers refuse the request, or read another name",
)
async def unsafe_names(client: ClientSubject) -> None:
    list_more_tools(client, [_tool(name) for name in _UNSAFE_NAMES])
    prompts = [{"name": name} for name in _UNSAFE_NAMES]
    client.change_result("prompts/list", lambda r: {**r, "prompts": prompts})
    await client.run()
    names = [p for p in posts(client) if _name_of(p[1]) in _UNSAFE_NAMES]
    for request, message in names:
        problem = mirror_problem(request, "Mcp-Name", str(_name_of(message)))
        if problem is not None:
            client.raise_broken(f"Mcp-Name for {_name_of(message)!r}", problem)
    if not names:
        client.raise_absent("use of all listed tools or prompts")


# --- header fields of arguments -------------------------------------------------------


def _annotated(kind: str, header: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header, **more}


_VALUES: Final = _tool(
    "values",
    text=_annotated("string", "Text", default="grüße"),
    spaces=_annotated("string", "Spaces", default=" a "),
    tab=_annotated("string", "Tab", default="\ta"),
    line=_annotated("string", "Line", default="a\r\nMcp-Param-Flag: false"),
    sentinel=_annotated("string", "Sentinel", default="=?base64?aGk=?="),
    plain=_annotated("string", "Plain", default="a b"),
    count=_annotated("integer", "Count", default=-42),
    flag=_annotated("boolean", "Flag", default=True),
    left_out=_annotated("string", "Left-Out"),
    outer={
        "type": "object",
        "properties": {"inner": _annotated("string", "Inner")},
        "default": {"inner": "é"},
    },
)


def _annotations(schema: dict[str, Any], *path: str) -> Iterator[tuple[str, list[str]]]:
    for name, property in schema.get("properties", {}).items():
        if "x-mcp-header" in property:
            yield property["x-mcp-header"], [*path, name]
        yield from _annotations(property, *path, name)


def _header_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _param_problem(
    request: HttpRequest, message: Message, tool: dict[str, Any]
) -> str | None:
    """Return the first argument whose header field differs."""
    for header, path in _annotations(tool["inputSchema"]):
        value: Any = message.params.get("arguments")
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        problem = mirror_problem(request, f"Mcp-Param-{header}", _header_text(value))
        if problem is not None:
            return f"{problem} with the argument {'.'.join(path)}: {value!r}"
    return None


_ANNOTATED_ECHO: Final = {
    **ECHO,
    "inputSchema": {
        **ECHO["inputSchema"],
        "properties": {"text": _annotated("string", "Text")},
    },
}
_ANNOTATED_ADD: Final = {
    **ADD,
    "inputSchema": {
        **ADD["inputSchema"],
        "properties": {"a": _annotated("integer", "A"), "b": {"type": "number"}},
    },
}


async def _check_params(client: ClientSubject, tools: Sequence[dict[str, Any]]) -> None:
    """Run the client; its calls of these tools must have their header fields."""
    await client.run()
    is_listed = is_called = False
    for request, message in posts(client):
        is_listed |= message.method == "tools/list"
        for tool in tools:
            is_call = message.method == "tools/call" and is_listed
            if is_call and message.params.get("name") == tool["name"]:
                is_called = True
                problem = _param_problem(request, message, tool)
                if problem is not None:
                    client.raise_broken("the argument in its Mcp-Param field", problem)
    if not is_called:
        client.raise_absent(f"call of the listed tool {tools[0]['name']}")


@http.must(
    "C-HDR-05.a",
    "arguments with `x-mcp-header` are mirrored in Mcp-Param fields",
    source=_PARAMS,
    rules=("HDR-14", "HDR-16"),
    needs=("sends:tools/list", "sends:tools/call"),
    start=Start.OWN,
    sends="the tools echo and add, of which one argument each has `x-mcp-header`",
    expects="Mcp-Param-Text and Mcp-Param-A with the arguments",
    why="servers refuse the call with -32020",
)
async def mirrored_arguments(client: ClientSubject) -> None:
    tools = [_ANNOTATED_ECHO, _ANNOTATED_ADD]
    client.change_result("tools/list", lambda r: {**r, "tools": tools})
    await _check_params(client, tools)


@http.must(
    "C-HDR-17.a",
    "values that no header field may contain are Base64-encoded in Mcp-Param fields",
    source=f"{_PAGE}#value-encoding",
    rules=("HDR-14", "HDR-16", "HDR-18"),
    needs=("sends:tools/list", "sends:tools/call"),
    start=Start.OWN,
    sends="a tool with `x-mcp-header` and defaults: non-ASCII, spaces, line breaks",
    expects="each argument in its field, as plain text or =?base64?...?=",
    why="servers refuse the call, or a value adds header fields",
)
async def encoded_arguments(client: ClientSubject) -> None:
    list_more_tools(client, [_VALUES])
    await _check_params(client, [_VALUES])


_INVALID_TOOLS: Final = (
    _tool("invalid_empty", x=_annotated("string", "")),
    _tool("invalid_space", x=_annotated("string", "a b")),
    _tool("invalid_line", x=_annotated("string", "a\r\nAuthorization: x")),
    _tool("invalid_number", x=_annotated("number", "X")),
    _tool("invalid_twice", x=_annotated("string", "X"), y=_annotated("string", "x")),
    _tool("invalid_items", x={"type": "array", "items": _annotated("string", "X")}),
)
_VALID_TOOL: Final = _tool("valid", x=_annotated("string", "X"))


@http.must(
    "C-HDR-11.a",
    "a tool with an invalid `x-mcp-header` is excluded",
    source=_SCHEMAS,
    needs=("sends:tools/list", "sends:tools/call"),
    start=Start.OWN,
    sends="a tool with a valid `x-mcp-header` and six with invalid ones",
    expects="no call of a tool with an invalid x-mcp-header",
    why="the server could let the client send any header field",
)
async def invalid_tools(client: ClientSubject) -> None:
    list_more_tools(client, [_VALID_TOOL, *_INVALID_TOOLS])
    await client.run()
    called = [m.params.get("name") for m in client.sent("tools/call")]
    for tool in _INVALID_TOOLS:
        if tool["name"] in called:
            client.raise_broken("no call of an invalid tool", f"a call of {tool}")
    if "valid" not in called:
        client.raise_absent("use of all listed tools")


undisturbed_case(
    http.must,
    "C-HDR-11.b",
    "a tool with an invalid `x-mcp-header` excludes no other tool",
    source=_SCHEMAS,
    needs=("sends:tools/list",),
    sends="the usual tools and six with an invalid `x-mcp-header`",
    why="one faulty tool makes all tools of the server unusable",
)(lambda client: list_more_tools(client, _INVALID_TOOLS))


@http.should(
    "C-HDR-29.a",
    "after -32020 a client lists the tools again and repeats the call",
    source=f"{_PAGE}#client-behavior",
    needs=("sends:tools/call",),
    start=Start.OWN,
    sends="-32020 to the first call; then a list with another `x-mcp-header`",
    expects="the request tools/list, and the call with Mcp-Param-Second",
    why="calls fail after an update of the server",
)
async def refreshed_list(client: ClientSubject) -> None:
    refused: list[int] = []

    def list_tools(result: dict[str, Any]) -> dict[str, Any]:
        header = "Second" if refused else "First"
        properties = {"text": _annotated("string", header)}
        schema = {**ECHO["inputSchema"], "properties": properties}
        return {**result, "tools": [{**ECHO, "inputSchema": schema}, ADD]}

    async def call(exchange: Exchange) -> None:
        if refused or exchange.params.get("name") != "echo":
            await exchange.correct()
            return
        refused.append(len(client.requests))
        await exchange.fail(-32020, "header mismatch: Mcp-Param-Second is missing")

    client.change_result("tools/list", list_tools)
    client.answers["tools/call"] = call
    await client.run()
    if not refused:
        client.raise_absent("call of echo")
    later = [p for p in posts(client) if p[0] in client.requests[refused[0] :]]
    calls = [p for p in later if p[1].params.get("name") == "echo"]
    if not any(message.method == "tools/list" for _, message in later):
        client.raise_broken("the request tools/list after -32020", client.ending)
    if not any(request.values("mcp-param-second") for request, _ in calls):
        client.raise_broken("the call with Mcp-Param-Second", client.ending)


@http.robust(
    "C-HDR-29.b",
    "a client does not repeat for ever a call that is answered with -32020",
    needs=("sends:tools/call",),
    start=Start.OWN,
    sends="-32020 to each call",
    expects=f"at most {MAX_REPEATS} calls",
    why="the client overloads a server that has a fault",
)
async def endless_mismatch(client: ClientSubject) -> None:
    client.answers["tools/call"] = lambda e: e.fail(-32020, "header mismatch")
    await client.run(must_end=True)


# --- messages that the stateless revisions do not have --------------------------------


@http.robust(
    "C-D71.a",
    "a client uses no session, even if the server sends a session id",
    start=Start.OWN,
    sends="Mcp-Session-Id in each response",
    expects="no Mcp-Session-Id, no GET of an event stream and no DELETE",
    why="gateways route requests with a session id to one server, which may be gone",
)
async def session_id(client: ClientSubject) -> None:
    client.response_headers["Mcp-Session-Id"] = client.session_id
    await client.run()
    for request in client.requests:
        if request.path == ENDPOINT:
            is_stream = request.method == "GET" and request.accepts(EVENTS)
            if is_stream or request.method == "DELETE":
                client.raise_broken("no stream", f"{request.method} {request.path}")
            if (value := request.value("mcp-session-id")) is not None:
                client.raise_broken("no session id", f"Mcp-Session-Id: {value}")


@observed_case(
    http.must,
    "C-TR-HTTP-09.a",
    "the body of a POST is one request or one notification",
    source=f"{_PAGE}#sending-messages",
    rules=("TR-HTTP-06",),
    expects="one request or notification",
    why="servers refuse batches and responses",
)
def _other_body(client: ClientSubject) -> object:
    for request in client.requests:
        if request.method == "POST" and request.path == ENDPOINT:
            messages = decode_messages(request.body, request.number, "")
            is_batch = request.body.lstrip().startswith(b"[")
            if is_batch or not messages or messages[0].method is None:
                return request.body
    return None


@case.must(
    "C-TR-STDIO-08.a",
    "a client sends no response to a stateless server",
    source="basic/transports/stdio#sending-messages",
    rules=("RPC-21", "TR-HTTP-09"),
    start=Start.OWN,
    sends="requests of the server before an answer: ping, roots/list, sampling",
    expects="no response",
    why="a server could use the client's model and files outside of any request",
)
async def requests_of_server(client: ClientSubject) -> None:
    async def ask(exchange: Exchange) -> None:
        is_asked.append(exchange)
        text = {"type": "text", "text": "hi"}
        sampling = {"messages": [{"role": "user", "content": text}], "maxTokens": 1}
        requests: tuple[tuple[str, Any], ...] = (
            ("ping", {}),
            ("roots/list", {}),
            ("sampling/createMessage", sampling),
        )
        for method, params in requests:
            id = client.next_id()
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            await exchange.send(message)
        await exchange.correct()

    is_asked: list[Exchange] = []
    client.first = ask
    await client.run()
    for message in client.messages:
        if message.is_answer:
            client.raise_broken("no response", message.raw)
    if not is_asked:
        client.raise_absent("request besides the handshake")


# --- `resultType` ---------------------------------------------------------------------


def _operations(client: ClientSubject) -> set[str]:
    return {key for key in client.operations() if key.startswith(OPERATIONS)}


@FAMILY.must(
    "C-RPC-17.b",
    "results of servers of earlier revisions, without `resultType`, are complete",
    source="2026-07-28 basic/index#resulttype",
    revisions=LEGACY,
    needs=("sends:server/discover",),
    start=Start.OWN,
    sends="results of a session with `resultType`, to compare",
    expects="no request that the client does not send without `resultType`",
    why="the client cannot use servers of earlier revisions",
)
async def earlier_results(client: ClientSubject) -> None:
    for method in OPERATIONS:
        client.change_result(method, lambda r: {**r, "resultType": "complete"})
    await client.run()
    assert client.facts.run is not None, "the survey is over"
    for operation in sorted(_operations(client) - _operations(client.facts.run)):
        expected = f"{operation} also after results without `resultType`"
        client.raise_broken(expected, "it was sent only with them")
    if not _operations(client):
        client.raise_absent("request besides the handshake")


# RPC-17 says MUST only of results of earlier revisions; this server has a fault.
@case.robust(
    "C-RPC-17.a",
    "a result without `resultType` is complete",
    needs=("sends:server/discover",),
    start=Start.OWN,
    sends="results without `resultType`",
    expects=UNDISTURBED,
    why="servers with this fault exist, and proxies of servers of earlier revisions",
)
async def no_result_type(client: ClientSubject) -> None:
    for method in OPERATIONS:
        client.change_result(
            method, lambda r: {k: v for k, v in r.items() if k != "resultType"}
        )
    await client.run_undisturbed("the usual requests and end")
    if not any(message.method in OPERATIONS for message in client.messages):
        client.raise_absent("request besides the handshake")


@case.must(
    "C-RPC-18.a",
    "a result with an unknown `resultType` is invalid",
    source=_RESULT_TYPE,
    needs=("sends:tools/list",),
    start=Start.OWN,
    sends="a second page of tools with the `resultType` mcpwire-check/unknown",
    expects="no request for its next page, and no endless repeats",
    why="the client takes a result for complete that means something else",
)
async def unknown_result_type(client: ClientSubject) -> None:
    cursors: list[Any] = []

    async def list_tools(exchange: Exchange) -> None:
        cursors.append(exchange.params.get("cursor"))
        if cursors[-1] == "third":
            client.raise_broken("no use of the unknown result", exchange.message.raw)
        kind = "complete" if cursors[-1] is None else "mcpwire-check/unknown"
        cursor = "second" if cursors[-1] is None else "third"
        await exchange.correct(
            lambda r: {**r, "resultType": kind, "nextCursor": cursor}
        )

    client.answers["tools/list"] = list_tools
    await client.run()
    if "second" not in cursors:
        client.raise_absent("request for a second page")
