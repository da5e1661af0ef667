"""Uses a client for a long time and checks that it does not grow: `make soak`.

    python tests/soak/soak.py [--shell asyncio|blocking] [--calls N] [--connects N]
                              [--shuffled N]

Uses, each from a warm start: many calls on one session; many connects, each with a call
and a close; and eight threads that make so many calls each with one blocking client, to
a server that shuffles its responses. Eleven times per use it counts what could grow.
Descriptors, tasks, threads and child processes must not be more at the end than at the
first count. Objects and memory fluctuate: the median of the second half of their counts
may exceed that of the first half by an allowance for noise.
"""

import argparse
import asyncio
import gc
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parent.parent
for folder in (TESTS, TESTS.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from scripted import ECHO_LOOP, SHUFFLE_LOOP, scripted  # noqa: E402 - as above
from shell_server import quick  # noqa: E402 - found through the lines above

import mcpwire  # noqa: E402 - as above
from mcpwire.testing.leaks import children, open_descriptors  # noqa: E402 - as above

SAMPLES = 10
WARM_UP = 0.1
"""The fraction of a use before the first sample, so that one-time objects exist."""

IN_FLIGHT = 32
THREADS = 8
PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """The counts at one time."""

    done: int
    descriptors: int
    tasks: int
    threads: int
    children: int
    objects: int
    memory: int


GROWTH = Sample(0, 0, 0, 0, 0, objects=40, memory=4 * 2**20)
"""How much each may grow; 0 compares the last count with the first."""


def sample(done: int) -> Sample:
    """Count what could grow."""
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:  # no loop runs
        tasks = 0
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return Sample(
        done=done,
        descriptors=len(open_descriptors()),
        tasks=tasks,
        threads=threading.active_count(),
        children=len(children()),
        objects=len(gc.get_objects()),
        memory=int(pages) * PAGE,
    )


def stages(total: int) -> Iterator[int]:
    """Yield the number of operations before each sample, the warm-up first."""
    warm = max(1, int(total * WARM_UP))
    yield warm
    step, remainder = divmod(total - warm, SAMPLES)
    for number in range(SAMPLES):
        yield step + (number < remainder)


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return the counts that grew by more than allowed; empty if all stayed flat."""
    half = len(samples) // 2
    found = []
    for name in Sample._fields[1:]:
        counts = [getattr(sample, name) for sample in samples]
        allowed = getattr(GROWTH, name)
        before, after = counts[0], counts[-1]
        if allowed:
            before, after = map(statistics.median, (counts[:half], counts[-half:]))
        if after - before > allowed:
            done = f"{samples[-1].done:,}"
            found.append(f"{name}: {before:,.0f} before, {after:,.0f} after {done}")
    return found


# The uses, in either shell...


def echo() -> mcpwire.Stdio:
    """Return the server of the long session."""
    return scripted("handshake()\n" + ECHO_LOOP)


async def call_asyncio(calls: int) -> list[Sample]:
    """Call on one session: sequentially, and concurrently in every second stage."""
    samples, done = [], 0
    async with mcpwire.Client(echo()) as client:

        async def call_each(numbers: Iterator[int]) -> None:
            for number in numbers:
                text = str(number)
                result = await client.call_tool("x", {"text": text})
                assert result.text == text

        for stage, count in enumerate(stages(calls)):
            numbers = iter(range(done, done + count))
            width = IN_FLIGHT if stage % 2 else 1
            await asyncio.gather(*(call_each(numbers) for _ in range(width)))
            done += count
            samples.append(sample(done))
    return samples


async def connect_asyncio(connects: int) -> list[Sample]:
    """Connect, call and close, over and over."""
    samples, done = [], 0
    for count in stages(connects):
        for _ in range(count):
            async with mcpwire.Client(quick()) as client:
                assert (await client.call_tool("x")).text
        done += count
        samples.append(sample(done))
    return samples


def call_blocking(calls: int) -> list[Sample]:
    """Call on one session: from one thread, and every second stage from eight."""
    return call_in_threads(echo(), calls, lambda stage: THREADS if stage % 2 else 1)


def call_shuffled(calls_each: int) -> list[Sample]:
    """Call from eight threads at once; the responses arrive in any order."""
    # Data after the handshake was read ahead; after a call nothing is buffered.
    target = scripted("handshake()\ntext(recv(), 'ready')\n" + SHUFFLE_LOOP)
    return call_in_threads(target, THREADS * calls_each, lambda _: THREADS)


def call_in_threads(
    target: mcpwire.Stdio, calls: int, width_of: Callable[[int], int]
) -> list[Sample]:
    """Call on one session, and check that each call gets its own response."""
    from mcpwire.sync import Client

    samples, done = [], 0
    with Client(target) as client:
        client.call_tool("x", {"text": "first"})

        def call_each(numbers: range) -> int:
            for number in numbers:
                text = str(number)
                answer = client.call_tool("x", {"text": text}).text
                assert answer == text, (answer, text)
            return len(numbers)

        for stage, count in enumerate(stages(calls)):
            width = width_of(stage)
            end = done + count
            shares = [range(done + n, end, width) for n in range(width)]
            with ThreadPoolExecutor(width) as threads:
                assert sum(threads.map(call_each, shares)) == count
            done = end
            samples.append(sample(done))
    return samples


def connect_blocking(connects: int) -> list[Sample]:
    """Connect, call and close, over and over."""
    from mcpwire.sync import Client

    samples, done = [], 0
    for count in stages(connects):
        for _ in range(count):
            with Client(quick()) as client:
                assert client.call_tool("x").text
        done += count
        samples.append(sample(done))
    return samples


USES: dict[tuple[str, str], Callable[[int], list[Sample]]] = {
    ("asyncio", "calls"): lambda count: asyncio.run(call_asyncio(count)),
    ("asyncio", "connects"): lambda count: asyncio.run(connect_asyncio(count)),
    ("blocking", "calls"): call_blocking,
    ("blocking", "connects"): connect_blocking,
    ("blocking", "shuffled"): call_shuffled,
}


# Output...


def print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show(samples: Sequence[Sample]) -> None:
    print_line("".join(f"{name:>12}" for name in Sample._fields))
    for row in samples:
        counts = "".join(f"{value:>12,}" for value in row[:-1])
        print_line(f"{counts}{row.memory / 2**20:>8.1f} MiB")


def run(shell: str, use: str, count: int) -> list[str]:
    """Run one use and print the result; return the counts that grew."""
    started = time.monotonic()
    samples = USES[shell, use](count)
    took = time.monotonic() - started
    print_line(f"{shell}: {count:,} {use}, {took:.1f} s, {count / took:,.0f} a second")
    show(samples)
    found = grown(samples)
    print_line("\n".join(f"GREW {line}" for line in found) or "flat")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shell", choices=["asyncio", "blocking", "both"], default="both"
    )
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--connects", type=int, default=200)
    parser.add_argument("--shuffled", type=int, default=20_000)
    options: Any = parser.parse_args(arguments)
    shells = ["asyncio", "blocking"] if options.shell == "both" else [options.shell]
    found = []
    for shell in shells:
        for use in ("calls", "connects", "shuffled"):
            if (shell, use) in USES and (count := getattr(options, use)):
                found += run(shell, use, count)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
