"""``mcpwire demo``: the main features in ten steps against the embedded server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli.output import one_line, progress_text
from mcpwire.cli.render import tool_signature
from mcpwire.cli.session import in_session
from mcpwire.errors import RequestTimeout

if TYPE_CHECKING:
    from mcpwire.cli.options import Options
    from mcpwire.cli.session import Session

__all__ = ["COMMAND", "demo", "use_demo_server"]

COMMAND: Final = (sys.executable, "-m", "mcpwire", "demo-server")

CALLS: Final = 1_000
IN_FLIGHT: Final = 32
SLOW: Final = {"steps": 4, "seconds": 0.2}
HANGING: Final = {"steps": 60, "seconds": 60}
TIMEOUT_S: Final = 0.1


def use_demo_server(options: Options) -> None:
    """Set the embedded server as the command's target."""
    options.command = COMMAND
    # If PYTHONPATH leads to the package, the server needs it too.
    path = os.environ.get("PYTHONPATH")
    options.env = [] if path is None else [("PYTHONPATH", path)]


def demo(options: Options) -> int:
    """Run the demonstration and print each step."""
    use_demo_server(options)
    return _run(options)


@in_session
async def _run(session: Session) -> None:
    script = Script(session)
    script.report_step(session.connect_seconds, *script.describe_connection())
    for step in (
        script.list_tools,
        script.call,
        script.progress,
        script.read,
        script.prompt,
        script.timeout,
        script.one_by_one,
        script.in_parallel,
        script.close,
    ):
        started = time.perf_counter()
        name, *lines = await step()
        script.report_step(time.perf_counter() - started, name, *lines)
    session.output.result({"steps": script.steps}, ["", "Everything worked."])


class Script:
    """The steps of the demonstration; each returns its name and the lines to print."""

    def __init__(self, session: Session) -> None:
        self.client = session.client
        self.output = session.output
        self.steps: list[dict[str, Any]] = []

    def report_step(self, seconds: float, step: str, *lines: str) -> None:
        """Record a step, and print it unless the output is one JSON document."""
        milliseconds = round(seconds * 1000, 3)
        self.steps.append({"step": step, "milliseconds": milliseconds, "said": lines})
        if not self.output.is_json:
            first, *rest = map(one_line, lines)
            head = f"{milliseconds:8.1f} ms  {self.output.bold(step.ljust(12))}"
            self.output.lines(
                [f"{head}  {first}", *(f"{'':27}{line}" for line in rest)]
            )

    def describe_connection(self) -> list[str]:
        record, server = self.client.negotiation, self.client.server_info
        version = self.client.protocol_version
        assert record is not None
        assert record.era is not None
        assert server is not None
        return [
            "connect",
            "python -m mcpwire demo-server, as a child process",
            f"{server.name} {server.version}",
            f"protocol {version} ({record.era.value} era): {record.reason}",
        ]

    async def list_tools(self) -> list[str]:
        tools = await self.client.list_tools()
        return ["list tools", *(tool_signature(tool)[0] for tool in tools)]

    async def call(self) -> list[str]:
        arguments = {"a": 2, "b": 3}
        result = await self.client.call_tool("add", arguments)
        content = json.dumps(result.structured_content)
        return ["call a tool", f"add {json.dumps(arguments)} -> {content}"]

    async def progress(self) -> list[str]:
        lines: list[str] = []

        def on_progress(
            progress: float, total: float | None, message: str | None
        ) -> None:
            lines.append(progress_text(progress, total, message))
            self.output.progress.show(progress, total, message)

        result = await self.client.call_tool("slow", SLOW, on_progress=on_progress)
        return ["progress", f"slow {json.dumps(SLOW)}", *lines, result.text]

    async def read(self) -> list[str]:
        uri = "demo://greeting/Ada"
        return ["read", f"{uri} -> {await self.client.read_text(uri)}"]

    async def prompt(self) -> list[str]:
        result = await self.client.get_prompt("greet", {"name": "Ada"})
        return ["prompt", f"greet name=Ada -> {result.messages[0].text}"]

    async def timeout(self) -> list[str]:
        try:
            result = await self.client.call_tool("slow", HANGING, timeout=TIMEOUT_S)
        except RequestTimeout as error:
            return ["time out", str(error), "the request was cancelled at the server"]
        return ["time out", result.text]

    async def one_by_one(self) -> list[str]:
        started = time.perf_counter()
        for _ in range(CALLS):
            await self.client.call_tool("echo", {"message": "hi"})
        return ["one at a time", _speed_text(time.perf_counter() - started)]

    async def in_parallel(self) -> list[str]:
        started = time.perf_counter()
        numbers = iter(range(CALLS))

        async def caller() -> None:
            for _ in numbers:
                await self.client.call_tool("echo", {"message": "hi"})

        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
        return [f"{IN_FLIGHT} in flight", _speed_text(time.perf_counter() - started)]

    async def close(self) -> list[str]:
        await self.client.aclose()
        return ["close", "the server's process has ended"]


def _speed_text(seconds: float) -> str:
    microseconds = seconds / CALLS * 1_000_000
    return (
        f"{CALLS:,} calls of echo: {microseconds:.0f} µs each, {CALLS / seconds:,.0f}/s"
    )
