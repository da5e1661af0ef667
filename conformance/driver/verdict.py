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

FINE = frozenset({"SUCCESS", "INFO"})
RED = frozenset({"FAILURE", "WARNING"})
EXCERPT = 300

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

NEVER_MADE: Mapping[str, str] = {
    "tasks-status-notifications": "the suite has no test of it yet, and says so",
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
class Stand:
    """The result of a server's run through a leg."""

    is_up: bool
    """Whether the server listened in time."""

    suite_exit: int | None
    """``None``: the suite did not end in time, and was killed."""

    server_exit: int | None
    """``None``: the server did not end after SIGTERM, and was killed."""

    wrote: str
    """The output of the server."""


def pinnable(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the successful checks, with names if checks share an id."""
    names = defaultdict(set)
    for check in checks:
        if check["status"] == "SUCCESS":
            names[check["id"]].add(check["name"])
    return sorted(
        id if len(named) == 1 else f"{id} {name}"
        for id, named in names.items()
        for name in named
    )


def judge(run: Run, pins: Collection[str] | None) -> list[str]:
    """Return the reasons of a failed run, one line each; empty if it is green."""
    return [*_process(run), *_checks(run), *_pins(run, pins)]


def judge_stand(
    stand: Stand, played: Iterable[str], pinned: Collection[str]
) -> list[str]:
    """Return the reasons of a failed server leg, apart from its scenarios."""
    return [*_stand(stand), *_unpinned(played, pinned)]


def _stand(stand: Stand) -> Iterable[str]:
    if not stand.is_up:
        yield f"the server did not start (exit code {stand.server_exit})"
        return
    if stand.suite_exit is None:
        yield "the suite did not end in time and was killed"
    elif stand.suite_exit:
        yield f"the suite ended with exit code {stand.suite_exit}"
    if stand.server_exit is None:
        yield "the server did not end when it was told to"
    elif stand.server_exit:
        yield f"the server ended with exit code {stand.server_exit}"
    if "Traceback" in stand.wrote:
        yield "the server wrote a traceback"


def _unpinned(played: Iterable[str], pinned: Collection[str]) -> Iterable[str]:
    if new := sorted(set(played) - set(pinned)):
        yield f"run, but no checks are pinned for it: {', '.join(new)}"


def suite_passes(run: Run) -> bool:
    """Return the suite's own verdict on a scenario."""
    statuses = {check["status"] for check in run.checks or ()}
    return run.suite_exit == 0 and "FAILURE" not in statuses


def _process(run: Run) -> Iterable[str]:
    if run.suite_exit is None:
        yield f"did not end within {run.seconds or 0:.0f} s and was killed"
    elif run.client_timed_out:
        yield "the client did not end in time"
    else:
        if run.suite_exit:
            yield f"the suite ended with exit code {run.suite_exit}"
        if run.client_exit or not run.client_ended:
            yield f"the client ended early, with exit code {run.client_exit}"


def _checks(run: Run) -> Iterable[str]:
    if not any(check["status"] != "INFO" for check in run.checks or ()):
        yield "nothing was checked"
        return
    if run.scenario not in NEVER_MADE and not pinnable(run.checks or ()):
        yield "no check succeeded"
    for check in run.checks or ():
        status, name = check["status"], check["name"]
        if status in FINE:
            continue
        if status == "SKIPPED" and (run.scenario, name) in MAY_BE_SKIPPED:
            continue
        said = check.get("errorMessage") or check.get("description") or ""
        yield f"{status} {check['id']} ({name}): {said[:EXCERPT]}"


def _pins(run: Run, pins: Collection[str] | None) -> Iterable[str]:
    if pins is None:
        yield "no checks are pinned for it"
        return
    seen = set(pinnable(run.checks or ()))
    if missing := sorted(set(pins) - seen):
        yield f"pinned, but no success: {', '.join(missing)}"
    if new := sorted(seen - set(pins)):
        yield f"a success, but not pinned: {', '.join(new)}"
