"""Stdout, resource use and shutdown of a server over stdio.

The cases of `at_end` run last. The first one closes the input of the shared process;
each checks one aspect of the same shutdown, so that none starts a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import attrs

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.cases._calls import echo_params, start_slow_call
from mcpwire.testing.procfs import (
    HAS_PROC,
    descendants,
    descriptors,
    is_alive,
    resident_memory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.check.peer import StdioPeer
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("hygiene")

EXIT_TIMEOUT_S: Final = 5.0
"""Time limit for the exit of the server."""

_ANSWER_TIME_S: Final = 0.3
"""Time for the server to answer before its input ends."""

_REQUEST_COUNT: Final = 1000
_MAX_IN_FLIGHT: Final = 50
_MAX_EXTRA_BYTES: Final = 32 * 1024 * 1024
_MAX_EXTRA_DESCRIPTORS: Final = 8
_MAX_EXTRA_CHILDREN: Final = 2

case = FAMILY.with_defaults(transports=("stdio",), start=Start.LAST)
usage = case.with_defaults(
    is_quick=False, bound_s=90.0, sends="a thousand requests, after two hundred others"
)
at_end = case.with_defaults(sends="the end of the input")
own_process = case.with_defaults(
    start=Start.OWN,
    is_once=True,
    is_quick=False,
    bound_s=40.0,
    expects=f"the process exits within {EXIT_TIMEOUT_S:g} s",
)


async def _wait_for_exit(stdio: StdioPeer) -> bool:
    """Return whether a process exits in time; wait longer while it uses the CPU."""
    return await stdio.wait_exit(EXIT_TIMEOUT_S) or await stdio.wait_while_busy(
        lambda: stdio.wait_exit(0.5), 20
    )


def _expect_messages(subject: Subject, messages: Iterable[Message]) -> None:
    for message in messages:
        if message.problem or not isinstance(message.value, dict):
            subject.last_sent = b""
            subject.raise_broken("only messages", message.raw)


@case.must(
    "TR-STDIO-02.a",
    "stdout contains only messages",
    source="basic/transports#stdio",
    rules=("RPC-02",),
    sends="nothing; checks all lines of the connection",
    expects="each line is one message, in UTF-8",
    why="log lines and print output break or block the connection",
)
async def lines_are_messages(subject: Subject) -> None:
    subject.need_stdio()
    if not subject.received:
        subject.raise_absent("line on stdout")
    _expect_messages(subject, subject.received)


# --- resource use ---------------------------------------------------------------------


@attrs.frozen
class _ResourceUse:
    descriptors: int
    memory: int
    children: int


_RESOURCE_USES: Final[WeakKeyDictionary[Subject, tuple[_ResourceUse, _ResourceUse]]] = (
    WeakKeyDictionary()
)


def _measure_use(subject: Subject, pid: int) -> _ResourceUse:
    files, memory = descriptors(pid), resident_memory(pid)
    if files is None or memory is None:
        subject.raise_absent("/proc")
    return _ResourceUse(files, memory, len(descendants(pid)))


async def _send_many(subject: Subject, count: int) -> None:
    for start in range(0, count, _MAX_IN_FLIGHT):
        ids = [subject.next_id() for _ in range(_MAX_IN_FLIGHT)]
        for i, id in enumerate(ids):
            if "echo" in subject.facts.roles:
                params = echo_params(subject, f"mcpwire {start + i}")
                message = subject.message("tools/call", params, id=id)
            else:
                message = subject.message(subject.facts.barrier, id=id)
            await subject.send(message)
        for id in ids:
            await subject.wait_answer(id, timeout=20.0)


async def _resource_uses(subject: Subject) -> tuple[_ResourceUse, _ResourceUse]:
    """Return the resource use after 200 requests and after 1,000 more."""
    stdio = subject.need_stdio()
    if not HAS_PROC:
        subject.raise_absent("/proc")
    if subject not in _RESOURCE_USES:
        await _send_many(subject, 200)
        before = _measure_use(subject, stdio.pid)
        await _send_many(subject, _REQUEST_COUNT)
        _RESOURCE_USES[subject] = before, _measure_use(subject, stdio.pid)
        subject.last_sent = b"a thousand requests, fifty at once"
    return _RESOURCE_USES[subject]


@usage.robust(
    "H02.a",
    "file descriptors are closed",
    expects=f"at most {_MAX_EXTRA_DESCRIPTORS} more descriptors than before",
    why="a long-running server can no longer open files",
)
async def descriptors_are_closed(subject: Subject) -> None:
    before, after = await _resource_uses(subject)
    limit = before.descriptors + _MAX_EXTRA_DESCRIPTORS
    subject.expect(after.descriptors <= limit, f"at most {limit}", after.descriptors)


@usage.robust(
    "H02.b",
    "child processes started by requests exit",
    expects=f"at most {_MAX_EXTRA_CHILDREN} more processes than before",
    why="a long-running server fills the process table",
)
async def children_end(subject: Subject) -> None:
    before, after = await _resource_uses(subject)
    limit = before.children + _MAX_EXTRA_CHILDREN
    subject.expect(after.children <= limit, f"at most {limit}", after.children)


@usage.robust(
    "H03.a",
    "memory does not grow with the number of requests",
    expects=f"at most {_MAX_EXTRA_BYTES >> 20} MiB more memory than before, "
    "in one of three attempts",
    why="a long-running server runs out of memory",
)
async def memory_is_bounded(subject: Subject) -> None:
    before, after = await _resource_uses(subject)
    grown = after.memory - before.memory
    for _ in range(2):  # garbage collection stops the growth of a heap, not a leak
        if grown > _MAX_EXTRA_BYTES:
            await _send_many(subject, _REQUEST_COUNT)
            before, after = after, _measure_use(subject, subject.need_stdio().pid)
            grown = after.memory - before.memory
    subject.expect(
        grown <= _MAX_EXTRA_BYTES,
        f"at most {_MAX_EXTRA_BYTES >> 20} MiB more",
        f"{grown >> 20} MiB more",
    )


# --- shutdown -------------------------------------------------------------------------


@attrs.frozen
class _Shutdown:
    in_time: bool
    code: int | None
    lines: list[Message]
    """Messages that the server wrote after the end of its input."""
    left: set[int]
    """Process ids of descendants that still run."""


_SHUTDOWNS: Final[WeakKeyDictionary[Subject, _Shutdown]] = WeakKeyDictionary()


async def _shut_down(subject: Subject) -> _Shutdown:
    """Close the server's input on the first call; return how the process ended."""
    stdio = subject.need_stdio()
    if subject not in _SHUTDOWNS:
        start, pids = len(subject.received), descendants(stdio.pid)
        stdio.close_input()
        in_time = await _wait_for_exit(stdio)
        for _ in range(20):
            left = {pid for pid in pids if is_alive(pid)} if HAS_PROC else set()
            if not left or not in_time:
                break
            await asyncio.sleep(0.05)
        _SHUTDOWNS[subject] = _Shutdown(
            in_time, stdio.exit_code, subject.received[start:], left
        )
    subject.last_sent = b"the end of the input"
    return _SHUTDOWNS[subject]


def _expect_end(subject: Subject, *, in_time: bool) -> None:
    expected = f"the process exits within {EXIT_TIMEOUT_S:g} s"
    subject.expect(in_time, expected, "it is still running")


# Decorators run from bottom to top: the lower one adds its case first.
@at_end.robust(
    "A07.a",
    "the server exits when its input ends",
    rules=("LIFE-12",),
    revisions=LEGACY,
    expects=f"the process exits within {EXIT_TIMEOUT_S:g} s",
    why="clients leave a process behind, or have to kill it",
)
@at_end.should(
    "TR-STDIO-13.a",
    "the server exits when its input ends",
    source="basic/transports/stdio#shutdown",
    rules=("LIFE-12",),
    revisions=MODERN,
    expects=f"the process exits within {EXIT_TIMEOUT_S:g} s",
    why="clients leave a process behind, or have to kill it",
)
async def ends_with_its_input(subject: Subject) -> None:
    _expect_end(subject, in_time=(await _shut_down(subject)).in_time)


@at_end.robust(
    "A07.b",
    "the server exits with the exit code 0",
    expects="the exit code 0",
    why="supervisors restart it, and users see an error at each shutdown",
)
async def exit_code(subject: Subject) -> None:
    shutdown = await _shut_down(subject)
    if not shutdown.in_time:
        subject.raise_absent("exit of the process by itself")
    subject.expect(
        shutdown.code == 0, "the exit code 0", f"the exit code {shutdown.code}"
    )


@at_end.robust(
    "A07.c",
    "child processes exit with the server",
    expects="all processes that the server started have exited",
    why="each session leaves a process behind",
)
async def no_child_left(subject: Subject) -> None:
    shutdown = await _shut_down(subject)
    if not shutdown.in_time or not HAS_PROC:
        subject.raise_absent("exit of the process by itself")
    actual = f"processes left: {len(shutdown.left)}"
    subject.expect(not shutdown.left, "no process", actual)


@at_end.must(
    "TR-STDIO-02.b",
    "stdout contains only messages at shutdown, too",
    source="basic/transports#stdio",
    expects="no line, or only messages",
    why="clients report an error at each shutdown",
)
async def stdout_at_shutdown(subject: Subject) -> None:
    _expect_messages(subject, (await _shut_down(subject)).lines)


@own_process.robust(
    "A07.d",
    "the server exits when its input ends during a call",
    rules=("TR-STDIO-13",),
    needs=("role:slow",),
    sends="a call that takes ten seconds, then the end of the input",
    why="a client that closes during a call leaves a process behind",
)
async def ends_during_a_call(subject: Subject) -> None:
    stdio = subject.need_stdio()
    await start_slow_call(subject, 10.0)
    stdio.close_input()
    _expect_end(subject, in_time=await _wait_for_exit(stdio))


@own_process.robust(
    "A07.e",
    "the server exits on SIGTERM",
    rules=("LIFE-12",),
    sends="SIGTERM, while the input stays open",
    why="supervisors have to wait and kill the process",
)
async def ends_on_sigterm(subject: Subject) -> None:
    stdio = subject.need_stdio()
    os.kill(stdio.pid, signal.SIGTERM)
    _expect_end(subject, in_time=await _wait_for_exit(stdio))


@own_process.robust(
    "A07.f",
    "the server exits when its client crashes",
    rules=("TR-STDIO-13",),
    sends="requests after stdout is closed, then the end of the input",
    why="each crash of a client leaves a process behind",
)
async def ends_with_its_client(subject: Subject) -> None:
    stdio = subject.need_stdio()
    stdio.close_output()
    for _ in range(5):
        id = subject.next_id()
        await subject.send(subject.message(subject.facts.barrier, id=id))
    # If the input ended at once, the server might or might not answer before it exits.
    await stdio.wait_exit(_ANSWER_TIME_S)
    stdio.close_input()
    _expect_end(subject, in_time=await _wait_for_exit(stdio))
