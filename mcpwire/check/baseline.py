"""Baseline file: accepts the findings that it lists and reports stale entries.

One finding per line: ``RPC-31.a stdio 2025-11-25 fail``; ``#`` starts a comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcpwire.check.case import Verdict
from mcpwire.check.clients import ALL_CASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.check.results import Report, Result

Key: TypeAlias = "tuple[str, str, str]"  # case, transport, revision

_FINDING_VERDICTS: Final = frozenset(
    {Verdict.FAIL, Verdict.CRASH, Verdict.HANG, Verdict.WARN, Verdict.LENIENT}
)


@attrs.frozen
class Comparison:
    """Differences between a report and a baseline."""

    new: tuple[Result, ...]
    """Findings that the baseline lacks or has with another verdict, and cases that did
    not run, which a baseline cannot contain."""
    stale: tuple[str, ...]
    """Entries of the baseline with another verdict in the report."""


def read_baseline(text: str) -> dict[Key, Verdict]:
    """Parse the findings of a baseline.

    Raises:
        ValueError: A line is not a finding; the message has the line number.
    """
    findings: dict[Key, Verdict] = {}
    ids = {case.id for case in ALL_CASES}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            case, transport, revision, verdict = words
            findings[case, transport, revision] = Verdict(verdict)
        except ValueError:
            raise ValueError(
                f"line {number} of the baseline: expected CASE TRANSPORT REVISION "
                f"VERDICT, got {line.strip()!r}"
            ) from None
        if case not in ids:
            raise ValueError(f"line {number} of the baseline: no case {case!r}")
    return findings


def write_baseline(report: Report) -> str:
    """Return the findings of a report as the text of a baseline."""
    lines = sorted(
        f"{r.case} {r.cell.transport} {r.cell.revision} {r.verdict.value}"
        for r in report.results
        if r.verdict in _FINDING_VERDICTS
    )
    return "".join(f"{line}\n" for line in lines)


def compare(report: Report, baseline: Mapping[Key, Verdict]) -> Comparison:
    """Compare a report with a baseline; entries without a result are not stale."""
    verdicts = {_key(result): result.verdict for result in report.results}
    new = (
        result
        for result in report.results
        if result.verdict in {*_FINDING_VERDICTS, Verdict.UNRUN}
        and baseline.get(_key(result)) != result.verdict
    )
    stale = (
        f"{' '.join(key)} {verdict.value}, now {verdicts[key].value}"
        for key, verdict in baseline.items()
        if key in verdicts and verdicts[key] is not verdict
    )
    return Comparison(tuple(sorted(new, key=_key)), tuple(stale))


def _key(result: Result) -> Key:
    return result.case, result.cell.transport, result.cell.revision
