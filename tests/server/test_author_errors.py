"""`Server`: options refused at construction, and log messages for its author."""

import traceback
from typing import Any

import httpx
import pydantic
import pytest

from mcpwire import Client, Http, Server, Tasks
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


@pytest.mark.parametrize("over", ["memory", "HTTP"])
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

    async with httpx.AsyncClient(transport=AsgiTransport(server.asgi())) as http:
        target = Http("http://localhost/mcp", http_client=http)
        async with Client(server if over == "memory" else target) as client:
            for tool in ("in_thread", "on_loop", "opaque", "held"):
                await client.call_tool(tool)
    shown = [each.exc_info for each in caplog.records if each.exc_info]
    frames = [[at.name for at in traceback.extract_tb(each[2])] for each in shown]
    assert frames[:2] == [["in_thread", "look_up"], ["on_loop"]]
    assert isinstance(shown[1][1].__cause__, KeyError)
    # Without a frame of the author's code the traceback stays whole.
    assert [each[0] for each in frames[2:]] == ["run_handler", "run_handler"]


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
