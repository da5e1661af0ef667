"""mcpwire where many calls are open at once: by its blocking client and by its loop."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack, contextmanager
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any

from floor import ARGUMENTS
from harness.blocking import place, place_server
from harness.measure import WARM_UP_CALLS
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.blocking import Call
    from harness.measure import Figures


@contextmanager
def target(argument: str) -> Iterator[Any]:
    """Give what a client connects to; argument is JSON: program, options, placement."""
    import mcpwire

    server, *options, placement = json.loads(argument)
    if len(options) == 1:
        yield mcpwire.Stdio(server, options)
    else:
        with serving(server, *options) as null:
            place(null.pid, placement)
            yield mcpwire.Http(null.url)


def check(client: Any, argument: str, result: Any) -> None:
    """Fail before anything is measured when the call does not do its work."""
    expected = "2026-07-28" if "--modern" in argument else "2025-11-25"
    assert str(client.protocol_version) == expected, client.protocol_version
    assert result.text == "hello", result


@contextmanager
def blocking(argument: str) -> Iterator[Call]:
    """Call a tool by `mcpwire.sync`."""
    import mcpwire.sync

    placement = json.loads(argument)[-1]
    with target(argument) as where, ExitStack() as stack:
        with place_server(placement):
            client = stack.enter_context(mcpwire.sync.Client(where))

        def call() -> Any:
            return client.call_tool("echo", ARGUMENTS)

        check(client, argument, call())
        yield call


@contextmanager
def one_thread(argument: str) -> Iterator[Call]:
    """Do the same by one thread alone, however many are asked for."""
    with blocking(argument) as call:

        def alone() -> Any:
            return call()

        alone.threads = 1  # type: ignore[attr-defined]  # `harness.blocking` reads it
        yield alone


class OnLoop:
    """Calls of an asyncio client, as many in flight as there are threads elsewhere."""

    def __init__(self, runner: asyncio.Runner, client: Any) -> None:
        self.runner = runner
        self.client = client

    def __call__(self) -> Any:
        return self.runner.run(self.client.call_tool("echo", ARGUMENTS))

    def in_flight(self, calls: int, width: int, taken: list[int]) -> Figures:
        """Measure as `harness.blocking.in_threads` does."""
        return self.runner.run(self._in_flight(calls, width, taken))

    async def _in_flight(self, calls: int, width: int, taken: list[int]) -> Figures:
        call_tool = self.client.call_tool

        async def work(turns: Iterator[int], laps: list[int]) -> None:
            for _ in turns:
                start = perf_counter_ns()
                await call_tool("echo", ARGUMENTS)
                laps.append(perf_counter_ns() - start)

        async def everything(count: int, laps: list[int]) -> None:
            turns = iter(range(count))
            await asyncio.gather(*(work(turns, laps) for _ in range(width)))

        await everything(WARM_UP_CALLS, [])
        wall, cpu = perf_counter_ns(), process_time_ns()
        await everything(calls, taken)
        wall, cpu = perf_counter_ns() - wall, process_time_ns() - cpu
        return {
            f"calls_per_s@{width}": calls / wall * 1e9,
            f"cpu_us@{width}": cpu / calls / 1e3,
        }


@contextmanager
def on_loop(argument: str) -> Iterator[Call]:
    """Call a tool by `mcpwire.Client` on one event loop."""
    import mcpwire

    placement = json.loads(argument)[-1]
    with target(argument) as where, asyncio.Runner() as runner:
        client = mcpwire.Client(where)
        with place_server(placement):
            runner.run(client.connect())
        call = OnLoop(runner, client)
        check(client, argument, call())
        yield call
        runner.run(client.aclose())
