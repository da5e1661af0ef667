"""Loads an HTTP server with many sessions and calls, and checks all responses.

    python tests/soak/load.py                    a short run, about twenty seconds
    python tests/soak/load.py --full             a thousand of everything

The server runs in a separate process, with uvicorn; the load comes from raw sockets in
this one. Each call carries its own secret and each client counts its ids from 0, so a
response to another call is detected. The objects of the server are counted before and
after: when all sessions have ended it must be as small as before.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parents[1]):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from load_client import TIMEOUT_S, Caller, Crossed  # noqa: E402 - found by the lines above
from unmeasured import unmeasured  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from load_client import Wire

KIB = 1024
MIB = 1024 * KIB

WIDTH = 64
"""How many sessions are opened or ended concurrently."""

SETTLE_S = 1.0
"""How long ended sessions may take to be freed."""

IDLE_S = 1.0
POLL_S = 0.05
PART = 10
"""The fraction that runs before the first count, so that one-time objects exist."""


@dataclass(frozen=True)
class Plan:
    """The amount of load."""

    sessions: int
    calls: int
    """How many calls each client makes in the crowd phase."""
    rounds: int
    """How often two clients with equal ids call at once."""


SHORT = Plan(sessions=150, calls=4, rounds=250)
FULL = Plan(sessions=1_000, calls=20, rounds=10_000)


@dataclass(frozen=True)
class Count:
    """The counts of the server at one time."""

    sessions: int
    tasks: int
    objects: int
    memory: int


OBJECTS = (1_000, 500)
"""How many more objects there may be after the first run and after the second."""

KEPT_BYTES = (28 * KIB, 8 * KIB)
"""How many bytes per session may remain after the first run and after the second.

An allocator frees whole pages only, and a page with a live object stays: of the forty
KiB of a session with its stream and its call, some remain for reuse. A third run adds
nothing more.
"""

NOISE = 4 * MIB


def allowed(sessions: int) -> list[Count]:
    """Return how much each count may grow in the first run and in the second."""
    return [
        Count(0, 0, objects, NOISE + kept * sessions)
        for objects, kept in zip(OBJECTS, KEPT_BYTES, strict=True)
    ]


def grown(before: Count, after: Count, maximum: Count) -> list[str]:
    """Return the counts that grew by more than allowed."""
    return [
        f"{name}: {getattr(before, name):,} before, {getattr(after, name):,} after"
        for name, limit in vars(maximum).items()
        if getattr(after, name) - getattr(before, name) > limit
    ]


class Server:
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
        """Return the resident memory of the process in bytes."""
        text = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        return int(text.split()[1]) * resource.getpagesize()

    async def ask(self, tool: str) -> Any:
        """Call a tool without arguments, outside of any session."""
        async with Caller(self.url, is_later=True) as one:
            return await one.call(tool)

    async def count(self) -> Count:
        """Count the objects of the server."""
        return Count(**await self.ask("census"), memory=self.memory())

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        assert code == 0, code


@contextlib.contextmanager
def serving(*words: str) -> Any:
    """Run the server during the block."""
    server = Server(*words)
    try:
        yield server
    finally:
        server.close()


# The phases...


async def each(work: Iterable[Awaitable[Any]], width: int = WIDTH) -> list[Any]:
    """Await all of it, at most `width` concurrently."""
    room = asyncio.Semaphore(width)

    async def one(what: Awaitable[Any]) -> Any:
        async with room:
            return await what

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(what)) for what in work]
    return [task.result() for task in tasks]


@contextlib.asynccontextmanager
async def opened(
    server: Server, count: int, *, is_later: bool = False
) -> AsyncIterator[list[Caller]]:
    """Open so many clients, each with a connection and, before 2026, a session."""
    callers = [Caller(server.url, is_later=is_later) for _ in range(count)]
    await each(caller.__aenter__() for caller in callers)
    try:
        yield callers
    finally:
        await each(caller.__aexit__() for caller in callers)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while not await holds():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(POLL_S)


async def idle(server: Server, count: int) -> None:
    """Open idle sessions, first without a stream, then with one."""
    async with opened(server, count) as callers:
        wires: list[Wire] = await each(caller.listen() for caller in callers)
        await each(wire.close() for wire in wires)


async def meeting(server: Server, count: int, *, is_later: bool) -> None:
    """Run many calls concurrently."""
    async with (
        opened(server, count, is_later=is_later) as callers,
        asyncio.TaskGroup() as group,
    ):
        for caller in callers:
            group.create_task(caller.check_secret("meet", secrets.token_hex(8)))

        async def all_are_there() -> bool:
            return (await server.ask("waiting"))["result"] == count

        await until(all_are_there)
        assert (await server.ask("part"))["result"] == count


async def crowd(server: Server, plan: Plan, *, is_later: bool) -> None:
    """Let many clients call continuously."""

    async def work(caller: Caller) -> None:
        for _ in range(plan.calls):
            await caller.check_secret("echo", secrets.token_hex(8))

    async with (
        opened(server, plan.sessions, is_later=is_later) as callers,
        asyncio.TaskGroup() as group,
    ):
        for caller in callers:
            group.create_task(work(caller))


async def collide(server: Server, rounds: int, *, is_later: bool) -> None:
    """Let two clients call concurrently with the same ids, repeatedly."""
    async with opened(server, 2, is_later=is_later) as callers:
        for _ in range(rounds):
            await asyncio.gather(
                *(
                    caller.check_secret("echo", secrets.token_hex(8))
                    for caller in callers
                )
            )
        assert callers[0].last_id == callers[1].last_id


async def everything(
    server: Server, plan: Plan, say: Callable[[str], None] | None = None
) -> None:
    """Run all phases once."""
    await idle(server, plan.sessions)
    for is_later in (False, True):
        await meeting(server, plan.sessions, is_later=is_later)
        await crowd(server, plan, is_later=is_later)
        await collide(server, plan.rounds, is_later=is_later)
        if say is not None:
            era = "at 2026-07-28" if is_later else "in sessions"
            say(
                f"{plan.sessions:,} calls at once, {plan.calls} of each client, and "
                f"{plan.rounds:,} rounds with equal ids {era}: none crossed"
            )


async def load(plan: Plan, say: Callable[[str], None]) -> list[str]:
    """Run all phases twice; return the figures that grew."""
    small = Plan(max(1, plan.sessions // PART), 1, plan.rounds // PART)
    found = []
    with serving() as server:
        await everything(server, small)
        counts = [await settled(server)]
        for again, most in enumerate(allowed(plan.sessions)):
            await everything(server, plan, None if again else say)
            counts.append(await settled(server))
            found += grown(*counts[-2:], most)
    for when, count in zip(("before", "after", "once more"), counts, strict=True):
        say(
            f"{when}: {count.objects:,} objects, {count.tasks} tasks, "
            f"{count.memory / MIB:.1f} MiB"
        )
    return found


async def settled(server: Server) -> Count:
    """Count the remaining objects after the ended sessions had time to be freed."""
    await asyncio.sleep(SETTLE_S)  # count only what stays
    return await server.count()


async def reaped(count: int, say: Callable[[str], None]) -> list[str]:
    """Let idle sessions expire, but not those with an open stream."""
    found = []
    with serving(str(IDLE_S)) as server:
        callers = [Caller(server.url) for _ in range(count)]
        await callers[0].open()
        wire = await callers[0].listen()
        await each(caller.open() for caller in callers[1:])

        async def one_is_left() -> bool:
            return (await server.ask("census"))["sessions"] <= 1

        await until(one_is_left)
        say(f"{count - 1:,} idle sessions ended after {IDLE_S:g} s")
        statuses = await each(caller.end() for caller in callers)
        if statuses != [204, *[404] * (count - 1)]:
            found.append(f"reaped: ended with {set(statuses)}")
        for each_ in (wire, *(caller.wire for caller in callers)):
            await each_.close()
    return found


# The command...


def make_room(sessions: int) -> None:
    """Raise the descriptor limit for one descriptor per connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * sessions + 256
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
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
        found = asyncio.run(load(plan, show))
        found += asyncio.run(reaped(plan.sessions, show))
    except* Crossed as crossed:
        found = [f"crossed: {error}" for error in crossed.exceptions]
    show(f"{time.monotonic() - started:.1f} s")
    show("\n".join(f"GREW {line}" for line in found) or "flat")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
