"""Check of a subject over a transport, and measurement of its start time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from time import perf_counter
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire import MCPError, Stdio
from mcpwire.bench.footprint import measure_start
from mcpwire.check import Options, Report, run, run_client
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcpwire.check import Result
    from scoreboard.subjects import Http, Subject

SEED: Final = 1
_JOBS: Final = 2
"""Few concurrent processes, so that slow servers do not miss their timeouts."""
_READY_S: Final = 60.0
_START_S: Final = 60.0
_STARTS: Final = 5


async def check_subject(
    subject: Subject,
    transport: str,
    *,
    only: tuple[str, ...] = (),
    on_result: Callable[[Result], object] = lambda _: None,
) -> Report:
    """Run a whole check over one transport and return its report.

    Raises:
        ConnectError: The subject cannot be started or reached.
    """
    clear(subject)
    variables = subject.variables()
    timeout = ["--timeout", f"{subject.answer_s:g}"] if subject.answer_s != 5 else []
    words = [w for item in variables.items() for w in ("--env", "=".join(item))]
    wait_option = ("--wait", f"{_READY_S:g}s")
    options = Options(
        speed="full",
        seed=SEED,
        only=only,
        roles=subject.roles,
        allow_calls=subject.allow_calls,
        answer_s=subject.answer_s,
        jobs=_JOBS,
        again=(*timeout, *(words if transport == "stdio" else wait_option)),
    )
    if transport == "stdio":
        return await run(stdio_target(subject), options, on_result=on_result)
    table = subject.servers()[transport]
    async with run_server(subject, table):
        report = await run(table.url, options, on_result=on_result)
    line = command_line(subject, table.command)
    results = tuple(
        attrs.evolve(result, again=f"{line} & {result.again}; kill $!")
        for result in report.results
    )
    return attrs.evolve(report, results=results)


async def check_client(
    subject: Subject, transport: str, *, only: tuple[str, ...] = ()
) -> Report:
    """Run a whole check of a client over one transport and return its report.

    Raises:
        ConnectError: The client cannot be started, or does not connect.
    """
    clear(subject)
    variables = ["=".join(item) for item in subject.variables().items()]
    command = ["env", *variables, *subject.filled(subject.command), "once"]
    options = Options(speed="full", seed=SEED, only=only, jobs=_JOBS)
    return await run_client(command, options, http=transport == "http")


def command_line(subject: Subject, command: tuple[str, ...]) -> str:
    """Return a command of a subject as a shell line, with its environment."""
    variables = [shlex.join(["=".join(item)]) for item in subject.variables().items()]
    return " ".join([*variables, shlex.join(subject.filled(command))])


def clear(subject: Subject) -> None:
    """Empty the folder that a subject may write to."""
    shutil.rmtree(subject.scratch, ignore_errors=True)
    subject.scratch.mkdir(parents=True)


def stdio_target(subject: Subject, command: tuple[str, ...] = ()) -> Stdio:
    """Return the process of a subject; the default is its stdio command."""
    program, *arguments = subject.filled(command or subject.command)
    return Stdio(program, arguments, env=subject.variables())


@contextlib.asynccontextmanager
async def run_server(subject: Subject, table: Http) -> AsyncIterator[None]:
    """Run the HTTP server of a subject within the block.

    Raises:
        ConnectionError: The server accepts no connection in time or ends, or another
            server uses its port.
    """
    if await _can_connect(table.url):
        raise ConnectionError(f"another server is at {table.url}: end it first")
    target = stdio_target(subject, table.command)
    child = await asyncio.create_subprocess_exec(
        target.command,
        *target.args,
        env=target.environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await _wait_until_listening(table.url, child)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), 3.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()


async def _wait_until_listening(url: str, child: asyncio.subprocess.Process) -> None:
    """Wait until a server accepts connections."""
    deadline = perf_counter() + _READY_S
    while child.returncode is None and perf_counter() < deadline:
        if await _can_connect(url):
            return
        await asyncio.sleep(0.05)  # until it listens
    raise ConnectionError(f"no connection to {url} within {_READY_S:g} s")


async def _can_connect(url: str) -> bool:
    address = parse_url(url)
    try:
        _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError:
        return False
    writer.transport.abort()
    return True


async def start_times(subject: Subject) -> list[float]:
    """Return the seconds of starts up to the handshake; empty if they fail."""
    clear(subject)
    try:
        (start,) = await measure_start(
            stdio_target(subject),
            _STARTS,
            with_floor=False,
            timeout=_START_S,
            mode="session",
        )
    except MCPError:
        return []
    return [duration / 1e6 for duration in start.values("handshake")]
