"""What is printed, kept as JSON, pinned, and written into the table of README.md."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driver.legs import ROOT, Leg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.verdict import Run

JSON = ROOT / ".build" / "conformance.json"
README = ROOT / "conformance" / "README.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run and what it is worth."""

    run: Run
    red: Sequence[str]
    """Why it is red; nothing where it is green."""


@dataclass(frozen=True, kw_only=True)
class LegResult:
    """What came of a leg."""

    leg: Leg
    results: Sequence[Result]
    seconds: float

    @property
    def green(self) -> bool:
        """Whether anything was run, and nothing is red."""
        return bool(self.results) and self.passed == self.total

    @property
    def passed(self) -> int:
        """How many scenarios passed."""
        return sum(not result.red for result in self.results)

    @property
    def total(self) -> int:
        """How many scenarios were run."""
        return len(self.results)


def leg_text(done: LegResult, *, verbose: bool) -> str:
    """Return a line for a leg, and below it what is red."""
    leg, score = done.leg, f"{done.passed}/{done.total}"
    lines = [
        f"{leg.name}  {score:>6} {done.seconds:5.0f} s  {leg.suite.version}: {leg.says}"
    ]
    lines += [
        red(leg, result.run, result.red)
        for result in done.results
        if result.red or verbose
    ]
    return "\n".join(lines)


def red(leg: Leg, run: Run, reasons: Sequence[str]) -> str:
    """Return a scenario's reasons and the end of what was written while it ran."""
    lines = [f"    {leg.name} {run.scenario} ({run.seconds:.1f} s)"]
    lines += [f"      {reason}" for reason in reasons]
    lines.append(textwrap.indent(run.output.rstrip(), "      | "))
    return "\n".join(lines)


# --- files ---------------------------------------------------------------------------


def write_json(done: Sequence[LegResult]) -> None:
    """Write each check of each run."""
    JSON.parent.mkdir(exist_ok=True)
    JSON.write_text(json.dumps([_leg_json(leg) for leg in done], indent=1), "utf-8")


def _leg_json(done: LegResult) -> dict[str, Any]:
    return {
        "leg": done.leg.name,
        "suite": done.leg.suite.version,
        "options": done.leg.options,
        "passed": done.passed,
        "total": done.total,
        "seconds": round(done.seconds, 1),
        "scenarios": [_result_json(result) for result in done.results],
    }


def _result_json(result: Result) -> dict[str, Any]:
    run = result.run
    return {
        "scenario": run.scenario,
        "red": result.red,
        "seconds": round(run.seconds, 2),
        "suite_exit": run.suite_exit,
        "client_exit": run.client_exit,
        "output": run.output if result.red else "",
        "checks": [
            {key: check[key] for key in ("id", "name", "status")}
            for check in run.checks or ()
            if check["status"] != "INFO"
        ],
    }


def write_pins(leg: Leg, pins: Mapping[str, Sequence[str] | None]) -> None:
    """Write the checks that have to succeed, in the order of the suite's scenarios."""
    leg.pins.write_text(json.dumps(pins, indent=1) + "\n", "utf-8")


def write_table(done: Sequence[LegResult]) -> None:
    """Put the table into README.md, between its marks."""
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{table(done)}\n{END}{after}", "utf-8")


def table(done: Sequence[LegResult]) -> str:
    """Return the score of each leg as Markdown."""
    rows = ["| leg | suite | what | scenarios passed | checks | seconds |"]
    rows.append("|---|---|---|---|---|---|")
    for one in done:
        checks = Counter(
            check["status"]
            for result in one.results
            for check in result.run.checks or ()
        )
        judged = checks.total() - checks["INFO"]
        rows.append(
            f"| {one.leg.name} | {one.leg.suite.version} | {one.leg.says} "
            f"| {one.passed} of {one.total} "
            f"| {checks['SUCCESS']} of {judged} | {one.seconds:.0f} |"
        )
    return "\n".join(rows)
