"""Smallest program with mcpwire's blocking client."""

import contextlib

import told

import mcpwire.sync


async def main(server, *many):
    with mcpwire.sync.Client(mcpwire.Stdio(server)) as client:

        async def call():
            client.call_tool("echo", {"text": "hi"})

        await told.calls(call, *many)


mcpwire.sync.Client  # noqa: B018 - loads the class
if words := told.imported():
    with contextlib.suppress(StopIteration):
        main(*words).send(None)  # the coroutine never waits
