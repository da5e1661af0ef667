"""Strict run of the official conformance suite against a server.

The suite is a separate program that the user installs (npm:
``@modelcontextprotocol/conformance``). It passes a scenario without any successful
check, and a server that only breaks a SHOULD; here both are findings.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Level, Verdict
from mcpwire.check.results import Cell, Result
from mcpwire.errors import LocalProtocolError, RemoteProtocolError
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SUITE_TIMEOUT_S: Final = 900.0
_VERDICTS: Final[Mapping[str, Verdict]] = {
    "SUCCESS": Verdict.PASS,
    "FAILURE": Verdict.FAIL,
    "WARNING": Verdict.FAIL,
    "SKIPPED": Verdict.UNRUN,
}
_PROGRAM_NAMES: Final = ("conformance", "mcp-conformance")


def find_suite(program: str | None = None) -> str:
    """Return the path of the suite's program.

    Args:
        program: A program; by default a known name in PATH or ``node_modules/.bin``.

    Raises:
        LocalProtocolError: The suite is not installed.
    """
    local = Path("node_modules", ".bin")
    for name in [program] if program else _PROGRAM_NAMES:
        for path in (shutil.which(name), shutil.which(name, path=str(local))):
            if path is not None:
                return path
    raise LocalProtocolError(
        f"{program or 'the official suite'} is not installed: install it with npm "
        "install @modelcontextprotocol/conformance, or name its program with --suite"
    )


async def run_official(url: str, revision: str, suite: str) -> list[Result]:
    """Run all scenarios of a revision against a server at a loopback URL.

    Raises:
        RemoteProtocolError: The suite wrote no result, or exceeded its time limit.

    Safe to cancel: the suite is ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        baseline = Path(folder, "none.yml")
        baseline.write_bytes(b"server: []\nclient: []\n")  # noqa: ASYNC240 - tiny
        command = [suite, "server", "--url", url, "--suite", "all"]
        command += ["--spec-version", revision, "--expected-failures", str(baseline)]
        began = monotonic()
        output = await _run_suite([*command, "-o", folder], Path(folder, "output"))
        seconds = monotonic() - began
        again = f"mcpwire check --official --revision {revision} {url}"
        results = [
            result
            for path in sorted(Path(folder).rglob("checks.json"))  # noqa: ASYNC240 - tiny
            for result in _read_scenario(path, Path(folder), revision, again)
        ]
    if not results:
        raise RemoteProtocolError(
            f"the official suite wrote no result for {revision} after {seconds:.0f} s; "
            f"its output: {output[-500:].strip()}"
        )
    return results


async def _run_suite(command: list[str], output: Path) -> str:
    # A file: the end of a pipe would wait for processes that the suite leaves.
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=asyncio.subprocess.STDOUT,
            process_group=0,
        )
    try:
        async with asyncio.timeout(SUITE_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        raise RemoteProtocolError(
            f"the official suite did not end within {SUITE_TIMEOUT_S:.0f} s"
        ) from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return output.read_text("utf-8", "replace")  # noqa: ASYNC240 - local


def _read_scenario(
    path: Path, folder: Path, revision: str, again: str
) -> Iterator[Result]:
    """Yield a scenario's checks, and a failure if no check succeeded."""
    stem = str(path.parent.relative_to(folder)).removeprefix("server-")
    scenario = stem.rpartition("-20")[0] or stem  # a time stamp follows
    try:
        checks: list[dict[str, Any]] = loads(path.read_bytes())
    except JSONDecodeError:
        checks = []

    def result(
        id: str, title: str, verdict: Verdict, expected: str = "", actual: str = ""
    ) -> Result:
        return Result(
            case=f"OFFICIAL.{scenario}.{id}",
            cell=Cell("server", "http", revision),
            level=Level.MUST,
            verdict=verdict,
            title=title,
            source="",
            family="official",
            again=again,
            expected=expected,
            actual=actual,
        )

    for check in checks:
        verdict = _VERDICTS.get(check["status"])
        title = check.get("description") or check["name"]
        if verdict is Verdict.PASS:
            yield result(check["id"], title, verdict)
        elif verdict is not None:
            actual = f"{check['status']} {check.get('errorMessage') or ''}".strip()
            yield result(check["id"], title, verdict, "SUCCESS", actual)
    if not any(check["status"] == "SUCCESS" for check in checks):
        yield result(
            "vacuous",
            "at least one check of the scenario succeeds",
            Verdict.FAIL,
            expected="a check that succeeds",
            actual=f"no successful check of {len(checks)}",
        )
