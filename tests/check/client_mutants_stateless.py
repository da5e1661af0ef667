"""Clients with faults in stateless requests, versions and input rounds."""

import asyncio
import contextlib
import unicodedata

import httpx
from client_mutants import connect, faulty_use, incoming, outgoing, requests

import mcpwire

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
ARGUMENTS = {"echo": {"text": "hi"}, "add": {"a": 1, "b": 2}}


async def use_more(target):
    """Use all listed tools and prompts, the tasks extension, and a subscription."""
    async with (
        connect(target, extensions=[META + "tasks"]) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        if client.protocol_version == MODERN:
            await stack.enter_async_context(client.listen(tools=True))
        for tool in await client.list_tools():
            properties = tool.input_schema.get("properties", {})
            defaults = {
                k: v["default"] for k, v in properties.items() if "default" in v
            }
            arguments = ARGUMENTS.get(tool.name, defaults)
            await client.call_tool(tool.name, arguments)
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt.name)


def _meta(message):
    return message.get("params", {}).get("_meta", {})


def _result(message):
    return message.get("result") or {}


# --- metadata, header fields


@outgoing("C-META-06.a")
def declares_no_capabilities(message):
    _meta(message).pop(META + "clientCapabilities", None)


@outgoing("C-META-07.a")
def has_no_name(message):
    _meta(message).pop(META + "clientInfo", None)


def _add_field_mutants():
    for case, field, change, use in (
        ("C-TR-HTTP-25.a", "mcp-protocol-version", lambda _: "2025-11-25", None),
        ("C-D72.a", "mcp-protocol-version", lambda _: MODERN, None),
        ("C-HDR-01.a", "mcp-method", str.upper, None),
        ("C-HDR-01.a", "mcp-method", lambda _: "=?base64?dG9vbHMvbGlzdA==?=", None),
        ("C-HDR-02.a", "mcp-name", None, None),
        ("C-HDR-03.a", "mcp-name", None, use_more),
        ("C-HDR-04.a", "mcp-name", lambda text: text.replace("base64", "BASE64"), None),
        ("C-HDR-05.a", "mcp-param-text", None, None),
        ("C-HDR-17.a", "mcp-param-inner", lambda _: "e", use_more),
        ("C-HDR-17.a", "mcp-param-flag", str.title, use_more),
    ):

        def changes_field(request, field=field, change=change):
            value = request.headers.pop(field, None)
            if value is not None and change is not None:
                request.headers[field] = change(value)

        requests(case, "http", use=use)(changes_field)


_add_field_mutants()


@incoming("C-HDR-11.a", "http", use=use_more)
def accepts_invalid_annotations(message):
    for tool in _result(message).get("tools", ()):
        if tool["name"].startswith("invalid"):
            tool["inputSchema"] = {"type": "object", "properties": {}}


@incoming("C-HDR-11.b", "http")
def stops_at_invalid_annotation(message):
    if any(t["name"] == "invalid_empty" for t in _result(message).get("tools", ())):
        raise ValueError("x-mcp-header")


def _changes_code(old, new, text=""):
    def changes_code(message):
        error = message.get("error") or {}
        if error.get("code") == old and text in error["message"]:
            error["code"] = new

    return changes_code


incoming("C-HDR-29.a", "http")(_changes_code(-32020, -32000))


@faulty_use("C-HDR-29.b", "http")
async def calls_again_at_once(target):
    async with connect(target) as client:
        for _ in range(400):
            with contextlib.suppress(mcpwire.HeaderMismatch):
                await client.call_tool("echo", {"text": "hi"})
                return


@requests("C-D71.a", "http")
def sends_a_session_id(request):
    request.headers["Mcp-Session-Id"] = "a"


@outgoing("C-TR-HTTP-09.a", "http")
def sends_a_batch(message):
    return [[message]] if MODERN in str(_meta(message)) else None


@outgoing("C-TR-STDIO-08.a")
def sends_responses(message):
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    return [response, message] if message.get("method") == "tools/call" else None


@incoming("C-RPC-17.a")
@incoming("C-RPC-17.b")
def needs_a_result_type(message):
    if "tools" in _result(message) and "resultType" not in message["result"]:
        del message["result"]["tools"]


@incoming("C-RPC-18.a")
def ignores_the_result_type(message):
    if str(_result(message).get("resultType")).startswith("mcpwire-check"):
        message["result"]["resultType"] = "complete"


@outgoing("C-RPC-18.b", use=use_more)
def hides_its_extension(message):
    _meta(message).get(META + "clientCapabilities", {}).pop("extensions", None)


# --- versions

incoming("C-VER-03.b")(_changes_code(-32022, -32000))
incoming("C-VER-11.a", "stdio")(_changes_code(-32602, -32022))
incoming("C-VER-11.b", "stdio")(_changes_code(-32000, -32022))
incoming("C-VER-13.d", "http")(_changes_code(-32601, -32022, "Method not found"))


@incoming("C-VER-03.c")
def knows_one_version(message):
    if "supportedVersions" in _result(message):
        message["result"]["supportedVersions"][1:] = []


@incoming("C-VER-03.d")
def assumes_its_version(message):
    if "supportedVersions" in _result(message):
        message["result"]["supportedVersions"] = [MODERN]


@incoming("C-VER-12.a", "stdio")
def takes_an_empty_result_for_modern(message):
    if message.get("result") == {}:
        message["result"] = {"supportedVersions": [MODERN], "capabilities": {}}


async def _list_in_session(target):
    async with connect(target, mode="session") as client:
        await client.list_tools()


@faulty_use("C-VER-12.b", "stdio")
@faulty_use("C-VER-12.c", "stdio")
@faulty_use("C-VER-13.a", "http")
@faulty_use("C-VER-13.b", "http")
@faulty_use("C-VER-13.c", "http")
async def falls_back_after_json_rpc_errors_only(target):
    client = connect(target, mode="stateless", connect_timeout=3)
    try:
        await client.connect()
    except mcpwire.NegotiationError as error:
        if not isinstance(error.__cause__, mcpwire.RPCError):
            raise
        await _list_in_session(target)
    finally:
        await client.aclose()


@faulty_use("C-VER-13.e", "http")
async def takes_404_for_the_end_of_a_session(target):
    async with connect(target) as client:
        try:
            await client.list_tools()
        except mcpwire.MethodNotFound:
            await _list_in_session(target)


@outgoing("C-VER-14.a")
def proposes_the_stateless_version(message):
    if message.get("method") == "initialize":
        message["params"]["protocolVersion"] = MODERN


@outgoing("C-D72.a")
def adds_stateless_metadata(message):
    if message.get("method") == "tools/list":
        meta = message.setdefault("params", {}).setdefault("_meta", {})
        meta[META + "protocolVersion"] = MODERN


# --- input rounds, subscriptions, tasks


def _changes_state(change):
    def changes_state(message):
        params = message.get("params", {})
        if "requestState" in params:
            params["requestState"] = change(params["requestState"])

    return changes_state


outgoing("C-MRTR-13.a")(_changes_state(str.strip))
outgoing("C-MRTR-13.a")(_changes_state(lambda s: unicodedata.normalize("NFC", s)))
outgoing("C-MRTR-13.a")(_changes_state(lambda s: s[:65536]))


@outgoing("C-MRTR-16.a")
def answers_one_input(message):
    responses = message.get("params", {}).get("inputResponses", {})
    while len(responses) > 1:
        responses.popitem()


@outgoing("C-MRTR-16.a")
def answers_with_an_invalid_result(message):
    for response in message.get("params", {}).get("inputResponses", {}).values():
        response.pop("action", None)


@outgoing("C-MRTR-16.a")
class KeepsTheState:
    state = None

    def __call__(self, message):
        params = message.get("params", {})
        self.state = params.get("requestState", self.state)
        if "inputResponses" in params and self.state is not None:
            params["requestState"] = self.state


@outgoing("C-MRTR-15.a")
class UsesTheStateAgain:
    state = None

    def __call__(self, message):
        params = message.get("params", {})
        self.state = params.get("requestState", self.state)
        if message.get("method") == "resources/read" and self.state is not None:
            params["requestState"] = self.state


@incoming("C-MRTR-06.a")
def answers_each_input_with_roots(message):
    for request in _result(message).get("inputRequests", {}).values():
        if request["method"] == "mcpwire-check/unknown":
            request |= {"method": "roots/list", "params": {}}


@faulty_use("C-MRTR-21.a")
async def has_no_limit(target):
    limits = mcpwire.Limits(input_rounds=1000, questions=1000)
    async with connect(target, roots=["file:///a"], limits=limits) as client:
        await client.call_tool("echo", {"text": "hi"})


@outgoing("C-SUB-01.a", use=use_more)
def subscribes_without_filter(message):
    if message.get("method") == "subscriptions/listen":
        del message["params"]["notifications"]


@incoming("C-SUB-07.a", "stdio")
def stops_at_unknown_subscription(message):
    if "unknown" in str(_meta(message)):
        error = {"code": -32603, "message": "unknown subscription"}
        return [{"jsonrpc": "2.0", "id": id, "error": error} for id in range(9)]
    return None


@faulty_use("C-SUB-11.a")
async def subscribes_again_at_once(target):
    async with connect(target) as client:
        for _ in range(400 if client.protocol_version == MODERN else 0):
            try:
                async with asyncio.timeout(1), client.listen(tools=True) as changes:
                    async for _ in changes:
                        pass
            except TimeoutError:
                return


@faulty_use("C-SUB-13.a", "http")
async def reconnects_at_once(target):
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    meta[META + "clientInfo"] = {"name": "reconnects", "version": "1"}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "subscriptions/listen",
    }
    params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    request = {"jsonrpc": "2.0", "method": "subscriptions/listen", "params": params}
    async with httpx.AsyncClient(timeout=1, headers=headers) as client:
        for id in range(400):
            with contextlib.suppress(httpx.RemoteProtocolError):
                await client.post(target, json={**request, "id": id})


@outgoing("C-TX-11.a", use=use_more)
def polls_another_task(message):
    if message.get("method") == "tasks/get":
        message["params"]["taskId"] = "another"
