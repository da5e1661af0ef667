"""``mcpwire demo``: the main job in ten steps against the embedded server."""

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

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcpwire.cli.options import Options
    from mcpwire.cli.session import Session

__all__ = ["COMMAND", "demo", "place_server"]

COMMAND: Final = (sys.executable, "-m", "mcpwire", "demo-server")

CALLS: Final = 1_000
IN_FLIGHT: Final = 32
SLOW: Final = {"steps": 4, "seconds": 0.2}
ENDLESS: Final = {"steps": 60, "seconds": 60}
PATIENCE_S: Final = 0.1


def place_server(options: Options) -> None:
    """Set the embedded server as the command's target."""
    options.command = COMMAND
    # Where the package is found through PYTHONPATH, the server has to find it too.
    path = os.environ.get("PYTHONPATH")
    options.env = [] if path is None else [("PYTHONPATH", path)]


def demo(options: Options) -> int:
    """Do the main job step by step, and show what each step does."""
    place_server(options)
    return in_session(options, _run)


async def _run(session: Session) -> None:
    script = Script(session)
    for step in (
        script.connected,
        script.list_tools,
        script.call,
        script.progress,
        script.read,
        script.prompt,
        script.timeout,
        script.one_by_one,
        script.at_once,
        script.close,
    ):
        await step()
    if session.output.is_json:
        session.output.document({"steps": script.steps})
    else:
        session.output.lines(["", "Everything worked."])


class Script:
    """The steps and what they print."""

    def __init__(self, session: Session) -> None:
        self.client = session.client
        self.output = session.output
        self.steps: list[dict[str, Any]] = []
        self._session = session

    def say(self, seconds: float, step: str, *lines: str) -> None:
        """Record a step, and print it unless all are printed as one document."""
        milliseconds = round(seconds * 1000, 3)
        self.steps.append({"step": step, "milliseconds": milliseconds, "said": lines})
        if not self.output.is_json:
            first, *rest = map(one_line, lines)
            head = f"{milliseconds:8.1f} ms  {self.output.bold(step.ljust(12))}"
            self.output.lines(
                [f"{head}  {first}", *(f"{'':27}{line}" for line in rest)]
            )

    async def timed(self, call: Awaitable[Any]) -> tuple[float, Any]:
        """Await a call and measure it."""
        started = time.perf_counter()
        outcome = await call
        return time.perf_counter() - started, outcome

    async def connected(self) -> None:
        record, server = self.client.negotiation, self.client.server_info
        assert record is not None
        assert record.era is not None
        assert server is not None
        self.say(
            self._session.connect_seconds,
            "connect",
            "python -m mcpwire demo-server, as a child process",
            f"{server.name} {server.version}",
            f"protocol {self.client.protocol_version} ({record.era.value} era): "
            f"{record.reason}",
        )

    async def list_tools(self) -> None:
        seconds, tools = await self.timed(self.client.list_tools())
        self.say(seconds, "list tools", *(tool_signature(tool)[0] for tool in tools))

    async def call(self) -> None:
        arguments = {"a": 2, "b": 3}
        seconds, result = await self.timed(self.client.call_tool("add", arguments))
        self.say(
            seconds,
            "call a tool",
            f"add {json.dumps(arguments)} -> {json.dumps(result.structured_content)}",
        )

    async def progress(self) -> None:
        told: list[str] = []

        def on_progress(
            progress: float, total: float | None, message: str | None
        ) -> None:
            told.append(progress_text(progress, total, message))
            if self.output.progress is not None:
                self.output.progress.show(progress, total, message)

        call = self.client.call_tool("slow", SLOW, on_progress=on_progress)
        seconds, result = await self.timed(call)
        self.say(seconds, "progress", f"slow {json.dumps(SLOW)}", *told, result.text)

    async def read(self) -> None:
        uri = "demo://greeting/Ada"
        seconds, text = await self.timed(self.client.read_text(uri))
        self.say(seconds, "read", f"{uri} -> {text}")

    async def prompt(self) -> None:
        prompt = self.client.get_prompt("greet", {"name": "Ada"})
        seconds, result = await self.timed(prompt)
        self.say(seconds, "prompt", f"greet name=Ada -> {result.messages[0].text}")

    async def timeout(self) -> None:
        from mcpwire import RequestTimeout

        started = time.perf_counter()
        try:
            await self.client.call_tool("slow", ENDLESS, timeout=PATIENCE_S)
        except RequestTimeout as error:
            took = time.perf_counter() - started
            self.say(took, "time out", str(error), "the server was told to stop")

    async def one_by_one(self) -> None:
        started = time.perf_counter()
        for _ in range(CALLS):
            await self.client.call_tool("echo", {"message": "hi"})
        self._say_rate(time.perf_counter() - started, "one at a time")

    async def at_once(self) -> None:
        started = time.perf_counter()
        left = iter(range(CALLS))

        async def caller() -> None:
            for _ in left:
                await self.client.call_tool("echo", {"message": "hi"})

        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
        self._say_rate(time.perf_counter() - started, f"{IN_FLIGHT} in flight")

    def _say_rate(self, seconds: float, how: str) -> None:
        each = seconds / CALLS * 1_000_000
        self.say(
            seconds,
            how,
            f"{CALLS:,} calls of echo: {each:.0f} µs each, {CALLS / seconds:,.0f}/s",
        )

    async def close(self) -> None:
        seconds, _ = await self.timed(self.client.aclose())
        self.say(seconds, "close", "the server's process has ended")
