"""Variants of mcpwire's clients that call a null server's tool."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager, contextmanager
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any

from harness.measure import WARM_UP_CALLS
from leg import ARGUMENTS, NAME, parse_leg

import mcpwire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from harness import blocking as threads
    from harness import measure
    from leg import Leg


def target_of(leg: Leg, stack: ExitStack, engine: str) -> mcpwire.Stdio | mcpwire.Http:
    """Return the target of a leg's null server, which runs until the stack closes."""
    if leg.is_stdio:
        return mcpwire.Stdio(leg.server, [leg.era])
    return mcpwire.Http(stack.enter_context(leg.url()), engine=engine)


# The asyncio client...


@asynccontextmanager
async def typed(argument: str, engine: str = "direct") -> AsyncIterator[measure.Call]:
    """Yield a function that calls the tool by `call_tool`."""
    leg = parse_leg(argument)
    with ExitStack() as stack:
        async with mcpwire.Client(target_of(leg, stack, engine)) as client:

            async def call() -> Any:
                return await client.call_tool(NAME, ARGUMENTS)

            leg.check((await call()).text, str(client.protocol_version))
            yield call


def httpx(argument: str) -> Any:
    """Return the variant with `call_tool` over httpx."""
    return typed(argument, "httpx")


@asynccontextmanager
async def raw(argument: str) -> AsyncIterator[measure.Call]:
    """Yield a function that calls the tool by `request` with plain dicts."""
    leg = parse_leg(argument)
    with ExitStack() as stack:
        async with mcpwire.Client(target_of(leg, stack, "direct")) as client:

            async def call() -> Any:
                return await client.request(
                    "tools/call", {"name": NAME, "arguments": ARGUMENTS}
                )

            result: Any = await call()
            leg.check(result["content"][0]["text"], str(client.protocol_version))
            yield call


# The blocking client...


@contextmanager
def open_client(leg: Leg, engine: str) -> Iterator[Any]:
    """Yield a blocking client, client and server on their cores."""
    import mcpwire.sync

    with ExitStack() as stack:
        server_target = target_of(leg, stack, engine)
        with leg.start_on_server_core():
            client = stack.enter_context(mcpwire.sync.Client(server_target))
        yield client


@contextmanager
def blocking(argument: str, engine: str = "direct") -> Iterator[threads.Call]:
    """Yield a function that calls the tool by the blocking `call_tool`."""
    leg = parse_leg(argument)
    with open_client(leg, engine) as client:

        def call() -> Any:
            return client.call_tool(NAME, ARGUMENTS)

        leg.check(call().text, str(client.protocol_version))
        yield call


def blocking_httpx(argument: str) -> Any:
    """Return the variant with `call_tool` over httpx."""
    return blocking(argument, "httpx")


@contextmanager
def raw_blocking(argument: str) -> Iterator[threads.Call]:
    """Yield a function that calls the tool by `request` with plain dicts."""
    leg = parse_leg(argument)
    with open_client(leg, "direct") as client:

        def call() -> Any:
            params = {"name": NAME, "arguments": ARGUMENTS}
            return client.request("tools/call", params)

        leg.check(call()["content"][0]["text"], str(client.protocol_version))
        yield call


@contextmanager
def one_thread(argument: str) -> Iterator[threads.Call]:
    """Yield a call for one thread only, for any number of calls in flight."""
    with blocking(argument) as call:

        def call_alone() -> Any:
            return call()

        call_alone.threads = 1  # type: ignore[attr-defined]  # `harness.blocking` reads it
        yield call_alone


# The asyncio client compared with threads...


class LoopCall:
    """Calls of an asyncio client, with tasks in place of threads."""

    def __init__(self, runner: asyncio.Runner, client: Any) -> None:
        self.runner = runner
        self.client = client

    def __call__(self) -> Any:
        return self.runner.run(self.client.call_tool(NAME, ARGUMENTS))

    def measure_in_flight(
        self, calls: int, width: int, latencies: list[int]
    ) -> measure.Figures:
        """Measure like `harness.blocking.measure_in_threads`, with tasks."""
        return self.runner.run(self._measure_in_flight(calls, width, latencies))

    async def _measure_in_flight(
        self, calls: int, width: int, latencies: list[int]
    ) -> measure.Figures:
        call_tool = self.client.call_tool

        async def work(remaining: Iterator[int], latencies_of_pass: list[int]) -> None:
            for _ in remaining:
                start = perf_counter_ns()
                await call_tool(NAME, ARGUMENTS)
                latencies_of_pass.append(perf_counter_ns() - start)

        async def run_calls(count: int, latencies_of_pass: list[int]) -> None:
            remaining = iter(range(count))
            await asyncio.gather(
                *(work(remaining, latencies_of_pass) for _ in range(width))
            )

        await run_calls(WARM_UP_CALLS, [])
        wall, cpu = perf_counter_ns(), process_time_ns()
        await run_calls(calls, latencies)
        wall, cpu = perf_counter_ns() - wall, process_time_ns() - cpu
        return {
            f"calls_per_s@{width}": calls / wall * 1e9,
            f"cpu_us@{width}": cpu / calls / 1e3,
        }


@contextmanager
def on_loop(argument: str) -> Iterator[threads.Call]:
    """Yield calls by `mcpwire.Client` on one event loop."""
    leg = parse_leg(argument)
    with ExitStack() as stack, asyncio.Runner() as runner:
        client = mcpwire.Client(target_of(leg, stack, "direct"))
        with leg.start_on_server_core():
            runner.run(client.connect())
        call = LoopCall(runner, client)
        leg.check(call().text, str(client.protocol_version))
        yield call
        runner.run(client.aclose())
