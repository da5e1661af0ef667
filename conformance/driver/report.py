"""What is printed, kept as JSON, pinned, and written into the table of README.md."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driver.legs import ROOT, Leg
from driver.verdict import suite_passes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.verdict import Run

JSON = ROOT / ".build" / "conformance.json"
README = ROOT / "conformance" / "README.md"
TAIL = 3000
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
    shared: int = 0
    """How many of the scenarios another leg has run."""

    red: Sequence[str] = ()
    """Why all of it is red, whatever its scenarios are."""

    wrote: str = ""
    """What the server wrote, where one server stood the whole leg."""

    @property
    def green(self) -> bool:
        """Whether anything was run, and nothing is red."""
        return bool(self.results) and self.passed == self.total and not self.red

    @property
    def passed(self) -> int:
        """How many scenarios passed."""
        return sum(not result.red for result in self.results)

    @property
    def total(self) -> int:
        """How many scenarios there are."""
        return len(self.results)


def leg_text(done: LegResult, *, verbose: bool) -> str:
    """Return a line for a leg, and below it what is red."""
    leg, score = done.leg, f"{done.passed}/{done.total}"
    shared = f" ({done.shared} run before)" if done.shared else ""
    about = f"{leg.suite.version}, {leg.side}: {leg.says}{shared}"
    lines = [f"{leg.name}  {score:>6} {done.seconds:5.0f} s  {about}"]
    lines += [
        red(leg, result.run, result.red)
        for result in done.results
        if result.red or verbose
    ]
    lines += [f"    {leg.name}: {reason}" for reason in done.red]
    if done.wrote and (done.red or verbose):
        lines.append(textwrap.indent(done.wrote[-TAIL:].rstrip(), "      | "))
    return "\n".join(lines)


def red(leg: Leg, run: Run, reasons: Sequence[str]) -> str:
    """Return a scenario's reasons and the end of what was written while it ran."""
    time = "" if run.seconds is None else f" ({run.seconds:.1f} s)"
    lines = [f"    {leg.name} {run.scenario}{time}"]
    lines += [f"      {reason}" for reason in reasons]
    if run.output:
        lines.append(textwrap.indent(run.output.rstrip(), "      | "))
    return "\n".join(lines)


def control_text(done: Sequence[LegResult]) -> str:
    """Return how far one gets by doing nothing, by the suite's word and by ours."""
    return "\n".join(
        f"{leg.leg.name}: {sum(suite_passes(result.run) for result in leg.results)} "
        f"of {leg.total} pass by the suite's own verdict, {leg.passed} by ours"
        for leg in done
    )


# --- files ---------------------------------------------------------------------------


def write_json(done: Sequence[LegResult]) -> None:
    """Write each check of each run."""
    JSON.parent.mkdir(exist_ok=True)
    JSON.write_text(json.dumps([_leg_json(leg) for leg in done], indent=1), "utf-8")


def _leg_json(done: LegResult) -> dict[str, Any]:
    return {
        "leg": done.leg.name,
        "suite": done.leg.suite.version,
        "side": done.leg.side,
        "options": done.leg.options,
        "passed": done.passed,
        "total": done.total,
        "shared": done.shared,
        "red": done.red,
        "seconds": round(done.seconds, 1),
        "scenarios": [_result_json(result) for result in done.results],
    }


def _result_json(result: Result) -> dict[str, Any]:
    run = result.run
    return {
        "scenario": run.scenario,
        "red": result.red,
        "seconds": run.seconds and round(run.seconds, 2),
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
    rows = ["| leg | side | suite | what | passed | run before | checks | seconds |"]
    rows.append("|---|---|---|---|---|---|---|---|")
    for one in done:
        leg = one.leg
        checks = Counter(
            check["status"]
            for result in one.results
            for check in result.run.checks or ()
        )
        judged = checks.total() - checks["INFO"]
        rows.append(
            f"| {leg.name} | {leg.side} | {leg.suite.version} | {leg.says} "
            f"| {one.passed} of {one.total} | {one.shared or ''} "
            f"| {checks['SUCCESS']} of {judged} | {one.seconds:.0f} |"
        )
    return "\n".join(rows)
