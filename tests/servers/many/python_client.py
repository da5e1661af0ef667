"""Uses the gateway with the official Python SDK's client; writes the results as JSON.

The argument is JSON, `[[name, mode, [program, ...] or url, words], ...]`: each is
connected to in that mode; `words` are the arguments of the tools of time and git.
"""

import json
import sys
import warnings

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters

warnings.simplefilter("ignore")  # features deprecated at 2026-07-28 are used too


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Bob"})


async def use(target, mode, words):
    steps = []

    async def progress(done, total, message):
        steps.append([done, total, message])

    async with Client(target, mode=mode, elicitation_callback=elicit) as client:

        async def call(name, arguments=None, **options):
            result = await client.call_tool(name, arguments, **options)
            assert not result.is_error, result
            return "\n".join(part.text for part in result.content)

        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
        prompt = await client.get_prompt("pipe_args-prompt", {"city": "Ulm"})
        read = await client.read_resource("demo://resource/dynamic/text/5")
        last = await client.read_resource(resources[-1].uri)
        return {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "tools": [tool.name for tool in tools],
            "pipe": await call("pipe_echo", {"message": "one"}),
            "web": await call("web_echo", {"message": "two"}),
            "time": await call("time_convert_time", words["time"]),
            "git": await call("git_git_status", words["git"]),
            "long": await call(
                "web_trigger-long-running-operation",
                {"duration": 0.2, "steps": 2},
                progress_callback=progress,
            ),
            "steps": steps,
            "asked": await call("pipe_trigger-elicitation-request"),
            "prompt": prompt.messages[0].content.text,
            "read": read.contents[0].text,
            "last": [resources[-1].uri, last.contents[0].uri],
        }


async def main():
    results = {}
    for name, mode, where, words in json.loads(sys.argv[1]):
        target = where
        if not isinstance(where, str):
            target = StdioServerParameters(command=where[0], args=where[1:])
        results[name] = await use(target, mode, words)
    sys.stdout.write(json.dumps(results))


anyio.run(main)
