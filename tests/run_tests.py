"""Run the tests, repeat failed ones alone, and print the result.

    python tests/run_tests.py PYTEST-ARGUMENTS...  # the whole run
    python tests/run_tests.py --report             # the last lines of the last one

A test that fails and then passes alone is flaky: it is named in the last lines and in
the JUnit file (as `flakyFailure`) and does not fail the run. If more than five tests
fail, the run has failed and none is repeated. A skipped test fails the run under CI,
where everything is installed, unless it is listed here with its reason.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).parents[1]
JUNIT: Final = ROOT / ".build/junit.xml"
JUNIT_AGAIN: Final = ROOT / ".build/junit-again.xml"

MAX_FLAKY: Final = 5
TESTS_FAILED: Final = 1
"""Pytest's exit code for failed tests; all others mean that the run itself failed."""

AGAIN: Final = ("-n", "0", "--last-failed", "--last-failed-no-failures=none")

_EAGER: Final = (
    "a handler begins at once from Python 3.12 on, and in a later turn before"
)

_HANDLERS: Final = "transports.test_handlers"

_NO_BROWSER: Final = "no package of PyPI or npm brings a browser"

ALLOWED_SKIPS: Final[dict[str, str]] = dict.fromkeys(
    (
        f"tests.{module}::test_{name}"
        for module, name in (
            ("server.test_running", "request_cancelled_in_the_same_read_never_runs"),
            (_HANDLERS, "a_handler_without_await_is_answered_immediately"),
            (_HANDLERS, "handlers_over_the_limit_run_in_later_iterations"),
            (_HANDLERS, "a_handler_task_cancelled_from_outside_frees_its_slot"),
            (_HANDLERS, "a_handler_cancelled_before_it_starts_never_runs"),
            (_HANDLERS, "plain_and_async_handlers_run_in_their_own_tasks"),
            (_HANDLERS, "wait_ended_returns_after_an_outside_cancellation"),
        )
    ),
    _EAGER,
) | dict.fromkeys(
    (
        "tests.bench.test_pages::test_a_browser_shows_all_of_it_within_the_window",
        "tests.check.test_reports::test_a_browser_shows_the_pages_within_the_window",
    ),
    _NO_BROWSER,
)
"""Test (`module::name`, without parameters) -> why it may be skipped under CI."""


def default_signals() -> None:
    """Restore signals that the caller ignores (a shell's `&` ignores SIGINT).

    SIGHUP gets an empty handler: under `nohup` this process continues, and its
    children start with the default.
    """
    ignored_by_python = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: lambda *_: None,
    }
    for number in signal.valid_signals() - ignored_by_python:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handlers.get(number, signal.SIG_DFL))


def name_of(case: ET.Element) -> str:
    """Return the name of a test as the reports show it."""
    return f"{case.get('classname')}::{case.get('name')}"


def skips(report: ET.Element) -> dict[str, str]:
    """Return the skipped tests and their reasons; expected failures are no skips."""
    found = {}
    for case in report.iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None and skipped.get("type") != "pytest.xfail":
            found[name_of(case)] = skipped.get("message") or ""
    return found


def having(report: ET.Element, *tags: str) -> set[str]:
    """Return the tests with such an outcome; a test with a failed teardown has two."""
    return {
        name_of(case)
        for case in report.iter("testcase")
        if any(case.find(tag) is not None for tag in tags)
    }


def failed(report: ET.Element) -> set[str]:
    return having(report, "failure", "error")


def merge(report: ET.Element, again: ET.Element) -> None:
    """Mark tests as flaky in `report` that failed there and passed in `again`."""
    passed = {name_of(case) for case in again.iter("testcase")}
    passed -= failed(again) | having(again, "skipped")
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
    names = {name_of(case) for case in report.iter("testcase")}
    bad, unsteady = failed(report), having(report, "flakyFailure", "flakyError")
    skipped = having(report, "skipped") - bad
    refused = {
        name: reason
        for name, reason in skips(report).items()
        if name.partition("[")[0] not in ALLOWED_SKIPS
    }
    passed = len(names) - len(bad) - len(skipped)
    lines = [f"failed: {name}" for name in sorted(bad)]
    lines += [f"skipped: {name}: {reason}" for name, reason in refused.items()]
    lines += [f"flaky: {name}" for name in sorted(unsteady - bad)]
    lines.append(f"flaky: {len(unsteady - bad)}")
    lines.append(f"{passed} passed, {len(bad)} failed, {len(skipped)} skipped")
    is_bad = bool(bad) or not passed or (strict and bool(refused))
    return lines, int(is_bad)


def pytest(*words: str) -> int:
    """Run pytest with coverage of all its processes; return its exit code.

    Coverage measures each process from its start. A plugin of pytest would measure the
    workers a second time, and those measurements cannot be paused.
    """
    measured = {
        "COVERAGE_PROCESS_START": str(ROOT / "pyproject.toml"),
        "COVERAGE_FILE": str(ROOT / ".coverage"),
    }
    command = (sys.executable, "-m", "pytest", *words)
    env = os.environ | measured
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def run(words: Sequence[str]) -> int:
    """Run the tests, repeat the failed ones, write one report and print its summary."""
    for path in (JUNIT, JUNIT_AGAIN):
        path.unlink(missing_ok=True)
    code = pytest(*words, f"--junitxml={JUNIT}")
    if code not in {0, TESTS_FAILED} or not JUNIT.exists():
        return code or 1
    report = ET.parse(JUNIT)
    names = failed(report.getroot())
    # A collection error has no class; then no test can be repeated by its name.
    is_tests = all(not name.startswith("::") for name in names)
    if is_tests and 0 < len(names) <= MAX_FLAKY:
        sys.stdout.write(f"== {len(names)} failed: once more, alone\n")
        sys.stdout.flush()
        again = pytest(*words, *AGAIN, f"--junitxml={JUNIT_AGAIN}")
        if again in {0, TESTS_FAILED} and JUNIT_AGAIN.exists():
            merge(report.getroot(), ET.parse(JUNIT_AGAIN).getroot())
            report.write(JUNIT)
    return print_summary()


def print_summary() -> int:
    """Print the last lines of the report; return the exit code."""
    strict = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
    lines, code = judge(ET.parse(JUNIT).getroot(), strict=strict)
    sys.stdout.write("\n".join(lines) + "\n")
    return code


def main(words: Sequence[str]) -> int:
    if words == ["--report"]:
        return print_summary()
    default_signals()
    return run(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
