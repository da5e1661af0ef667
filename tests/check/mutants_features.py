"""Faults in tools, resources, prompts, completion, pages, caching and `_meta`."""

import json

from mutants import Mutant, in_responses, register

MODERN = "2026-07-28"


def fault(name, *cases, revision="2025-11-25"):
    """Register the decorated function as a change of answers over HTTP.

    It gets the message, the method and params of its request, and a persistent dict.
    """

    def add(function):
        def change(message, state):
            method, params = state.method_of(message), state.params_of(message)
            state.kept["state"] = state
            return function(message, method, params, state.kept) or message

        register(
            Mutant(
                name,
                cases,
                revision=revision,
                transport="http",
                response=in_responses(change),
            )
        )
        return function

    return add


def result(name, *cases, of, when=lambda params: True, revision="2025-11-25"):
    """Register a function that changes the result of a method in place."""

    def add(function):
        @fault(name, *cases, revision=revision)
        def change(message, method, params, kept):
            if method == of and "result" in message and when(params):
                function(message["result"])

        return function

    return add


def error(name, *cases, of, code, when=lambda params: True, revision="2025-11-25"):
    """Let a method fail with a code."""

    @fault(name, *cases, revision=revision)
    def change(message, method, params, kept):
        if method == of and when(params):
            message.pop("result", None)
            message["error"] = {"code": code, "message": "a seeded fault"}


def success(name, *cases, of, value, when=lambda params: True, revision="2025-11-25"):
    """Let a method that should fail succeed."""

    @fault(name, *cases, revision=revision)
    def change(message, method, params, kept):
        if method == of and when(params):
            message.pop("error", None)
            message["result"] = value() if callable(value) else dict(value)


def without_capability(name, word, *cases, revision="2025-11-25"):
    """Remove a capability from the declaration."""

    @fault(name, *cases, revision=revision)
    def change(message, method, params, kept):
        if method in {"initialize", "server/discover"} and "result" in message:
            message["result"]["capabilities"].pop(word, None)


COMPLETE = {"resultType": "complete"}
INFO = {"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}}
NAMED = {**COMPLETE, "_meta": INFO}
CONTENT = {**NAMED, "content": [{"type": "text", "text": "a seeded fault"}]}
FAILED = {**CONTENT, "isError": True}


def is_call(name=None, **facts):
    return lambda params: name is None or params.get("name") == name


def has_value(value):
    def when(params):
        arguments = params.get("arguments")
        values = list(arguments.values()) if isinstance(arguments, dict) else []
        return any(type(each) is type(value) and each == value for each in values)

    return when


def lacks(params):
    """Return whether a call lacks a required argument of the tool."""
    required = {"echo": {"message"}, "add": {"a", "b"}, "search": {"query"}}
    given = params.get("arguments")
    return isinstance(given, dict) and bool(
        required.get(params.get("name"), set()) - given.keys()
    )


def is_first(params):
    return "cursor" not in params


# --- tools ----------------------------------------------------------------------------

without_capability("tools are not declared", "tools", "TOOL-01.a")
error(
    "tools are declared and not listed",
    *("TOOL-02.a", "B09.a", "F03.c", "RPC-07.e", "RPC-07.f", "VER-02.c"),
    of="tools/list",
    code=-32601,
    when=is_first,
    revision=MODERN,
)


def varying(name, key, *cases, of, change, revision=MODERN):
    """Change every second first page of a list."""

    @fault(name, *cases, revision=revision)
    def each_second(message, method, params, kept):
        if method == of and "result" in message and is_first(params):
            kept["count"] = kept.get("count", 0) + 1
            if kept["count"] % 2:
                change(message["result"][key])


for _list, _key, _case, _changed_case in (
    ("tools/list", "tools", "TOOL-03.a", "TOOL-05.a"),
    ("resources/list", "resources", "RES-02.b", "RES-03.a"),
    ("prompts/list", "prompts", "PROMPT-02.b", "PROMPT-03.a"),
):
    varying(
        f"{_list} differs each time",
        _key,
        _case,
        _changed_case,
        of=_list,
        change=lambda items: items.pop(0),
    )

varying(
    "tools come in another order each time",
    "tools",
    "TOOL-04.a",
    of="tools/list",
    change=lambda items: items.reverse(),
)


def of_tool(name, *cases, tool="echo", revision="2025-11-25"):
    """Register a function that changes one tool of the list."""

    def add(function):
        @result(name, *cases, of="tools/list", revision=revision)
        def change(found):
            for each in found["tools"]:
                if each["name"] == tool:
                    function(each)

        return function

    return add


@of_tool("an inputSchema is none", "TOOL-06.a")
def bad_input(tool):
    tool["inputSchema"]["properties"]["message"] = {"type": "strin"}


@of_tool("an outputSchema is none", "SCH-05.a")
def bad_output(tool):
    tool["outputSchema"]["properties"] = {"result": {"type": "strin"}}


@of_tool("a schema refers to another place", "F10.a")
def remote(tool):
    tool["inputSchema"]["$defs"] = {"a": {"$ref": "https://example.com/schema"}}


@of_tool("a tool has a space in its name", "TOOL-08.a", tool="add")
def spaced(tool):
    tool["name"] = "add two"


@result("a tool occurs twice", "TOOL-08.b", of="tools/list", when=is_first)
def twice(found):
    found["tools"].append(found["tools"][0])


success(
    "an unknown tool fails as a tool",
    "F09.a",
    of="tools/call",
    value=FAILED,
    when=is_call("mcpwire-no-such-tool"),
)
success(
    "a call without a name fails as a tool",
    "F09.b",
    of="tools/call",
    value=FAILED,
    when=lambda params: "name" not in params,
)
success(
    "a list of arguments fails as a tool",
    "F09.c",
    of="tools/call",
    value=FAILED,
    when=lambda params: isinstance(params.get("arguments"), list),
)
success(
    "arguments may be missing",
    "TOOL-18.a",
    "F09.d",
    of="tools/call",
    value=CONTENT,
    when=lacks,
)
success(
    "arguments may have any type",
    "TOOL-18.b",
    of="tools/call",
    value=CONTENT,
    when=has_value({"mcpwire": [1]}),
)
error(
    "arguments that are missing are an error of the protocol",
    "F09.d",
    of="tools/call",
    code=-32602,
    when=lacks,
)
error(
    "a call must have arguments",
    "F09.e",
    of="tools/call",
    code=-32602,
    when=lambda params: "arguments" not in params,
)
success(
    "names of tools have no case",
    "TOOL-08.c",
    of="tools/call",
    value=CONTENT,
    when=lambda params: str(params.get("name")).isupper(),
)


@result(
    "structured results break their schema", "TOOL-11.a", "TOOL-10.a", of="tools/call"
)
def unstructured(found):
    if "structuredContent" in found:
        found["structuredContent"] = {"result": {"not": "this"}}


@result("structured results are not in the text", "TOOL-10.a", of="tools/call")
def not_mirrored(found):
    if "structuredContent" in found:
        found["content"] = [{"type": "text", "text": "see the structured content"}]


@result("a picture of a tool is no Base64", "F13.a", of="tools/call")
def bad_picture(found):
    for block in found.get("content", ()):
        if block["type"] == "image":
            block["data"] = "data:image/png;base64,AAAA"


@result("line separators are lost", "F09.f", of="tools/call")
def lost(found):
    for block in found.get("content", ()):
        if block["type"] == "text":
            block["text"] = block["text"].replace("\u2028", " ")


# --- resources ------------------------------------------------------------------------

without_capability(
    "resources are not declared", "resources", "RES-01.a", "TOOL-14.a", "LIFE-11.d"
)
without_capability(
    "embedded resources alone", "resources", "TOOL-14.a", "RES-01.a", "LIFE-11.d"
)
error(
    "resources are declared and not listed",
    *("RES-02.a", "RPC-07.e"),
    of="resources/list",
    code=-32601,
    when=is_first,
    revision=MODERN,
)


@result(
    "a URI has spaces",
    "RES-11.a",
    "SCHEMA.ListResourcesResult",
    "F13.d",
    "F06.a",
    of="resources/list",
    when=is_first,
)
def bad_uri(found):
    found["resources"][0]["uri"] = "no uri"


@result(
    "a template is not closed",
    "RES-14.a",
    "SCHEMA.ListResourceTemplatesResult",
    of="resources/templates/list",
    when=is_first,
)
def bad_template(found):
    found["resourceTemplates"][0]["uriTemplate"] = "subject://item/{name"


NOWHERE = "mcpwire-check://no-such/resource"


def reads(uri):
    return lambda params: params.get("uri") == uri


error(
    "a resource that is not there is an internal error",
    "RES-04.a",
    of="resources/read",
    code=-32603,
    when=reads(NOWHERE),
    revision=MODERN,
)
error(
    "a resource that is not there is an invalid argument in a session",
    "RES-05.a",
    of="resources/read",
    code=-32602,
    when=reads(NOWHERE),
)
success(
    "a resource that is not there is empty",
    "RES-06.a",
    of="resources/read",
    value={**NAMED, "contents": [], "ttlMs": 0, "cacheScope": "private"},
    when=reads(NOWHERE),
    revision=MODERN,
)
success(
    "an empty URI is read",
    "RES-08.b",
    of="resources/read",
    value={"contents": [{"uri": "subject://text", "text": "a text"}]},
    when=reads(""),
)
success(
    "paths lead out",
    "RES-09.a",
    of="resources/read",
    value={"contents": [{"uri": "file:///etc/passwd", "text": "root:x:0:0:root:/\n"}]},
    when=lambda params: "etc/passwd" in str(params.get("uri")),
)
error(
    "a read without a URI is an internal error",
    "F13.b",
    of="resources/read",
    code=-32603,
    when=lambda params: "uri" not in params,
)

PICTURE = reads("subject://picture.png")


@result("a blob has no padding", "RES-08.a", of="resources/read", when=PICTURE)
def no_padding(found):
    found["contents"][0]["blob"] = found["contents"][0]["blob"].rstrip("=")


@result(
    "contents are a blob and a text",
    "F13.c",
    "F13.e",
    of="resources/read",
    when=PICTURE,
)
def both(found):
    found["contents"][0]["text"] = "and a text"


error(
    "a resource is listed and not there",
    "F13.d",
    of="resources/read",
    code=-32002,
    when=reads("subject://one"),
)


@result("a size is wrong", "F13.e", of="resources/list")
def bad_size(found):
    for each in found["resources"]:
        if "size" in each:
            each["size"] += 1


error(
    "subscriptions are declared and refused",
    "F06.a",
    of="resources/subscribe",
    code=-32601,
    when=lambda params: "uri" in params and not params["uri"].endswith("none"),
)
error(
    "the end of no subscription is an internal error",
    "F06.b",
    of="resources/unsubscribe",
    code=-32603,
    when=reads(NOWHERE),
)
success(
    "a subscription needs no URI",
    "F06.c",
    of="resources/subscribe",
    value={},
    when=lambda params: "uri" not in params,
)

# --- prompts and completion -----------------------------------------------------------

without_capability("prompts are not declared", "prompts", "PROMPT-01.a", "LIFE-11.d")
error(
    "prompts are declared and not listed",
    *("PROMPT-02.a", "RPC-07.e"),
    of="prompts/list",
    code=-32601,
    when=is_first,
    revision=MODERN,
)
error(
    "an unknown prompt is an internal error",
    "PROMPT-05.a",
    of="prompts/get",
    code=-32603,
    when=is_call("mcpwire-no-such-prompt"),
)
MESSAGES = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "a seeded fault"}}
    ]
}
success(
    "prompts may have holes",
    "PROMPT-05.b",
    of="prompts/get",
    value=MESSAGES,
    when=lambda params: params.get("arguments") == {},
)
error(
    "a prompt without a name is an internal error",
    "F09.g",
    of="prompts/get",
    code=-32603,
    when=lambda params: "name" not in params,
)


@result("prompts are empty", "F09.h", of="prompts/get")
def empty(found):
    found["messages"] = []


@result("a picture of a prompt is no Base64", "PROMPT-04.a", of="prompts/get")
def bad_prompt(found):
    for each in found["messages"]:
        if each["content"]["type"] == "image":
            each["content"]["data"] += "\n"


COMPLETES = "completion/complete"


def completes(kind, name=None):
    def when(params):
        ref = params.get("ref", {})
        return ref.get("type") == kind and name in (
            None,
            ref.get("name"),
            ref.get("uri"),
        )

    return when


def values(*found, **more):
    return {"completion": {"values": list(found), **more}}


without_capability(
    "completions are not declared", "completions", "COMP-01.a", "COMP-03.a"
)


@fault("completions are refused with another code", "COMP-03.a")
def refused(message, method, params, kept):
    if method == "initialize" and "result" in message:
        message["result"]["capabilities"].pop("completions")
    if method == COMPLETES:
        message.pop("result", None)
        message["error"] = {"code": -32603, "message": "a seeded fault"}


success(
    "an unknown prompt completes",
    "COMP-03.b",
    of=COMPLETES,
    value=values(),
    when=completes("ref/prompt", "mcpwire-no-such-prompt"),
)
success(
    "an unknown template completes",
    "F08.a",
    of=COMPLETES,
    value=values(),
    when=completes("ref/resource", "mcpwire-check://no-such/{name}"),
)
success(
    "no reference completes",
    "F08.b",
    of=COMPLETES,
    value=values(),
    when=completes("ref/none"),
)


def is_name(params):
    is_known = params.get("ref", {}).get("name") == "greet"
    return is_known and params.get("argument", {}).get("name") == "name"


success(
    "a completion has 101 values",
    "COMP-02.a",
    of=COMPLETES,
    value=values(*map(str, range(101))),
    when=is_name,
)
success(
    "a total is below its values",
    "F08.c",
    of=COMPLETES,
    value=values("a", "b", total=1),
    when=is_name,
)
error(
    "a context is refused",
    "F08.d",
    of=COMPLETES,
    code=-32602,
    when=lambda params: "context" in params,
)
success(
    "an argument that is not there completes",
    "F08.e",
    of=COMPLETES,
    value=values("a"),
    when=lambda params: params.get("argument", {}).get("name") == "mcpwire-none",
)

# --- pages ----------------------------------------------------------------------------

LISTS = (
    ("tools/list", "tools", "a"),
    ("resources/list", "resources", "b"),
    ("resources/templates/list", "resourceTemplates", "c"),
    ("prompts/list", "prompts", "d"),
)
NEXT = {"a": "e", "b": "f", "c": "g", "d": "h"}


def lists_on(name, case, of, when):
    """Answer a list request that should be refused with the first page."""

    @fault(name, case)
    def change(message, method, params, kept):
        if method == of and is_first(params):
            kept["page"] = message["result"]
        elif method == of and when(params["cursor"]):
            message.pop("error", None)
            message["result"] = kept["page"]


def unstable(of, key, case):
    """Reverse every second further page."""

    @fault(f"cursors of {of} are not stable", case)
    def change(message, method, params, kept):
        if method == of and not is_first(params) and "result" in message:
            kept["count"] = kept.get("count", 0) + 1
            if kept["count"] % 2:
                message["result"][key].insert(0, message["result"][key].pop())
                message["result"][key][:0] = kept.get("first", [])[:0]
                if len(message["result"][key]) == 1:
                    message["result"][key] *= 2


def repeat_item(of, key, *cases):
    """Repeat an item on the second page."""

    @fault(f"pages of {of} overlap", *cases)
    def change(message, method, params, kept):
        if method == of and "result" in message:
            if is_first(params):
                kept["item"] = message["result"][key][0]
            else:
                message["result"][key].insert(0, kept["item"])


for _list, _key, _letter in LISTS:
    lists_on(
        f"{_list} goes on with an unknown cursor",
        f"PAGE-06.{_letter}",
        _list,
        lambda cursor: cursor == "mcpwire-no-such-cursor",
    )
    lists_on(
        f"{_list} goes on with a number for a cursor",
        f"F05.{NEXT[_letter]}",
        _list,
        lambda cursor: not isinstance(cursor, str),
    )
    unstable(_list, _key, f"PAGE-06.{NEXT[_letter]}")
    repeat_item(
        _list, _key, f"F05.{_letter}", *(["TOOL-08.b"] if _letter == "a" else [])
    )

# --- caching --------------------------------------------------------------------------

CACHED = (
    ("server/discover", "a", "DiscoverResult"),
    ("tools/list", "b", "ListToolsResult"),
    ("prompts/list", "c", "ListPromptsResult"),
    ("resources/list", "d", "ListResourcesResult"),
    ("resources/templates/list", "e", "ListResourceTemplatesResult"),
    ("resources/read", "f", "ReadResourceResult"),
)

for _method, _letter, _schema in CACHED:
    _more = ["VER-05.a"] if _letter == "a" else []

    @result(
        f"{_method} does not say by whom it may be kept",
        f"CACHE-01.{_letter}",
        f"SCHEMA.{_schema}",
        *_more,
        of=_method,
        revision=MODERN,
    )
    def no_scope(found):
        del found["cacheScope"]

    @result(
        f"{_method} may be kept for less than nothing",
        f"CACHE-03.{_letter}",
        f"SCHEMA.{_schema}",
        *_more,
        of=_method,
        revision=MODERN,
    )
    def negative(found):
        found["ttlMs"] = -1


for _list, _, _letter in LISTS:

    @result(
        f"pages of {_list} have several scopes",
        f"CACHE-12.{_letter}",
        of=_list,
        when=lambda params: not is_first(params),
        revision=MODERN,
    )
    def other_scope(found):
        is_public = found["cacheScope"] == "public"
        found["cacheScope"] = "private" if is_public else "public"


# --- _meta, icons, media types --------------------------------------------------------


def in_meta(name, case, key):
    @result(name, case, of="tools/list")
    def change(found):
        found["tools"][0]["_meta"] = {key: 1}


in_meta("a prefix begins with a digit", "META-01.a", "1com.example/kind")
in_meta("a name begins with an underscore", "META-02.a", "com.example/_kind")
in_meta("a prefix belongs to MCP", "META-03.a", "dev.mcp/kind")


error(
    "keys of traces are refused",
    "F13.f",
    of="ping",
    code=-32602,
    when=lambda params: "traceparent" in params.get("_meta", {}),
)


@of_tool("an icon is a script", "F13.g", tool="search")
def script(tool):
    tool["icons"][0]["src"] = "javascript:alert(1)"


@of_tool("an icon is no Base64", "F13.h", tool="sample")
def bad_icon(tool):
    tool["icons"][0]["src"] = "data:image/png;base64,iVBO!"


@result("a media type is a suffix", "F13.i", of="resources/list", when=is_first)
def suffix(found):
    found["resources"][-1]["mimeType"] = "png"


@result("a time is a word", "F13.j", of="resources/list")
def yesterday(found):
    for each in found["resources"]:
        if "annotations" in each:
            each["annotations"]["lastModified"] = "yesterday"


@of_tool("a title is empty", "F13.k", tool="sample")
def untitled(tool):
    tool["title"] = " "


# --- fuzzed arguments -----------------------------------------------------------------


def internal(name, *cases, when):
    error(name, *cases, of="tools/call", code=-32603, when=when)


internal("a list for a text breaks a tool", "F09.i", when=has_value(["mcpwire"]))
internal("a missing argument breaks a tool", "F09.j", "F09.d", when=lacks)
internal("a number out of bounds breaks a tool", "F09.k", when=has_value(101))
internal("a text with NUL breaks a tool", "F09.l", when=has_value("\0"))
internal(
    "an unknown argument breaks a tool",
    "F09.m",
    when=lambda params: "__proto__" in (params.get("arguments") or {}),
)
internal("an extreme number breaks a tool", "F09.n", when=has_value(1e308))
internal("an argument that fits breaks a tool", "F09.o", when=has_value(10))
success(
    "bounds are not kept",
    "TOOL-18.c",
    of="tools/call",
    value=CONTENT,
    when=has_value(101),
)
error(
    "a number breaks a prompt",
    "F09.p",
    of="prompts/get",
    code=-32603,
    when=has_value(7),
)
error(
    "a NUL breaks a template",
    "F13.l",
    of="resources/read",
    code=-32603,
    when=lambda params: "%00" in str(params.get("uri")),
)


@fault("an error shows where it was raised", "D19.a", "PROMPT-05.b")
def trace(message, method, params, kept):
    if method == "prompts/get" and "error" in message:
        message["error"]["message"] = (
            'Traceback (most recent call last):\n  File "/srv/app.py", line 7, in run'
        )


def leak(held):
    message = json.loads(held["body"] or b"null")
    if isinstance(message, dict) and "error" in message and "id" in message:
        message["error"]["message"] = held["request"]["headers"]["authorization"]
        held["body"] = json.dumps(message).encode()


register(
    Mutant(
        "an error shows a token",
        ("D19.b",),
        transport="http",
        response=leak,
        is_guarded=True,
    )
)


# --- skills ---------------------------------------------------------------------------

without_capability(
    "skills without resources",
    "resources",
    "SKILL-01.a",
    "RES-01.a",
    "TOOL-14.a",
    "D18.c",
    revision=MODERN,
)


def of_skills(name, *cases):
    def add(function):
        @result(name, *cases, of="skills/list", revision=MODERN)
        def change(found):
            function(found["skills"])

        return function

    return add


@of_skills("a skill has another name than its folder", "SKILL-02.a", "SKILL-04.a")
def renamed(skills):
    skills[0]["frontmatter"]["name"] = "coffee"


@of_skills("a skill occurs twice", "SKILL-02.b")
def two(skills):
    skills.append(skills[0])


@of_skills("a file has another digest", "SKILL-03.a", "SKILL-04.a")
def changed(skills):
    skills[0]["resources"][0]["digest"] = "sha256:" + "0" * 64


@result(
    "a skill by itself is another one", "SKILL-04.a", of="skills/get", revision=MODERN
)
def other(found):
    found["skill"]["frontmatter"]["description"] = "How to make coffee."


error(
    "a skill that is not there is an internal error",
    "SKILL-04.b",
    of="skills/get",
    code=-32603,
    when=lambda params: "none" in params.get("uri", ""),
    revision=MODERN,
)
error(
    "a file is a broken folder",
    "SKILL-05.a",
    of="resources/directory/read",
    code=-32603,
    when=lambda params: params.get("uri", "").endswith(".md"),
    revision=MODERN,
)
