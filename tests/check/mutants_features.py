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


class Method:
    """The faults in the answers to one method, in one revision."""

    def __init__(self, name, revision="2025-11-25"):
        self.name = name
        self.revision = revision

    def answer(self, name, *cases, when=lambda params: True):
        """Register a function that changes an answer in place."""

        def add(function):
            @fault(name, *cases, revision=self.revision)
            def change(message, method, params, kept):
                if method == self.name and when(params):
                    function(message)

            return function

        return add

    def result(self, name, *cases, when=lambda params: True):
        """Register a function that changes a result in place."""

        def add(function):
            @self.answer(name, *cases, when=when)
            def change(message):
                if "result" in message:
                    function(message["result"])

            return function

        return add

    def error(self, code, name, *cases, when=lambda params: True):
        """Let the method fail with a code."""

        @self.answer(name, *cases, when=when)
        def change(message):
            message.pop("result", None)
            message["error"] = {"code": code, "message": "a seeded fault"}

    def success(self, value, name, *cases, when=lambda params: True):
        """Let a request that should fail succeed."""

        @self.answer(name, *cases, when=when)
        def change(message):
            message.pop("error", None)
            message["result"] = dict(value)


calls, modern_calls = Method("tools/call"), Method("tools/call", MODERN)
reads, modern_reads = Method("resources/read"), Method("resources/read", MODERN)
tool_list, resource_list = Method("tools/list"), Method("resources/list")
prompts, completions = Method("prompts/get"), Method("completion/complete")


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


def is_call(name):
    return lambda params: params.get("name") == name


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


def without(member):
    return lambda params: member not in params


is_first = without("cursor")


# --- tools ----------------------------------------------------------------------------

without_capability("tools are not declared", "tools", "TOOL-01.a")
Method("tools/list", MODERN).error(
    -32601,
    "tools are declared and not listed",
    *("TOOL-02.a", "B09.a", "F03.c", "RPC-07.e", "RPC-07.f", "VER-02.c"),
    when=is_first,
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


def of_tool(name, *cases, tool="echo"):
    """Register a function that changes one tool of the list."""

    def add(function):
        @tool_list.result(name, *cases)
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


@tool_list.result("a tool occurs twice", "TOOL-08.b", when=is_first)
def twice(found):
    found["tools"].append(found["tools"][0])


calls.success(
    FAILED,
    "an unknown tool fails as a tool",
    "F09.a",
    when=is_call("mcpwire-no-such-tool"),
)
calls.success(
    FAILED, "a call without a name fails as a tool", "F09.b", when=without("name")
)
calls.success(
    FAILED,
    "a list of arguments fails as a tool",
    "F09.c",
    when=lambda params: isinstance(params.get("arguments"), list),
)
calls.success(CONTENT, "arguments may be missing", "TOOL-18.a", "F09.d", when=lacks)
calls.success(
    CONTENT,
    "arguments may have any type",
    "TOOL-18.b",
    when=has_value({"mcpwire": [1]}),
)
calls.error(
    -32602,
    "arguments that are missing are an error of the protocol",
    "F09.d",
    when=lacks,
)
calls.error(-32602, "a call must have arguments", "F09.e", when=without("arguments"))
calls.success(
    CONTENT,
    "names of tools have no case",
    "TOOL-08.c",
    when=lambda params: str(params.get("name")).isupper(),
)


@calls.result("structured results break their schema", "TOOL-11.a", "TOOL-10.a")
def unstructured(found):
    if "structuredContent" in found:
        found["structuredContent"] = {"result": {"not": "this"}}


@calls.result("structured results are not in the text", "TOOL-10.a")
def not_mirrored(found):
    if "structuredContent" in found:
        found["content"] = [{"type": "text", "text": "see the structured content"}]


@calls.result("a picture of a tool is no Base64", "F13.a")
def bad_picture(found):
    for block in found.get("content", ()):
        if block["type"] == "image":
            block["data"] = "data:image/png;base64,AAAA"


@calls.result("line separators are lost", "F09.f")
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
Method("resources/list", MODERN).error(
    -32601,
    "resources are declared and not listed",
    *("RES-02.a", "RPC-07.e"),
    when=is_first,
)


@resource_list.result(
    "a URI has spaces",
    "RES-11.a",
    "SCHEMA.ListResourcesResult",
    "F13.d",
    "F06.a",
    when=is_first,
)
def bad_uri(found):
    found["resources"][0]["uri"] = "no uri"


@Method("resources/templates/list").result(
    "a template is not closed",
    "RES-14.a",
    "SCHEMA.ListResourceTemplatesResult",
    when=is_first,
)
def bad_template(found):
    found["resourceTemplates"][0]["uriTemplate"] = "subject://item/{name"


NOWHERE = "mcpwire-check://no-such/resource"


def of_uri(uri):
    return lambda params: params.get("uri") == uri


modern_reads.error(
    -32603,
    "a resource that is not there is an internal error",
    "RES-04.a",
    when=of_uri(NOWHERE),
)
reads.error(
    -32602,
    "a resource that is not there is an invalid argument in a session",
    "RES-05.a",
    when=of_uri(NOWHERE),
)
modern_reads.success(
    {**NAMED, "contents": [], "ttlMs": 0, "cacheScope": "private"},
    "a resource that is not there is empty",
    "RES-06.a",
    when=of_uri(NOWHERE),
)
reads.success(
    {"contents": [{"uri": "subject://text", "text": "a text"}]},
    "an empty URI is read",
    "RES-08.b",
    when=of_uri(""),
)
reads.success(
    {"contents": [{"uri": "file:///etc/passwd", "text": "root:x:0:0:root:/\n"}]},
    "paths lead out",
    "RES-09.a",
    when=lambda params: "etc/passwd" in str(params.get("uri")),
)
reads.error(
    -32603, "a read without a URI is an internal error", "F13.b", when=without("uri")
)

PICTURE = of_uri("subject://picture.png")


@reads.result("a blob has no padding", "RES-08.a", when=PICTURE)
def no_padding(found):
    found["contents"][0]["blob"] = found["contents"][0]["blob"].rstrip("=")


@reads.result("contents are a blob and a text", "F13.c", "F13.e", when=PICTURE)
def both(found):
    found["contents"][0]["text"] = "and a text"


reads.error(
    -32002, "a resource is listed and not there", "F13.d", when=of_uri("subject://one")
)


@resource_list.result("a size is wrong", "F13.e")
def bad_size(found):
    for each in found["resources"]:
        if "size" in each:
            each["size"] += 1


Method("resources/subscribe").error(
    -32601,
    "subscriptions are declared and refused",
    "F06.a",
    when=lambda params: "uri" in params and not params["uri"].endswith("none"),
)
Method("resources/unsubscribe").error(
    -32603,
    "the end of no subscription is an internal error",
    "F06.b",
    when=of_uri(NOWHERE),
)
Method("resources/subscribe").success(
    {}, "a subscription needs no URI", "F06.c", when=without("uri")
)

# --- prompts and completion -----------------------------------------------------------

without_capability("prompts are not declared", "prompts", "PROMPT-01.a", "LIFE-11.d")
Method("prompts/list", MODERN).error(
    -32601,
    "prompts are declared and not listed",
    *("PROMPT-02.a", "RPC-07.e"),
    when=is_first,
)
prompts.error(
    -32603,
    "an unknown prompt is an internal error",
    "PROMPT-05.a",
    when=is_call("mcpwire-no-such-prompt"),
)
MESSAGES = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "a seeded fault"}}
    ]
}
prompts.success(
    MESSAGES,
    "prompts may have holes",
    "PROMPT-05.b",
    when=lambda params: params.get("arguments") == {},
)
prompts.error(
    -32603,
    "a prompt without a name is an internal error",
    "F09.g",
    when=without("name"),
)


@prompts.result("prompts are empty", "F09.h")
def empty(found):
    found["messages"] = []


@prompts.result("a picture of a prompt is no Base64", "PROMPT-04.a")
def bad_prompt(found):
    for each in found["messages"]:
        if each["content"]["type"] == "image":
            each["content"]["data"] += "\n"


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
    if method == completions.name:
        message.pop("result", None)
        message["error"] = {"code": -32603, "message": "a seeded fault"}


completions.success(
    values(),
    "an unknown prompt completes",
    "COMP-03.b",
    when=completes("ref/prompt", "mcpwire-no-such-prompt"),
)
completions.success(
    values(),
    "an unknown template completes",
    "F08.a",
    when=completes("ref/resource", "mcpwire-check://no-such/{name}"),
)
completions.success(
    values(), "no reference completes", "F08.b", when=completes("ref/none")
)


def is_name(params):
    is_known = params.get("ref", {}).get("name") == "greet"
    return is_known and params.get("argument", {}).get("name") == "name"


completions.success(
    values(*map(str, range(101))),
    "a completion has 101 values",
    "COMP-02.a",
    when=is_name,
)
completions.success(
    values("a", "b", total=1), "a total is below its values", "F08.c", when=is_name
)
completions.error(
    -32602, "a context is refused", "F08.d", when=lambda params: "context" in params
)
completions.success(
    values("a"),
    "an argument that is not there completes",
    "F08.e",
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

    @Method(_method, MODERN).result(
        f"{_method} does not say by whom it may be kept",
        f"CACHE-01.{_letter}",
        f"SCHEMA.{_schema}",
        *_more,
    )
    def no_scope(found):
        del found["cacheScope"]

    @Method(_method, MODERN).result(
        f"{_method} may be kept for less than nothing",
        f"CACHE-03.{_letter}",
        f"SCHEMA.{_schema}",
        *_more,
    )
    def negative(found):
        found["ttlMs"] = -1


for _list, _, _letter in LISTS:

    @Method(_list, MODERN).result(
        f"pages of {_list} have several scopes",
        f"CACHE-12.{_letter}",
        when=lambda params: not is_first(params),
    )
    def other_scope(found):
        is_public = found["cacheScope"] == "public"
        found["cacheScope"] = "private" if is_public else "public"


# --- _meta, icons, media types --------------------------------------------------------


def in_meta(name, case, key):
    @tool_list.result(name, case)
    def change(found):
        found["tools"][0]["_meta"] = {key: 1}


in_meta("a prefix begins with a digit", "META-01.a", "1com.example/kind")
in_meta("a name begins with an underscore", "META-02.a", "com.example/_kind")
in_meta("a prefix belongs to MCP", "META-03.a", "dev.mcp/kind")


Method("ping").error(
    -32602,
    "keys of traces are refused",
    "F13.f",
    when=lambda params: "traceparent" in params.get("_meta", {}),
)


@of_tool("an icon is a script", "F13.g", tool="search")
def script(tool):
    tool["icons"][0]["src"] = "javascript:alert(1)"


@of_tool("an icon is no Base64", "F13.h", tool="sample")
def bad_icon(tool):
    tool["icons"][0]["src"] = "data:image/png;base64,iVBO!"


@resource_list.result("a media type is a suffix", "F13.i", when=is_first)
def suffix(found):
    found["resources"][-1]["mimeType"] = "png"


@resource_list.result("a time is a word", "F13.j")
def yesterday(found):
    for each in found["resources"]:
        if "annotations" in each:
            each["annotations"]["lastModified"] = "yesterday"


@of_tool("a title is empty", "F13.k", tool="sample")
def untitled(tool):
    tool["title"] = " "


# --- fuzzed arguments -----------------------------------------------------------------


def internal(name, *cases, when):
    calls.error(-32603, name, *cases, when=when)


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
calls.success(CONTENT, "bounds are not kept", "TOOL-18.c", when=has_value(101))
prompts.error(-32603, "a number breaks a prompt", "F09.p", when=has_value(7))
reads.error(
    -32603,
    "a NUL breaks a template",
    "F13.l",
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
        @Method("skills/list", MODERN).result(name, *cases)
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


@Method("skills/get", MODERN).result("a skill by itself is another one", "SKILL-04.a")
def other(found):
    found["skill"]["frontmatter"]["description"] = "How to make coffee."


Method("skills/get", MODERN).error(
    -32603,
    "a skill that is not there is an internal error",
    "SKILL-04.b",
    when=lambda params: "none" in params.get("uri", ""),
)
Method("resources/directory/read", MODERN).error(
    -32603,
    "a file is a broken folder",
    "SKILL-05.a",
    when=lambda params: params.get("uri", "").endswith(".md"),
)
