"""Uses our server by the official Python SDK's client. See `alike`."""

import anyio
import mcp_types as types
from client_program import NOTE, TIMEOUT_S, Recorder, outcome, run
from mcp import Client
from mcp.client.stdio import StdioServerParameters


class RecordingHandlers(Recorder):
    """Records the notifications of the server, and answers its requests."""

    async def message(self, message):
        match message:
            case types.ResourceUpdatedNotification():
                self.add_change(f"updated {message.params.uri}")
            case types.ToolListChangedNotification():
                self.add_change("tools")

    async def elicit(self, context, params):
        return types.ElicitResult(action="accept", content={"name": "Bob", "age": 7})

    async def sample(self, context, params):
        text = params.messages[-1].content.text.upper()
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=text),
            model="m",
        )

    async def roots(self, context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])


async def listen(client, handlers, mode):
    """Return the notifications of a change."""
    if mode == "legacy":
        await client.subscribe_resource(NOTE)
        await client.call_tool("change")
        return await handlers.both()
    changes = set()
    async with client.listen(
        tools_list_changed=True, resource_subscriptions=[NOTE]
    ) as events:
        await client.call_tool("change")
        with anyio.fail_after(TIMEOUT_S):
            async for event in events:
                uri = getattr(event, "uri", None)
                changes.add(f"updated {uri}" if uri else "tools")
                if len(changes) == 2:
                    break
    return sorted(changes)


def connect(target, mode, handlers):
    return Client(
        target,
        mode=mode,
        sampling_callback=handlers.sample,
        elicitation_callback=handlers.elicit,
        list_roots_callback=handlers.roots,
        logging_callback=handlers.log,
        message_handler=handlers.message,
        log_level="debug",
    )


async def use(target, mode):
    handlers = RecordingHandlers()
    client = connect(target, mode, handlers)
    async with client:
        if mode == "legacy":
            await client.set_logging_level("debug")
        counted = await client.call_tool(
            "count", {"to": 3}, progress_callback=handlers.progress
        )
        tools = (await client.list_tools()).tools
        templates = (await client.list_resource_templates()).resource_templates
        prompt = await client.get_prompt("review", {"code": "x = 1"})
        completed = await client.complete(
            types.PromptReference(type="ref/prompt", name="review"),
            {"name": "style", "value": "s"},
        )
        return {
            "version": client.protocol_version,
            "server": [client.server_info.name, client.server_info.version],
            "instructions": client.instructions,
            "tools": [tool.name for tool in tools],
            "schema": tools[0].input_schema,
            "add": outcome(await client.call_tool("add", {"a": 2, "b": 3})),
            "thread": outcome(await client.call_tool("thread", {"word": "abc"})),
            "person": outcome(await client.call_tool("person")),
            "fail": outcome(await client.call_tool("fail")),
            "counted": [counted.content[0].text, handlers.steps, handlers.logs],
            "resources": [
                each.uri for each in (await client.list_resources()).resources
            ],
            "templates": [each.uri_template for each in templates],
            "note": (await client.read_resource(NOTE)).contents[0].text,
            "greeting": (await client.read_resource("greet://Ada")).contents[0].text,
            "prompts": [each.name for each in (await client.list_prompts()).prompts],
            "prompt": prompt.messages[0].content.text,
            "completed": completed.completion.values,
            "elicited": outcome(await client.call_tool("ask_person"))["text"],
            "sampled": outcome(
                await client.call_tool("ask_model", {"question": "why"})
            )["text"],
            "roots": outcome(await client.call_tool("ask_roots"))["text"],
            "changes": await listen(client, handlers, mode),
        }


run(use, lambda command, args: StdioServerParameters(command=command, args=args))
