"""What a user's type checker sees of the public API; checked by mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import mcpwire
from mcpwire import transports, types


@dataclass
class Sum:
    """A caller's own type."""

    sum: int


async def tools(client: mcpwire.Client) -> None:
    """Tools, their results, and the options every request takes."""
    assert_type(await client.list_tools(timeout=5), list[types.Tool])
    assert_type(await client.list_tools_page("cursor"), types.ListToolsResult)
    async for tool in client.iter_tools(meta={"a": 1}):
        assert_type(tool.name, str)
        assert_type(tool.annotations, types.ToolAnnotations | None)
    result = await client.call_tool(
        "add", {"a": 1}, timeout=None, on_progress=print, check=True
    )
    assert_type(result, types.CallToolResult)
    assert_type(result.text, str)
    assert_type(result.is_error, bool)
    assert_type(result.as_(Sum), Sum)
    assert_type(result.raise_for_error(), types.CallToolResult)


async def the_rest(client: mcpwire.Client) -> None:
    """Resources, prompts, completion, and what is raw."""
    assert_type(await client.list_resources(), list[types.Resource])
    assert_type(await client.list_resource_templates(), list[types.ResourceTemplate])
    assert_type(await client.read_resource("a:b"), types.ReadResourceResult)
    assert_type(await client.read_text("a:b"), str)
    assert_type(await client.read_bytes("a:b"), bytes)
    assert_type(await client.get_prompt("p", {"a": "b"}), types.GetPromptResult)
    found = await client.complete(types.PromptReference("p"), "a", "b")
    assert_type(found, types.CompleteResult)
    assert_type(await client.ping(), float)
    assert_type(await client.request("x/y", {"a": 1}), dict[str, Any])
    await client.notify("x/y")


async def whole() -> None:
    """Targets, lifetime, facts and errors."""

    def heard(notification: mcpwire.Notification) -> None:
        assert_type(notification.method, str)

    target = mcpwire.Stdio(
        "cat", ["-u", Path("a")], env={"A": "b"}, cwd="/", inherit_env=["C"]
    )
    async with mcpwire.Client(target, on_notification=heard) as client:
        assert_type(client, mcpwire.Client)
        assert_type(client.protocol_version, str | None)
        assert_type(client.server_info, types.Implementation | None)
        assert_type(client.capabilities, types.ServerCapabilities | None)
        assert_type(client.negotiation, mcpwire.Negotiation | None)
        assert_type(client.stats, mcpwire.ClientStats)
        try:
            await client.call_tool("x")
        except mcpwire.RPCError as error:
            assert_type(error.code, int)
        except mcpwire.ConnectionClosed as error:
            assert_type(error.sent, bool)
            assert_type(error.exit_code, int | None)
    for command in (Path("server.py"), ["python", "server.py"]):
        await mcpwire.Client(command).aclose()
    await mcpwire.Client({"mcpServers": {"a": {"command": "cat"}}}).aclose()
    program = mcpwire.ClientCredentials(client_id="a", client_secret="b", issuer="c")
    for grant in [program, mcpwire.OAuth()]:
        mcpwire.Http("https://a/mcp", auth=grant)
    await mcpwire.Client(transports.Reverse()).aclose()
    await mcpwire.Client("cat", limits=mcpwire.Limits(message=1024)).aclose()


def blocking() -> None:
    """The blocking client: the same, and nothing is awaited."""
    with mcpwire.sync.Client("cat", background=True, on_notification=print) as client:
        assert_type(client, mcpwire.sync.Client)
        assert_type(client.call_tool("add", {"a": 1}), types.CallToolResult)
        assert_type(client.list_tools(timeout=5), list[types.Tool])
        for tool in client.iter_tools():
            assert_type(tool, types.Tool)
        assert_type(client.read_text("a:b"), str)
        assert_type(client.request("x/y"), dict[str, Any])
        assert_type(client.protocol_version, str | None)
        assert_type(client.stats, mcpwire.ClientStats)
        for event in client.events():
            assert_type(event, mcpwire.Notification)
        with client.listen(["a:b"], tools=True) as changes:
            assert_type(next(changes), mcpwire.Notification)
        with client.watch("a:b") as contents:
            assert_type(next(contents), types.ReadResourceResult)
        call = client.start_call("slow")
        assert_type(call, mcpwire.sync.PendingCall[types.CallToolResult])
        assert_type(call.result(timeout=5), types.CallToolResult)
        call.cancel("enough")
        client.call_tool(1)  # type: ignore[arg-type]  # a tool has a name
        client.aclose()  # type: ignore[attr-defined]  # it is called close
        mcpwire.Client("cat", background=True)  # type: ignore[call-arg]  # only here
    client.close()


async def many(target: str) -> None:
    """Groups, their tools, and the functions that a host gives."""

    def approve(call: mcpwire.ToolCall) -> bool | dict[str, Any]:
        return {**call.arguments, "to": "ada"} if call.needs_confirmation else True

    def model(_: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult("assistant", types.TextContent("x"), "m")

    look_up = mcpwire.ToolTransform(rename={"topic": "query"}, fixed={"token": 1})
    async with mcpwire.Group({"a": target}) as group:
        group["a"].set_handlers(sampling=model, roots=[Path("/")])
        tools = await group.tools(approve=approve, transforms={"a/search": look_up})
        offered = tools.to_anthropic()
        for call in offered.calls({"content": []}):
            outcome = call.problem or await tools.call(call.name, call.arguments)
            assert_type(offered.results([(call, outcome)]), list[types.JsonObject])


async def refused(client: mcpwire.Client) -> None:
    """What a type checker must not let pass."""
    mcpwire.Http("https://x.example", headers=5)  # type: ignore[arg-type]
    mcpwire.Http("https://x.example", ca_file=5)  # type: ignore[arg-type]
    mcpwire.Http("https://x.example", client_cert=5)  # type: ignore[arg-type]
    mcpwire.Http("https://x.example", connect_timeout="5")  # type: ignore[arg-type]
    mcpwire.OAuth(timeout="5")  # type: ignore[arg-type]
    mcpwire.Member(5)  # type: ignore[arg-type]
    mcpwire.Client(5)  # type: ignore[arg-type]  # no target
    mcpwire.Cleint("cat")  # type: ignore[attr-defined]  # no such name
    types.Text("x")  # type: ignore[attr-defined]  # nor that
    await client.call_tool(1)  # type: ignore[arg-type]  # a tool has a name
    await client.list_tools(time=1)  # type: ignore[call-arg]  # no such option
    await client.read_resource()  # type: ignore[call-arg]  # of what?
    types.Tool()  # type: ignore[call-arg]  # a tool has a name and a schema
