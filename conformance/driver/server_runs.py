"""Server scenarios: one server process for all scenarios of a leg.

This is how the suite works; a scenario sees the state that earlier ones left.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from driver.legs import ROOT
from driver.processes import BUILD, NODE, kill, read_checks, run_with_timeout, start
from driver.verdict import Run, ServerRun

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Collection, Iterator, Sequence
    from pathlib import Path

    from driver.legs import Leg

PROGRAMS = ROOT / "conformance"
EXPECTED_FAILURES = ROOT / "conformance" / "expected-failures.yml"
HOST = "127.0.0.1"

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LEG_TIMEOUT_S = 180.0
"""The timeout of all scenarios together; the suite has its own for each."""

POLL_S = 0.05

FOLDER = re.compile(r"^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$")
"""The name that the suite gives to the folder of a scenario."""


async def run_server_leg(
    leg: Leg, selected: Collection[str] | None = None, program: Path | None = None
) -> tuple[list[Run], ServerRun]:
    """Run a server through a leg: all scenarios, or the wanted ones one by one."""
    folder = BUILD / leg.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder / "server.txt"
    suite_exit: int | None = 0
    command = (str(program),) if program is not None else _command(leg)
    async with _start_server(command, log) as (process, url):
        is_up = url is not None
        for options in _option_lists(leg, selected) if is_up else ():
            suite = [str(NODE), str(leg.suite.program), "server", "--url", str(url)]
            suite += ["--expected-failures", str(EXPECTED_FAILURES), *options]
            code, _ = await run_with_timeout([*suite, "-o", str(folder)], LEG_TIMEOUT_S)
            suite_exit = (
                None if suite_exit is None or code is None else suite_exit | code
            )
        server_exit = await _stop_server(process)
    server_output = log.read_text("utf-8", errors="replace")
    server_run = ServerRun(
        is_up=is_up,
        suite_exit=suite_exit,
        server_exit=server_exit,
        server_output=server_output,
    )
    return list(_read_runs(folder)), server_run


def _command(leg: Leg) -> tuple[str, ...]:
    return (str(PROGRAMS / leg.program), *leg.arguments)


def _option_lists(leg: Leg, selected: Collection[str] | None) -> Iterator[list[str]]:
    if selected is None:
        yield list(leg.suite_options)
    else:
        for scenario in selected:
            yield ["--scenario", scenario, *leg.options]


def _read_runs(folder: Path) -> Iterator[Run]:
    """Yield the runs that the suite wrote, in order of time."""
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        if match := FOLDER.match(path.name):
            yield Run(scenario=match[1], checks=read_checks(path))


# --- the server ----------------------------------------------------------------------


@asynccontextmanager
async def _start_server(
    program: Sequence[str], log: Path
) -> AsyncIterator[tuple[Process, str | None]]:
    """Start a server; yield process and URL, ``None`` if it does not listen in time."""
    with _reserve_port() as port:
        with log.open("wb") as server_output:
            process = await start(
                (sys.executable, *program, "--port", str(port)), server_output
            )
        try:
            is_up = await _wait_until_listening(process, port)
            yield process, f"http://{HOST}:{port}/mcp" if is_up else None
        finally:
            if process.returncode is None:
                await kill(process)


@contextmanager
def _reserve_port() -> Iterator[int]:
    """Yield a free port that the system does not assign to others within the block.

    On Linux a server may listen on a port where another socket is bound without
    listening. Elsewhere they would conflict, so there the port is not reserved.
    """
    with socket.socket() as reserving_socket:
        reserving_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving_socket.bind((HOST, 0))
        port = int(reserving_socket.getsockname()[1])
        if sys.platform != "linux":
            reserving_socket.close()
        yield port


async def _wait_until_listening(process: Process, port: int) -> bool:
    """Return whether the port accepts a connection before the timeout."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection(HOST, port)
                except OSError:
                    await asyncio.sleep(POLL_S)  # no event reports that a port is open
                else:
                    writer.close()
                    return True
    except TimeoutError:
        pass
    return False


async def _stop_server(process: Process) -> int | None:
    """Send SIGTERM to a server; return its exit code, ``None`` after a timeout."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            return await process.wait()
    except TimeoutError:
        return None
