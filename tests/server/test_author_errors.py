"""`Server`: options refused at construction, and log messages for its author."""

import contextlib
import traceback
from typing import Any

import httpx
import pydantic
import pytest

from mcpwire import (
    Client,
    File,
    Http,
    InternalError,
    InvalidParams,
    Server,
    Tasks,
    ToolError,
    types,
)
from mcpwire.testing import AsgiTransport


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auth": "a-token"}, "auth takes a ResourceServer, got a str"),
        ({"lifespan": 3}, "lifespan must be a function, got 3"),
        ({"name": None}, "name must be a text, got None"),
        ({"version": 2}, "version must be a text, got 2"),
        ({"website_url": 3}, "website_url must be a text, got 3"),
        ({"title": 3}, "title must be a text, got 3"),
        ({"icons": "a.png"}, "icons takes a list, got 'a.png'"),
    ],
)
async def test_options_of_the_wrong_type_are_refused(options, message):
    with pytest.raises(TypeError, match=message):
        Server(**{"name": "x", **options})


@contextlib.asynccontextmanager
async def opened(server, over):
    async with httpx.AsyncClient(transport=AsgiTransport(server.asgi())) as http:
        target = Http("http://localhost/mcp", http_client=http)
        async with Client(server if over == "memory" else target) as client:
            yield client


OVER = pytest.mark.parametrize("over", ["memory", "HTTP"])


@OVER
async def test_logged_traceback_starts_in_the_authors_code(server, over, caplog):
    def look_up():
        raise KeyError("key")

    @server.tool
    def in_thread() -> str:
        look_up()

    @server.tool
    async def on_loop() -> str:
        try:
            look_up()
        except KeyError as error:
            raise LookupError("nothing there") from error

    @server.tool
    async def opaque() -> object:
        return object()

    class Holder(pydantic.BaseModel):
        held: Any

    @server.tool
    async def held() -> Holder:
        return Holder(held=object())

    async with opened(server, over) as client:
        for tool in ("in_thread", "on_loop", "opaque", "held"):
            await client.call_tool(tool)
    shown = [each.exc_info for each in caplog.records if each.exc_info]
    frames = [[at.name for at in traceback.extract_tb(each[2])] for each in shown]
    assert frames[:2] == [["in_thread", "look_up"], ["on_loop"]]
    assert isinstance(shown[1][1].__cause__, KeyError)
    # Without a frame of the author's code the traceback stays whole.
    assert [each[0] for each in frames[2:]] == ["run_handler", "run_handler"]


BAD_NAME = "caf\udce9"
SURROGATE = "a lone surrogate stands at index 3"
BAD_TEXT = types.TextContent(BAD_NAME)
BAD_RESULTS = [
    (str, BAD_NAME),
    (dict[str, list[str]], {"name": [BAD_NAME]}),
    *((Any, value) for value in (BAD_NAME, [BAD_NAME, File(b"x")], BAD_TEXT)),
    (Any, types.CallToolResult([BAD_TEXT])),
    (Any, types.CallToolResult([], {"name": BAD_NAME})),
    (Any, types.ResourceLink(uri="test://a", name=BAD_NAME)),
    (Any, File(b"x", uri=BAD_NAME)),
]


@OVER
@pytest.mark.parametrize(("hint", "value"), BAD_RESULTS, ids=range(len(BAD_RESULTS)))
async def test_tool_result_without_a_json_form_is_a_failure_that_names_it(
    server, over, hint, value, caplog
):
    def tool():
        return value

    tool.__annotations__["return"] = hint
    server.add_tool(tool)
    async with opened(server, over) as client:
        result = await client.call_tool("tool")
    assert result.is_error
    assert "the result cannot be sent" in result.text
    assert SURROGATE in result.text
    assert SURROGATE in caplog.text
    assert "'tools/call' of 'tool'" in caplog.text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("resource", value) for value in (BAD_NAME, [BAD_NAME], {"name": BAD_NAME})),
        ("resource", types.TextResourceContents(uri="test://a", text=BAD_NAME)),
        ("resource", File(b"x", uri=BAD_NAME)),
        *(
            ("prompt", value)
            for value in (BAD_NAME, types.PromptMessage("user", BAD_TEXT))
        ),
        ("prompt", {"role": "user", "content": BAD_NAME}),
        ("prompt", {"role": "user", "content": {"type": "text", "text": BAD_NAME}}),
        ("prompt", types.GetPromptResult([], description=BAD_NAME)),
    ],
    ids=range(10),
)
@OVER
async def test_resource_or_prompt_without_a_json_form_is_an_error_that_names_it(
    server, over, kind, value, caplog
):
    server.add_resource("test://a", lambda: value, name="r")
    server.add_prompt(lambda: value, name="p")
    async with opened(server, over) as client:
        ask, what = {
            "resource": (client.read_resource, "test://a"),
            "prompt": (client.get_prompt, "p"),
        }[kind]
        with pytest.raises(InternalError, match=SURROGATE):
            await ask(what)
    assert SURROGATE in caplog.text


@OVER
async def test_text_of_an_error_with_a_lone_surrogate_is_sent_escaped(server, over):
    @server.tool
    def tool():
        raise ToolError(f"cannot read {BAD_NAME}")

    @server.resource("test://a")
    def resource():
        raise InvalidParams(f"cannot read {BAD_NAME}")

    async with opened(server, over) as client:
        result = await client.call_tool("tool")
        with pytest.raises(InvalidParams, match=r"cannot read caf\\udce9"):
            await client.read_resource("test://a")
    assert result.is_error
    assert result.text == "cannot read caf\\udce9"


@pytest.mark.parametrize(
    ("task", "extensions", "told"),
    [
        ("required", [], ["the tool 't' needs the extension Tasks"]),
        ("required", [Tasks()], []),
        ("optional", [], []),
    ],
)
async def test_missing_tasks_extension_of_a_tool_is_logged(
    task, extensions, told, caplog
):
    server = Server("x", "1", extensions=extensions)
    server.add_tool(lambda: 1, name="t", task=task)
    async with Client(server) as client:
        await client.list_tools()
    assert [each.getMessage() for each in caplog.records] == told
