"""Verdicts on the checks of a scenario.

Stricter than the suite itself, which passes a client that did nothing, and does not
notice that a check is no longer made.

This module uses no processes and files.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

PASSING = frozenset({"SUCCESS", "INFO"})
MAX_EXCERPT = 300

MAY_BE_SKIPPED: Mapping[tuple[str, str], str] = {
    (
        "http-standard-headers",
        "ClientMcpMethodHeader_initialize",
    ): "2026-07-28 has no handshake",
    (
        "http-standard-headers",
        "ClientMcpMethodHeader_notifications_initialized",
    ): "2026-07-28 has no handshake",
    (
        "tasks-status-notifications",
        "TasksStatusNotificationsScenario",
    ): "the suite has no test of it yet, and says so",
}
"""(scenario, name of the check) -> the reason why it cannot be made."""

WITHOUT_CHECKS: Mapping[str, str] = {
    "tasks-status-notifications": "the suite has no test of it yet, and says so"
}
"""Scenarios in which no check can succeed."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of one scenario.

    For servers one process of the suite runs all scenarios; the members about processes
    are for clients only.
    """

    scenario: str
    checks: Sequence[Mapping[str, Any]] | None
    """The checks from the suite's file; ``None`` without such a file."""

    seconds: float | None = None
    suite_exit: int | None = 0
    """``None``: the suite did not end in time, and was killed."""

    client_exit: int = 0
    client_ended: bool = True
    """Whether the client reached its last line, which reports success."""

    client_timed_out: bool = False
    output: str = ""
    """The end of the output of suite and client, for reports."""


@dataclass(frozen=True, kw_only=True)
class ServerRun:
    """The result of a server's run through a leg."""

    is_up: bool
    """Whether the server listened in time."""

    suite_exit: int | None
    """``None``: the suite did not end in time, and was killed."""

    server_exit: int | None
    """``None``: the server did not end after SIGTERM, and was killed."""

    server_output: str
    """The output of the server."""


def successful_checks(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the successful checks, with names if checks share an id."""
    names = defaultdict(set)
    for check in checks:
        if check["status"] == "SUCCESS":
            names[check["id"]].add(check["name"])
    return sorted(
        id if len(check_names) == 1 else f"{id} {name}"
        for id, check_names in names.items()
        for name in check_names
    )


def judge(run: Run, pins: Collection[str] | None) -> list[str]:
    """Return the reasons of a failed run, one line each; empty if it is green."""
    return [*_process_failures(run), *_check_failures(run), *_pin_failures(run, pins)]


def judge_server_run(
    server_run: ServerRun, scenarios: Iterable[str], pinned: Collection[str]
) -> list[str]:
    """Return the reasons of a failed server leg, apart from its scenarios."""
    return [*_server_failures(server_run), *_unpinned_scenarios(scenarios, pinned)]


def _server_failures(server_run: ServerRun) -> Iterable[str]:
    if not server_run.is_up:
        yield f"the server did not start (exit code {server_run.server_exit})"
        return
    if server_run.suite_exit is None:
        yield "the suite did not end in time and was killed"
    elif server_run.suite_exit:
        yield f"the suite ended with exit code {server_run.suite_exit}"
    if server_run.server_exit is None:
        yield "the server did not end when it was told to"
    elif server_run.server_exit:
        yield f"the server ended with exit code {server_run.server_exit}"
    if "Traceback" in server_run.server_output:
        yield "the server wrote a traceback"


def _unpinned_scenarios(
    scenarios: Iterable[str], pinned: Collection[str]
) -> Iterable[str]:
    if new := sorted(set(scenarios) - set(pinned)):
        yield f"run, but no checks are pinned for it: {', '.join(new)}"


def suite_passes(run: Run) -> bool:
    """Return the suite's own verdict on a scenario."""
    statuses = {check["status"] for check in run.checks or ()}
    return run.suite_exit == 0 and "FAILURE" not in statuses


def _process_failures(run: Run) -> Iterable[str]:
    if run.suite_exit is None:
        yield f"did not end within {run.seconds or 0:.0f} s and was killed"
    elif run.client_timed_out:
        yield "the client did not end in time"
    else:
        if run.suite_exit:
            yield f"the suite ended with exit code {run.suite_exit}"
        if run.client_exit or not run.client_ended:
            yield f"the client ended early, with exit code {run.client_exit}"


def _check_failures(run: Run) -> Iterable[str]:
    if not any(check["status"] != "INFO" for check in run.checks or ()):
        yield "nothing was checked"
        return
    if run.scenario not in WITHOUT_CHECKS and not successful_checks(run.checks or ()):
        yield "no check succeeded"
    for check in run.checks or ():
        status, name = check["status"], check["name"]
        if status in PASSING:
            continue
        if status == "SKIPPED" and (run.scenario, name) in MAY_BE_SKIPPED:
            continue
        message = check.get("errorMessage") or check.get("description") or ""
        yield f"{status} {check['id']} ({name}): {message[:MAX_EXCERPT]}"


def _pin_failures(run: Run, pins: Collection[str] | None) -> Iterable[str]:
    if pins is None:
        yield "no checks are pinned for it"
        return
    successful = set(successful_checks(run.checks or ()))
    if missing := sorted(set(pins) - successful):
        yield f"pinned, but no success: {', '.join(missing)}"
    if new := sorted(successful - set(pins)):
        yield f"a success, but not pinned: {', '.join(new)}"
