"""A server under load over HTTP: many sessions, many calls at once, nothing crossed.

    python tests/soak/load.py                    in short, some twenty seconds
    python tests/soak/load.py --full             a thousand of everything

The server runs in a process of its own, with uvicorn; the load comes from raw sockets
in this one. Each call carries a secret of its own and each client counts its ids from
0, so an answer that went astray is seen. What the server holds is counted before and
after: when all sessions have ended it is to be as small as it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parents[1]):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from load_client import PATIENCE, Caller, Crossed  # noqa: E402 - found by the lines above
from load_counts import KIB, MIB, Count, allowed, grown  # noqa: E402 - as above
from unmeasured import unmeasured  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from load_client import Wire

WIDTH = 64
"""How many sessions are opened or ended at once."""

SETTLE_S = 1.0
"""How long what has ended may take to go."""

IDLE_S = 1.0
POLL_S = 0.05
PART = 10
"""Which part of it all goes before the first count: what is made once is made then."""


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    sessions: int
    calls: int
    """How many calls each client makes while all of them call."""
    rounds: int
    """How often two clients of colliding ids call at once."""


SHORT = Plan(sessions=150, calls=4, rounds=250)
FULL = Plan(sessions=1_000, calls=20, rounds=10_000)


class Server:
    """The server, from outside."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "load_server.py"), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=unmeasured(),
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def memory(self) -> int:
        """Return how many bytes of memory it has."""
        text = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        return int(text.split()[1]) * resource.getpagesize()

    async def ask(self, tool: str) -> Any:
        """Call a tool without arguments, outside of any session."""
        async with Caller(self.url, is_later=True) as one:
            return await one.call(tool)

    async def count(self) -> Count:
        """Count what it holds."""
        return Count(**await self.ask("census"), memory=self.memory())

    def close(self) -> None:
        """End it, and see that it ends well."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        assert code == 0, code


@contextlib.contextmanager
def serving(*words: str) -> Any:
    """Run the server meanwhile."""
    server = Server(*words)
    try:
        yield server
    finally:
        server.close()


# What is done...


async def each(work: Iterable[Awaitable[Any]], width: int = WIDTH) -> list[Any]:
    """Do all of it, so much at once."""
    room = asyncio.Semaphore(width)

    async def one(what: Awaitable[Any]) -> Any:
        async with room:
            return await what

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(what)) for what in work]
    return [task.result() for task in tasks]


@contextlib.asynccontextmanager
async def opened(
    server: Server, many: int, *, is_later: bool = False
) -> AsyncIterator[list[Caller]]:
    """Have so many clients, with a connection and, before 2026, a session each."""
    callers = [Caller(server.url, is_later=is_later) for _ in range(many)]
    await each(caller.__aenter__() for caller in callers)
    try:
        yield callers
    finally:
        await each(caller.__aexit__() for caller in callers)


async def until(holds: Callable[[], Awaitable[bool]]) -> float:
    """Wait until something holds; return how long that took."""
    started = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(POLL_S)
    return time.monotonic() - started


async def idle(server: Server, many: int, say: Callable[[str], None]) -> None:
    """Have idle sessions, without a stream and with one."""
    before = server.memory()
    started = time.monotonic()
    async with opened(server, many) as callers:
        took = time.monotonic() - started
        bare = server.memory()
        say(
            f"{many:,} sessions opened in {took:.1f} s, {many / took:,.0f} a second; "
            f"{(bare - before) / many / KIB:.1f} KiB each with its connection"
        )
        wires: list[Wire] = await each(caller.listen() for caller in callers)
        streamed = server.memory()
        say(f"{(streamed - bare) / many / KIB:.1f} KiB more for an open stream each")
        await each(wire.close() for wire in wires)


async def meeting(
    server: Server, many: int, say: Callable[[str], None], *, is_later: bool
) -> None:
    """Have many calls under way at one moment."""
    async with opened(server, many, is_later=is_later) as callers:
        await each(caller.tell("echo", secrets.token_hex(8)) for caller in callers)
        before = server.memory()
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                group.create_task(caller.tell("meet", secrets.token_hex(8)))

            async def all_are_there() -> bool:
                return (await server.ask("waiting"))["result"] == many

            await until(all_are_there)
            there = time.monotonic() - started
            memory = server.memory()
            assert (await server.ask("part"))["result"] == many
            started = time.monotonic()
        took = time.monotonic() - started
    say(
        f"{many:,} calls at once, {era(is_later)}: all under way after {there:.1f} s, "
        f"{(memory - before) / many / KIB:.1f} KiB each; "
        f"all answered {took:.1f} s after they were let go"
    )


async def crowd(
    server: Server, plan: Plan, say: Callable[[str], None], *, is_later: bool
) -> None:
    """Have many clients call all the time."""
    many, laps = plan.sessions, []

    async def work(caller: Caller) -> None:
        for _ in range(plan.calls):
            started = time.perf_counter()
            await caller.tell("echo", secrets.token_hex(8))
            laps.append(time.perf_counter() - started)

    async with opened(server, many, is_later=is_later) as callers:
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                group.create_task(work(caller))
        took = time.monotonic() - started
    laps.sort()
    say(
        f"{len(laps):,} calls of {many:,} clients, {era(is_later)}: "
        f"{len(laps) / took:,.0f} a second, p50 {laps[len(laps) // 2] * 1e3:.0f} ms, "
        f"p99 {laps[len(laps) * 99 // 100] * 1e3:.0f} ms"
    )


async def collide(
    server: Server, rounds: int, say: Callable[[str], None], *, is_later: bool
) -> None:
    """Have two clients call at once with the same ids, again and again."""
    async with opened(server, 2, is_later=is_later) as callers:
        started = time.monotonic()
        for _ in range(rounds):
            await asyncio.gather(
                *(caller.tell("echo", secrets.token_hex(8)) for caller in callers)
            )
        took = time.monotonic() - started
        assert callers[0].last_id == callers[1].last_id
    say(
        f"{rounds:,} rounds of two clients with the same ids, {era(is_later)}: "
        f"none crossed, {took:.1f} s"
    )


def era(is_later: bool) -> str:  # noqa: FBT001 - one word, and its only argument
    """Return the name of an era."""
    return "2026-07-28" if is_later else "in sessions"


def nothing(line: str) -> None:
    """Say nothing: the figures come from elsewhere."""


async def weigh(plan: Plan, say: Callable[[str], None]) -> None:
    """Find out what sessions and calls weigh, in servers that have no room left over.

    What others gave back before is taken first, and weighs nothing.
    """
    for work in (
        idle,
        partial(meeting, is_later=False),
        partial(meeting, is_later=True),
    ):
        with serving() as server:
            await work(server, max(1, plan.sessions // PART), nothing)
            await work(server, plan.sessions, say)


async def everything(server: Server, plan: Plan, say: Callable[[str], None]) -> None:
    """Do all of it once."""
    await idle(server, plan.sessions, nothing)
    for is_later in (False, True):
        await meeting(server, plan.sessions, nothing, is_later=is_later)
        await crowd(server, plan, say, is_later=is_later)
        await collide(server, plan.rounds, say, is_later=is_later)


async def load(plan: Plan, say: Callable[[str], None]) -> list[str]:
    """Do it all twice; return what grew."""
    small = Plan(max(1, plan.sessions // PART), 1, plan.rounds // PART)
    found = []
    with serving() as server:
        await everything(server, small, nothing)
        counts = [await settled(server)]
        for again, most in enumerate(allowed(plan.sessions)):
            await everything(server, plan, nothing if again else say)
            counts.append(await settled(server))
            found += grown(*counts[-2:], most)
    for when, count in zip(("before", "after", "once more"), counts, strict=True):
        say(
            f"{when}: {count.objects:,} objects, {count.tasks} tasks, "
            f"{count.memory / MIB:.1f} MiB"
        )
    return found


async def settled(server: Server) -> Count:
    """Count what is left when what has ended had the time to go."""
    await asyncio.sleep(SETTLE_S)  # the count is of what stays, not of what is going
    return await server.count()


async def reaped(many: int, say: Callable[[str], None]) -> list[str]:
    """Have idle sessions go by themselves, but not those that somebody listens to."""
    found = []
    with serving(str(IDLE_S)) as server:
        callers = [Caller(server.url) for _ in range(many)]
        await callers[0].open()
        wire = await callers[0].listen()
        await each(caller.open() for caller in callers[1:])

        async def one_is_left() -> bool:
            return (await server.ask("census"))["sessions"] <= 1

        took = await until(one_is_left)
        say(f"{many - 1:,} idle sessions went within {took:.1f} s ({IDLE_S:g} s idle)")
        statuses = await each(caller.end() for caller in callers)
        if statuses != [204, *[404] * (many - 1)]:
            found.append(f"reaped: ended with {set(statuses)}")
        for each_ in (wire, *(caller.wire for caller in callers)):
            await each_.close()
    return found


# The command...


def make_room(sessions: int) -> None:
    """Let this process and the server have a descriptor for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * sessions + 256
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))


def show(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="a thousand of everything")
    parser.add_argument("--sessions", type=int)
    parser.add_argument("--calls", type=int)
    parser.add_argument("--rounds", type=int)
    options = vars(parser.parse_args(arguments))
    chosen = vars(FULL if options.pop("full") else SHORT)
    plan = Plan(**{k: options[k] or chosen[k] for k in chosen})
    if not Path("/proc/self/statm").exists():
        show("load.py: memory is read as Linux gives it; left out")
        return 0
    make_room(plan.sessions)
    started = time.monotonic()
    try:
        asyncio.run(weigh(plan, show))
        found = asyncio.run(load(plan, show))
        found += asyncio.run(reaped(plan.sessions, show))
    except* Crossed as crossed:
        found = [f"crossed: {error}" for error in crossed.exceptions]
    show(f"{time.monotonic() - started:.1f} s")
    show("\n".join(f"GREW {line}" for line in found) or "flat")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
