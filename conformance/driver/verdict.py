"""What a scenario's checks are worth.

Stricter than the suite itself, which passes a client that did nothing, and does not see
that a check is no longer made.

Knows nothing of processes and files.
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
}
"""(scenario, name of the check) -> why this client cannot be put to it."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came of one scenario's process."""

    scenario: str
    seconds: float
    checks: Sequence[Mapping[str, Any]] | None
    """As the suite wrote them; ``None`` where it wrote none."""

    suite_exit: int | None
    """``None``: it did not end in time, and was killed."""

    client_exit: int
    client_ended: bool
    """Whether the client came to its last line, which is its own word for success."""

    client_timed_out: bool = False
    output: str = ""
    """The end of what suite and client wrote, for whoever has to look."""


def pinnable(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what a run proved: ids, with the names where several checks share one."""
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
    """Return why a run is red, each reason a line; nothing where it is green."""
    return [*_process(run), *_checks(run), *_pins(run, pins)]


def _process(run: Run) -> Iterable[str]:
    if run.suite_exit is None:
        yield f"did not end within {run.seconds:.0f} s and was killed"
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
