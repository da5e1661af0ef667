"""Uses our server with FastMCP's client. See `alike`."""

from client_program import NOTE, Recorder, outcome, run
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp.skills.client import SkillsClientExtension


class RecordingHandler(Recorder, MessageHandler):
    async def on_resource_updated(self, message):
        self.add_change(f"updated {message.params.uri}")

    async def on_tool_list_changed(self, message):
        self.add_change("tools")


async def elicit(message, response_type, params, context):
    return {"name": "Bob", "age": 7}


async def sample(messages, params, context):
    return messages[-1].content.text.upper()


async def failure(client):
    try:
        await client.call_tool("fail")
    except ToolError as error:
        return str(error)
    return None


def connect(target, mode, handler):
    return Client(
        target,
        mode=mode,
        roots=["file:///work"],
        sampling_handler=sample,
        elicitation_handler=elicit,
        log_handler=handler.log,
        progress_handler=handler.progress,
        message_handler=handler,
        extensions=[SkillsClientExtension()],
    )


async def use(target, mode):
    handler = RecordingHandler()
    client = connect(target, mode, handler)
    async with client:
        if mode == "legacy":
            await client.set_logging_level("debug")
        counted = await client.call_tool("count", {"to": 3})
        tools = await client.list_tools()
        templates = await client.list_resource_templates()
        prompt = await client.get_prompt("review", {"code": "x = 1"})
        results = {
            "version": client.protocol_version,
            "server": [client.server_info.name, client.server_info.version],
            "instructions": client.instructions,
            "tools": [tool.name for tool in tools],
            "schema": getattr(tools[0], "input_schema", None),
            "add": outcome(await client.call_tool("add", {"a": 2, "b": 3})),
            "thread": outcome(await client.call_tool("thread", {"word": "abc"})),
            "person": outcome(await client.call_tool("person")),
            "failure": await failure(client),
            "counted": [counted.content[0].text, handler.steps, handler.logs],
            "resources": [str(each.uri) for each in await client.list_resources()],
            "templates": [each.uri_template for each in templates],
            "note": (await client.read_resource(NOTE))[0].text,
            "greeting": (await client.read_resource("greet://Ada"))[0].text,
            "prompts": [each.name for each in await client.list_prompts()],
            "prompt": prompt.messages[0].content.text,
            "elicited": (await client.call_tool("ask_person")).content[0].text,
            "sampled": (await client.call_tool("ask_model", {"question": "why"}))
            .content[0]
            .text,
            "roots": (await client.call_tool("ask_roots")).content[0].text,
        }
        if mode == "auto":
            skills = await client.list_skills()
            results["skills"] = [skill.frontmatter.name for skill in skills]
        else:  # FastMCP cannot listen at later revisions
            await client.session.subscribe_resource(NOTE)
            await client.call_tool("change")
            results["changes"] = await handler.both()
        return results


run(use, lambda command, args: StdioTransport(command, args, keep_alive=False))
