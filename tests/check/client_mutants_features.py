"""Clients with faults in lists, calls and requests of the server."""

import json
import socket
from urllib.parse import urlsplit

from client_mutants import connect, faulty_use, incoming, outgoing

import mcpwire
from mcpwire import types


async def use_nothing(target):
    """Use the server as a client without capabilities."""
    async with connect(target) as client:
        await client.list_tools()


async def use_model(target):
    """Use the server as a client whose model may use tools."""
    text = types.TextContent("a text")
    answer = types.CreateMessageResult(role="assistant", content=text, model="none")
    sampling = mcpwire.Sampling(lambda _: answer, tools=True)
    async with connect(target, sampling=sampling) as client:
        await client.list_tools()


async def use_url(target):
    """Use the server as a client whose user opens no page."""
    elicitation = mcpwire.Elicitation(url=lambda _: "decline")
    async with connect(target, elicitation=elicitation) as client:
        await client.list_tools()


async def use_changing_roots(target):
    """Report a change of the roots."""
    async with connect(target, roots=["file:///tmp"]) as client:
        await client.notify_roots_changed()
        await client.list_tools()


async def use_utilities(target):
    """Set the level of log messages, and complete an argument."""
    async with connect(target) as client:
        await client.set_log_level("info")
        await client.complete(types.PromptReference("greeting"), "style", "f")


# --- lists ----------------------------------------------------------------------------


def reads_first_page_only(message):
    (message.get("result") or {}).pop("nextCursor", None)


def stops_at_empty_page(message):
    result = message.get("result") or {}
    if any(result.get(key) == [] for key in ("tools", "resources", "prompts")):
        result.pop("nextCursor", None)


incoming("C-PAGE-05.a")(reads_first_page_only)
incoming("C-PAGE-05.a")(stops_at_empty_page)

CURSOR_CHANGES = {
    "strips": str.strip,
    "unescapes": lambda cursor: cursor.replace("%2F", "/"),
    "decodes": lambda cursor: cursor.replace("\\u00e9", "\u00e9"),
    "reads_numbers": lambda cursor: str(int(cursor)) if cursor.isdigit() else cursor,
    "shortens": lambda cursor: cursor[:4096],
    "composes": lambda cursor: cursor.replace("e\u0301", "\u00e9"),
}

for name, change in CURSOR_CHANGES.items():

    def changes_cursor(message, change=change):
        params = message.get("params") or {}
        if "cursor" in params:
            params["cursor"] = change(params["cursor"])

    changes_cursor.__name__ = f"{name}_cursor"
    outgoing("C-PAGE-02.a", "stdio")(changes_cursor)


@incoming("C-PAGE-02.a")
def refuses_long_cursors(message):
    assert len((message.get("result") or {}).get("nextCursor") or "") < 4500


@incoming("C-PAGE-03.a")
def empty_cursor_is_the_end(message):
    if (message.get("result") or {}).get("nextCursor") == "":
        del message["result"]["nextCursor"]


@outgoing("C-PAGE-04.a", "http")
class KeepsCursor:
    """Sends the cursor of the first session in the second one."""

    cursor = None
    sessions = 0

    def __call__(self, message):
        params = message.get("params") or {}
        self.sessions += message.get("method") == "initialize"
        if self.sessions == 1:
            self.cursor = self.cursor or params.get("cursor")
        elif "cursor" in params and self.cursor is not None:
            params["cursor"] = self.cursor


@faulty_use("C-F48.a")
async def follows_each_cursor(target):
    async with connect(target) as client:
        page = await client.request("tools/list")
        while page.get("nextCursor") is not None:
            page = await client.request("tools/list", {"cursor": page["nextCursor"]})


@incoming("C-F48.b")
def requires_string_cursor(message):
    assert (message.get("result") or {}).get("nextCursor", "") is not None


# --- results --------------------------------------------------------------------------


def _refuses(case, text, *transports, use=None):
    """Add a client that refuses messages with a text."""

    def refuses(message):
        if text in json.dumps(message):
            raise ValueError(f"unexpected {text}")

    refuses.__name__ = f"refuses {text}"
    incoming(case, *transports, use=use)(refuses)


_refuses("C-D40.a", '"newMember"')
_refuses("C-D41.a", '"hologram"')
for _text in ('"audio"', '"blob"', '"structuredContent"', '"resource_link"', '"$defs"'):
    _refuses("C-D42.a", _text, "stdio")
_refuses("C-D43.a", '"inputSchema": null')
_refuses("C-D45.a", '"emergency"')
_refuses("C-D45.a", "never-subscribed")
_refuses("C-ELIC-23.a", "elicitation/complete", use=use_url)


@outgoing("C-D44.a")
def normalizes_uris(message):
    params = message.get("params") or {}
    if params.get("uri") == "https://check.example":
        params["uri"] += "/"


def _request(url):
    """Request a URL, without waiting for the response."""
    url = urlsplit(url)
    with socket.create_connection((url.hostname, url.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")


def fetches_refs(message):
    for tool in (message.get("result") or {}).get("tools", ()):
        schema = tool.get("inputSchema") or {}
        text = schema.get("properties", {}).get("text", {})
        if "$ref" in text:
            _request(text["$ref"])


incoming("C-SCH-06.a")(fetches_refs)
incoming("C-S03.a")(fetches_refs)


@outgoing("C-T11-02.a")
def asks_for_a_task(message):
    if message.get("method") == "tools/call":
        message["params"]["task"] = {"ttl": 1000}


# --- requests of the server -----------------------------------------------------------


def _is_error(message, code):
    """Return whether it is an error with that code, but not for an unknown method."""
    error = message.get("error") or {}
    return error.get("code") == code and message["id"] != "unknown 1"


@outgoing("C-S28.a", use=use_nothing)
def answers_undeclared(message):
    if _is_error(message, -32601):
        return [{"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}}]
    return None


@outgoing("C-ROOT-05.a", use=use_nothing)
def fails_without_roots(message):
    if _is_error(message, -32601):
        message["error"]["code"] = -32603


@outgoing("C-ROOT-01.a", use=use_changing_roots)
def declares_fixed_roots(message):
    if message.get("method") == "initialize":
        message["params"]["capabilities"]["roots"] = {}


@outgoing("C-ROOT-04.a")
def roots_are_paths(message):
    for root in (message.get("result") or {}).get("roots", ()):
        root["uri"] = root["uri"].removeprefix("file://")


def answers_as_model(message):
    if _is_error(message, -32602):
        content = {"type": "text", "text": "a text"}
        result = {"role": "assistant", "content": content, "model": "none"}
        return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]
    return None


outgoing("C-SAMP-03.a")(answers_as_model)
outgoing("C-SAMP-07.a", use=use_model)(answers_as_model)
outgoing("C-ELIC-25.a")(answers_as_model)


def _does_not_know(case, name, is_unknown):
    """Add a client that does not know some requests of the server."""

    def change(message):
        if "method" in message and is_unknown(message.get("params") or {}):
            message["method"] = "unknown/method"

    change.__name__ = f"does_not_know_{name}"
    incoming(case)(change)


_does_not_know("C-E40.a", "stop_sequences", lambda params: "stopSequences" in params)
_does_not_know("C-T11-04.a", "tasks", lambda params: "task" in params)
_does_not_know(
    "C-ELIC-04.a",
    "forms_without_mode",
    lambda params: "requestedSchema" in params and "mode" not in params,
)


@outgoing("C-ELIC-20.a")
def fills_in_anything(message):
    result = message.get("result") or {}
    if result.get("action") == "accept":
        result["content"] = {"name": "x", "age": 7}


@outgoing("C-ELIC-20.a")
def fills_in_no_address(message):
    result = message.get("result") or {}
    if result.get("action") == "accept":
        result["content"]["email"] = "nobody"


@outgoing("C-ELIC-06.a")
def forgets_false(message):
    result = message.get("result") or {}
    if "content" in result:
        result["content"] = {k: v for k, v in result["content"].items() if v}


@incoming("C-ELIC-12.a", use=use_url)
def shows_a_preview(message):
    params = message.get("params") or {}
    if "url" in params:
        _request(params["url"])


# --- schemas --------------------------------------------------------------------------


@outgoing("C-SCHEMA.requests")
def arguments_are_a_list(message):
    if message.get("method") == "tools/call":
        message["params"]["arguments"] = list(message["params"]["arguments"])


@outgoing("C-SCHEMA.requests")
def capability_is_true(message):
    params = message.get("params") or {}
    meta = params.get("_meta") or {}
    for declared in (
        params.get("capabilities"),
        meta.get("io.modelcontextprotocol/clientCapabilities"),
    ):
        if declared:
            declared["sampling"] = True


@outgoing("C-SCHEMA.results")
def content_is_text(message):
    result = message.get("result") or {}
    if "model" in result:
        result["content"] = "a text"


@outgoing("C-SCHEMA.results")
def action_is_unknown(message):
    result = message.get("result") or {}
    if "action" in result:
        result["action"] = "accepted"


@outgoing("C-SCHEMA.results")
def roots_are_texts(message):
    result = message.get("result") or {}
    if "roots" in result:
        result["roots"] = ["file:///tmp"]


@outgoing("C-SCHEMA.requests", use=use_utilities)
def level_is_unknown(message):
    if message.get("method") == "logging/setLevel":
        message["params"]["level"] = "verbose"


@outgoing("C-SCHEMA.requests", use=use_utilities)
def completes_a_name(message):
    if message.get("method") == "completion/complete":
        message["params"]["ref"] = "greeting"
