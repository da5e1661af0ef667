"""Tools: list, schemas, refused calls, results."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import MODERN, Family, since
from mcpwire.check.cases._calls import echo_params
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
from mcpwire.check.cases._items import (
    TOOLS,
    add_list_cases,
    call_tools,
    expect_base64,
    fetch_names,
    has_header,
    media_in,
    quick_tools,
    walk,
)
from mcpwire.check.roles import call_params
from mcpwire.check.schemas import load_validators
from mcpwire.errors import MCPError
from mcpwire.protocol.json_schema import properties_of, required_of
from mcpwire.protocol.output_validation import SchemaValidator

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("tools")

NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
SENDS_NOTHING: Final = "nothing; checks the listed tools"
SENDS_CALLS: Final = "calls to the callable tools, with arguments from their schemas"

_DIALECTS: Final = re.compile(
    r"https?://json-schema\.org/(draft-0[467]|draft/2019-09|draft/2020-12)/schema#?"
)

listed = FAMILY.with_defaults(needs=("tool:",), sends=SENDS_NOTHING)
calls = FAMILY.with_defaults(needs=("call:",))
newer_calls = calls.with_defaults(revisions=since("2025-11-25"))
results = newer_calls.with_defaults(sends=SENDS_CALLS, revisions=since("2025-06-18"))


# --- list and schemas -----------------------------------------------------------------


add_list_cases(FAMILY, TOOLS, ("TOOL-01.a", "TOOL-02.a", "TOOL-03.a"))


@listed.should(
    "TOOL-04.a",
    "tools are listed in the same order each time",
    source="server/tools#capabilities",
    revisions=MODERN,
    sends="tools/list, page by page, twice",
    expects="the same tools in the same order",
    why="each change of the order invalidates the model's prompt cache",
)
async def same_order(subject: Subject) -> None:
    first, second = await fetch_names(subject, TOOLS), await fetch_names(subject, TOOLS)
    if sorted(first) != sorted(second):
        subject.raise_absent("stable list of tools")
    subject.expect(first == second, str(first), second)


def _check_schemas(subject: Subject, member: str) -> None:
    """Validate a schema of each tool with the meta-schema of its dialect."""
    seen = 0
    for tool in subject.facts.tools:
        schema = tool.get(member)
        if not isinstance(schema, dict):
            continue
        dialect = schema.get("$schema")
        if dialect is not None and not _DIALECTS.fullmatch(str(dialect)):
            continue
        seen += 1
        rs = load_validators()
        try:
            rs.meta.validate(schema)
        except rs.ValidationError as error:
            problem = error.message[:150]
            subject.raise_broken(f"a valid JSON Schema as {member}: {problem}", tool)
    if not seen:
        subject.raise_absent(f"{member} of a known dialect")


@listed.must(
    "TOOL-06.a",
    "each inputSchema is a valid JSON Schema",
    source="server/tools#tool",
    revisions=since("2025-11-25"),
    expects="each inputSchema is valid in its dialect, by default 2020-12",
    why="clients and models reject the tool, and some the whole list",
)
async def input_schemas(subject: Subject) -> None:
    _check_schemas(subject, "inputSchema")


@listed.must(
    "SCH-05.a",
    "each outputSchema is a valid JSON Schema",
    source="basic/index#schema-validation",
    revisions=since("2025-11-25"),
    expects="each outputSchema is valid in its dialect, by default 2020-12",
    why="a client that validates results rejects all results of the tool",
)
async def output_schemas(subject: Subject) -> None:
    _check_schemas(subject, "outputSchema")


@listed.robust(
    "F10.a",
    "schemas of tools have no external $ref",
    rules=("SCH-06", "SCH-09"),
    expects="each $ref is within its own schema, or names a JSON Schema dialect",
    why="clients must not fetch such schemas, and should reject them",
)
async def schemas_stand_alone(subject: Subject) -> None:
    for tool in subject.facts.tools:
        for member in ("inputSchema", "outputSchema"):
            for ref in re.findall(
                r'"\$ref": ?"([a-z][a-z0-9+.-]*:[^"]*)"', json.dumps(tool.get(member))
            ):
                is_dialect = ref.startswith(
                    ("http://json-schema.org/", "https://json-schema.org/")
                )
                subject.expect(is_dialect, f"no external $ref in {member}", tool)


@listed.should(
    "TOOL-08.a",
    "tool names have 1 to 128 characters from A-Z, a-z, 0-9, _, - and .",
    source="server/tools#tool-names",
    revisions=since("2025-11-25"),
    expects="each name has 1 to 128 of these characters, and no others",
    why="model APIs reject the whole request if one tool has another name",
)
async def names_fit(subject: Subject) -> None:
    for tool in subject.facts.tools:
        name = tool.get("name")
        fits = isinstance(name, str) and NAME.fullmatch(name)
        subject.expect(fits, "1 to 128 of A-Z a-z 0-9 _ - .", name)


@listed.should(
    "TOOL-08.b",
    "names of tools are unique",
    source="server/tools#tool-names",
    revisions=since("2025-11-25"),
    sends="tools/list, page by page",
    expects="no name twice",
    why="one of the tools cannot be called",
)
async def names_are_unique(subject: Subject) -> None:
    names = await fetch_names(subject, TOOLS)
    duplicates = sorted({name for name in names if names.count(name) > 1})
    subject.expect(not duplicates, "no name twice", duplicates)


# --- refused calls --------------------------------------------------------------------

add_exchange_case(
    FAMILY.robust,
    "F09.a",
    "a call to an unknown tool is answered with -32602",
    rules=("TOOL-15",),
    needs=("tools",),
    send=Request("tools/call", {"name": "mcpwire-no-such-tool", "arguments": {}}),
    expect=Error(-32602),
    why="a client cannot tell a missing tool from a failed one",
)

add_exchange_case(
    FAMILY.robust,
    "F09.b",
    "a call without a tool name is answered with an error",
    rules=("TOOL-15",),
    needs=("tools",),
    send=Request("tools/call", {"arguments": {}}),
    expect=Error(-32602, -32600, -32020),
    why="an invalid request looks like a failed tool",
)


def _echo_with(arguments: Any) -> Any:
    return lambda subject: {
        "name": subject.need_tool("echo")["name"],
        "arguments": arguments,
    }


add_exchange_case(
    FAMILY.robust,
    "F09.c",
    "a call whose arguments are not an object is answered with an error",
    rules=("TOOL-15",),
    needs=("role:echo",),
    send=Request(
        "tools/call",
        _echo_with(["mcpwire"]),
        text="a call to a tool with an array as its arguments",
    ),
    expect=Error(-32602, -32600),
    why="an invalid request looks like a failed tool",
)


async def _call_with_invalid(
    subject: Subject, tool: dict[str, Any], arguments: Any
) -> Answer:
    """Call a tool with arguments that it must refuse; verdict `lenient` on success."""
    answer = await subject.request("tools/call", call_params(tool, arguments))
    if not answer.has_failed:
        subject.raise_lenient("an error, or a result with isError", answer)
    return answer


def _required_argument(subject: Subject) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """Return a tool, the name of a required argument, and valid arguments."""
    candidates = [
        (tool, name, arguments)
        for tool, arguments in quick_tools(subject)
        for name in required_of(tool.get("inputSchema") or {})
    ]
    return (
        candidates[0]
        if candidates
        else subject.raise_absent("tool that requires an argument")
    )


@calls.must(
    "TOOL-18.a",
    "a call without a required argument is refused",
    source="server/tools#security-considerations",
    rules=("TOOL-16",),
    sends="a call to a tool without an argument that its schema requires",
    expects="an error, or a result with isError; lenient: another result",
    why="the tool runs with invalid arguments",
)
async def missing_argument(subject: Subject) -> None:
    tool, name, arguments = _required_argument(subject)
    await _call_with_invalid(
        subject, tool, {k: v for k, v in arguments.items() if k != name}
    )


@calls.must(
    "TOOL-18.b",
    "a call with an argument of the wrong type is refused",
    source="server/tools#security-considerations",
    rules=("TOOL-16",),
    sends="a call with an object for an argument that is a string, number or boolean",
    expects="an error, or a result with isError; lenient: another result",
    why="the tool runs with invalid arguments",
)
async def wrong_type(subject: Subject) -> None:
    tool, name, arguments = _required_argument(subject)
    schema = properties_of(tool["inputSchema"]).get(name)
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind not in {"string", "number", "integer", "boolean"}:
        subject.raise_absent("required argument that is a string, number or boolean")
    await _call_with_invalid(subject, tool, {**arguments, name: {"mcpwire": [1]}})


@newer_calls.robust(
    "F09.d",
    "invalid arguments are reported to the model",
    rules=("TOOL-16",),
    sends="a call without an argument that the tool's schema requires",
    expects="a result with isError, not a protocol error; lenient: another result",
    why="the model does not see its mistake, and cannot correct it",
)
async def errors_reach_model(subject: Subject) -> None:
    tool, name, arguments = _required_argument(subject)
    answer = await _call_with_invalid(
        subject, tool, {k: v for k, v in arguments.items() if k != name}
    )
    subject.expect(answer.result is not None, "a result with isError", answer)


@calls.robust(
    "F09.e",
    "a call may omit `arguments` if none is required",
    sends="a call to a tool that requires nothing, with {} and without arguments",
    expects="a result as with empty arguments",
    why="calls of clients that omit empty arguments fail",
)
async def no_arguments(subject: Subject) -> None:
    for tool, arguments in quick_tools(subject)[:8]:
        if arguments:
            continue
        params = {"name": tool["name"]}
        with_empty = await subject.request("tools/call", {**params, "arguments": {}})
        if with_empty.has_failed:
            continue
        without = await subject.request("tools/call", params)
        fits = not without.has_failed
        subject.expect(fits, "a result as with empty arguments", without)
        return
    subject.raise_absent("tool that succeeds without arguments")


@newer_calls.should(
    "TOOL-08.c",
    "names of tools are case-sensitive",
    source="server/tools#tool-names",
    sends="a call to a tool by its name with upper and lower case swapped",
    expects="an error, or a result with isError",
    why="client rules for tool names can be bypassed",
)
async def case_of_names(subject: Subject) -> None:
    names = {tool.get("name") for tool in subject.facts.tools}
    for tool, arguments in quick_tools(subject):
        name = tool["name"].swapcase()
        if name in names:
            continue
        params = {"name": name, "arguments": arguments}
        answer = await subject.request("tools/call", params)
        subject.expect(answer.has_failed, f"an error for {name!r}", answer)
        return
    subject.raise_absent("tool with letters in its name")


# --- results --------------------------------------------------------------------------


@results.must(
    "TOOL-11.a",
    "structured results match the outputSchema",
    source="server/tools#output-schema",
    expects="structuredContent that matches the outputSchema, unless isError is set",
    why="clients reject the result, or programs read missing values",
)
async def structured_results(subject: Subject) -> None:
    async for tool, answer in call_tools(subject):
        schema = tool.get("outputSchema")
        if not isinstance(schema, dict) or not _is_complete(answer):
            continue
        result = answer.result or {}
        has_it = "structuredContent" in result
        subject.expect(has_it, "structuredContent, as there is an outputSchema", answer)
        try:
            problem = SchemaValidator(schema).check(result["structuredContent"])
        except MCPError:
            continue  # SCH-05 and F10 report a faulty schema
        subject.expect(problem is None, f"a valid result: {problem}", answer)
    subject.need_expectation("successful call to a tool with an outputSchema")


def _is_complete(answer: Answer) -> bool:
    """Return whether an answer is a result with content and without `isError`."""
    return not answer.has_failed and "content" in (answer.result or {})


@results.should(
    "TOOL-10.a",
    "structured results are also sent as text",
    source="server/tools#structured-content",
    expects="a text block with the JSON of structuredContent, or of its only member",
    why="clients without structured content see no result",
)
async def mirrored_as_text(subject: Subject) -> None:
    async for _, answer in call_tools(subject):
        result = answer.result or {}
        if not _is_complete(answer) or "structuredContent" not in result:
            continue
        value = result["structuredContent"]
        blocks = walk(result["content"])
        texts = [b["text"] for b in blocks if isinstance(b.get("text"), str)]
        allowed = [value]
        if isinstance(value, dict) and len(value) == 1:
            # Libraries wrap a value that is no object in an object with one member.
            allowed += value.values()
        mirrors = any(_is_json_of(text, each) for text in texts for each in allowed)
        subject.expect(mirrors, "the same JSON in a text block", answer)
    subject.need_expectation("structured result")


def _is_json_of(text: str, value: Any) -> bool:
    if text == value:
        return True
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


@calls.should(
    "F13.a",
    "images and audio in tool results are strict Base64 and have a media type",
    source="server/tools#image-content",
    rules=("TOOL-18",),
    sends=SENDS_CALLS,
    expects="data that decodes, and a mimeType such as image/png",
    why="the image or audio cannot be presented",
)
async def media(subject: Subject) -> None:
    async for _, answer in call_tools(subject):
        for block in media_in((answer.result or {}).get("content")):
            expect_base64(subject, block.get("data"), answer)
            media_type = str(block.get("mimeType"))
            fits = re.fullmatch(rf"{block['type']}/[\w.+-]+(;.*)?", media_type)
            subject.expect(fits, f"a mimeType {block['type']}/...", answer)
    subject.need_expectation("image or audio")


@results.should(
    "TOOL-14.a",
    "a server whose tools embed resources declares resources",
    source="server/tools#embedded-resources",
    expects="the capability resources, if a result has an embedded resource",
    why="the client cannot read the resource again",
)
async def embedded_resources(subject: Subject) -> None:
    async for _, answer in call_tools(subject):
        for block in walk((answer.result or {}).get("content")):
            if block.get("type") == "resource":
                has_it = subject.facts.declares("resources")
                subject.expect(has_it, "the capability resources", answer)
    subject.need_expectation("embedded resource")


@FAMILY.robust(
    "F09.f",
    "the `echo` tool returns any text unchanged",
    needs=("role:echo",),
    sends="calls with text in several scripts, control characters, quotes, line ends",
    expects="the same text in the result",
    why="users' text is lost or changed",
)
async def echoed_texts(subject: Subject) -> None:
    tool = subject.need_tool("echo")
    if has_header(tool) and subject.http is not None:
        subject.raise_absent("`echo` tool without x-mcp-header")
    for index, text in enumerate(
        (
            "\u00fc\u4e2d\u6587\U0001f600",
            'a"b\\c\nd\te',
            "\u2028\u2029\u0085",
            "\x7f\x01",
        )
    ):
        answer = await subject.request("tools/call", echo_params(subject, text))
        returned = [b.get("text") for b in walk((answer.result or {}).get("content"))]
        if not index and not any("\u4e2d\u6587" in str(each) for each in returned):
            subject.raise_absent("`echo` tool that returns its text")
        subject.expect(any(text in str(each) for each in returned), repr(text), answer)
