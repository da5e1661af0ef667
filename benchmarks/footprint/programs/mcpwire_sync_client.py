"""Smallest program with mcpwire's blocking client."""

import contextlib

import measurements

import mcpwire.sync


async def main(server, *repeats):
    with mcpwire.sync.Client(mcpwire.Stdio(server)) as client:

        async def call():
            client.call_tool("echo", {"text": "hi"})

        await measurements.measure_calls(call, *repeats)


mcpwire.sync.Client  # noqa: B018 - loads the class
if arguments := measurements.report_import():
    with contextlib.suppress(StopIteration):
        main(*arguments).send(None)  # the coroutine never waits
