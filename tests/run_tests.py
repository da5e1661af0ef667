"""Run the tests, run those that failed once more, alone, and say how it ended.

    python tests/run_tests.py PYTEST-ARGUMENTS...  # the whole run
    python tests/run_tests.py --report             # the last lines of the last one

A test that fails and then passes alone is flaky: it is named in the last lines and in
the JUnit file (as `flakyFailure`), and fails the run only if more than five are. A test
that is skipped fails the run under CI, where everything is installed, unless it is
listed here with its reason.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).parents[1]
JUNIT: Final = ROOT / ".build/junit.xml"
JUNIT_AGAIN: Final = ROOT / ".build/junit-again.xml"

MAX_FLAKY: Final = 5
TESTS_FAILED: Final = 1
"""Pytest's exit code for it; all others mean that the run itself went wrong."""

AGAIN: Final = ("-n", "0", "--last-failed", "--last-failed-no-failures=none")

ALLOWED_SKIPS: Final[dict[str, str]] = {}
"""Test (`module::name`, without parameters) -> why it may be skipped under CI."""


def default_signals() -> None:
    """Undo what the caller ignores (`nohup` SIGHUP, a shell's `&` SIGINT)."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number is signal.SIGINT
            handler = signal.default_int_handler if is_interrupt else signal.SIG_DFL
            signal.signal(number, handler)


def name_of(case: ET.Element) -> str:
    """Return the name of a test as the reports show it."""
    return f"{case.get('classname')}::{case.get('name')}"


def skips(report: ET.Element) -> Iterator[tuple[str, str]]:
    """Yield the skipped tests and their reasons; expected failures are no skips."""
    for case in report.iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None and skipped.get("type") != "pytest.xfail":
            yield name_of(case), skipped.get("message") or ""


def failed(report: ET.Element) -> set[str]:
    """Return the tests that failed, or whose fixtures did."""
    return {
        name_of(case)
        for case in report.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    }


def flaky(report: ET.Element) -> list[str]:
    """Return the tests that failed at first and passed alone."""
    return [
        name_of(case)
        for case in report.iter("testcase")
        if case.find("flakyFailure") is not None or case.find("flakyError") is not None
    ]


def merge(report: ET.Element, again: ET.Element) -> None:
    """Mark as flaky in `report` what failed there and passed in `again`."""
    passed = {name_of(case) for case in again.iter("testcase")} - failed(again)
    passed -= {name for name, _ in skips(again)}
    for suite in report.iter("testsuite"):
        for case in suite.iter("testcase"):
            if name_of(case) not in passed:
                continue
            for tag, count in (("failure", "failures"), ("error", "errors")):
                for outcome in case.findall(tag):
                    outcome.tag = f"flaky{tag.capitalize()}"
                    suite.set(count, str(int(suite.get(count) or 0) - 1))


def judge(report: ET.Element, *, strict: bool) -> tuple[list[str], int]:
    """Return the last lines, the counts at their end, and the exit code."""
    suites = list(report.iter("testsuite"))

    def total(*keys: str) -> int:
        return sum(int(suite.get(key) or 0) for suite in suites for key in keys)

    count_failed, count_skipped = total("failures", "errors"), total("skipped")
    count_passed = total("tests") - count_failed - count_skipped
    is_bad = count_failed > 0 or count_passed == 0
    lines = [f"failed: {name}" for name in sorted(failed(report))]
    for name, reason in skips(report):
        if name.partition("[")[0] not in ALLOWED_SKIPS:
            lines.append(f"skipped: {name}: {reason}")
            is_bad |= strict
    unsteady = flaky(report)
    lines += [f"flaky: {name}" for name in unsteady]
    if len(unsteady) > MAX_FLAKY:
        lines.append(f"more than {MAX_FLAKY} flaky tests fail the run")
        is_bad = True
    lines.append(f"flaky: {len(unsteady)}")
    lines.append(
        f"{count_passed} passed, {count_failed} failed, {count_skipped} skipped"
    )
    return lines, int(is_bad)


def pytest(*words: str) -> int:
    """Run pytest, measured with all the processes that it starts; return its exit code.

    Coverage measures each process from its start. A plugin of pytest would measure the
    workers a second time, where nothing could stop it for tests of lines that other
    tests measure.
    """
    measured = {
        "COVERAGE_PROCESS_START": str(ROOT / "pyproject.toml"),
        "COVERAGE_FILE": str(ROOT / ".coverage"),
    }
    command = (sys.executable, "-m", "pytest", *words)
    env = os.environ | measured
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def run(words: Sequence[str]) -> int:
    """Run the tests, what failed once more, and leave one report."""
    code = pytest(*words, f"--junitxml={JUNIT}")
    if code != TESTS_FAILED:
        return code
    report = ET.parse(JUNIT)
    names = failed(report.getroot())
    if len(names) > MAX_FLAKY:  # more may be flaky than there may be
        return code
    sys.stdout.write(f"== {len(names)} failed: once more, alone\n")
    sys.stdout.flush()
    pytest(*words, *AGAIN, f"--junitxml={JUNIT_AGAIN}")
    merge(report.getroot(), ET.parse(JUNIT_AGAIN).getroot())
    report.write(JUNIT)
    return int(bool(failed(report.getroot())))


def main(words: Sequence[str]) -> int:
    """Do what the command line asks for; return the exit code."""
    if words != ["--report"]:
        return run(words)
    strict = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
    lines, code = judge(ET.parse(JUNIT).getroot(), strict=strict)
    sys.stdout.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
