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
from driver.processes import (
    BUILD,
    NODE,
    checks_in,
    kill,
    run_bounded,
    start,
)
from driver.verdict import Run, Stand

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Collection, Iterator, Sequence
    from pathlib import Path

    from driver.legs import Leg

PROGRAMS = ROOT / "conformance"
NOTHING_FAILS = ROOT / "conformance" / "expected-failures.yml"
HOST = "127.0.0.1"

START_TIMEOUT = 30.0
STOP_TIMEOUT = 10.0
LEG_TIMEOUT = 180.0
"""The timeout of all scenarios together; the suite has its own for each."""

POLL = 0.05

FOLDER = re.compile(r"^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$")
"""The name that the suite gives to the folder of a scenario."""


async def stand(
    leg: Leg, wanted: Collection[str] | None = None, program: Path | None = None
) -> tuple[list[Run], Stand]:
    """Run a server through a leg: all scenarios, or the wanted ones one by one."""
    folder = BUILD / leg.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder / "server.txt"
    suite_exit: int | None = 0
    command = (str(program),) if program is not None else _command(leg)
    async with _started(command, log) as (process, url):
        is_up = url is not None
        for options in _rounds(leg, wanted) if is_up else ():
            suite = [str(NODE), str(leg.suite.program), "server", "--url", str(url)]
            suite += ["--expected-failures", str(NOTHING_FAILS), *options]
            code, _ = await run_bounded([*suite, "-o", str(folder)], LEG_TIMEOUT)
            suite_exit = (
                None if suite_exit is None or code is None else suite_exit | code
            )
        server_exit = await _stopped(process)
    wrote = log.read_text("utf-8", errors="replace")
    ended = Stand(
        is_up=is_up, suite_exit=suite_exit, server_exit=server_exit, wrote=wrote
    )
    return list(_played(folder)), ended


def _command(leg: Leg) -> tuple[str, ...]:
    return (str(PROGRAMS / leg.program), *leg.arguments)


def _rounds(leg: Leg, wanted: Collection[str] | None) -> Iterator[list[str]]:
    if wanted is None:
        yield list(leg.whole)
    else:
        for scenario in wanted:
            yield ["--scenario", scenario, *leg.options]


def _played(folder: Path) -> Iterator[Run]:
    """Yield the runs that the suite wrote, in order of time."""
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        if named := FOLDER.match(path.name):
            yield Run(scenario=named[1], checks=checks_in(path))


# --- the server ----------------------------------------------------------------------


@asynccontextmanager
async def _started(
    program: Sequence[str], log: Path
) -> AsyncIterator[tuple[Process, str | None]]:
    """Start a server; yield process and URL, ``None`` if it does not listen in time."""
    with _kept_port() as port:
        with log.open("wb") as wrote:
            process = await start(
                (sys.executable, *program, "--port", str(port)), wrote
            )
        try:
            is_up = await _listens(process, port)
            yield process, f"http://{HOST}:{port}/mcp" if is_up else None
        finally:
            if process.returncode is None:
                await kill(process)


@contextmanager
def _kept_port() -> Iterator[int]:
    """Yield a free port that the system does not assign to others within the block.

    On Linux a server may listen on a port where another socket is bound without
    listening. Elsewhere they would conflict, so there the port is not reserved.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((HOST, 0))
        port = int(keeper.getsockname()[1])
        if sys.platform != "linux":
            keeper.close()
        yield port


async def _listens(process: Process, port: int) -> bool:
    """Return whether the port accepts a connection before the timeout."""
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection(HOST, port)
                except OSError:
                    await asyncio.sleep(POLL)  # no event reports that a port is open
                else:
                    writer.close()
                    return True
    except TimeoutError:
        pass
    return False


async def _stopped(process: Process) -> int | None:
    """Send SIGTERM to a server; return its exit code, ``None`` after a timeout."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            return await process.wait()
    except TimeoutError:
        return None
