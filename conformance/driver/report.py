"""Output of a run: text, JSON file, pins, and the table in README.md."""

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
    """A run and its verdict."""

    run: Run
    red: Sequence[str]
    """The reasons of a failure; empty if the run is green."""


@dataclass(frozen=True, kw_only=True)
class LegResult:
    """The results of a leg."""

    leg: Leg
    results: Sequence[Result]
    seconds: float
    shared: int = 0
    """The number of scenarios with results from another leg."""

    red: Sequence[str] = ()
    """The reasons of a failure of the leg itself, apart from its scenarios."""

    wrote: str = ""
    """The output of the server, if one server ran for the whole leg."""

    @property
    def green(self) -> bool:
        """Whether scenarios were run, and none failed."""
        return bool(self.results) and self.passed == self.total and not self.red

    @property
    def passed(self) -> int:
        """The number of scenarios that passed."""
        return sum(not result.red for result in self.results)

    @property
    def total(self) -> int:
        """The number of scenarios."""
        return len(self.results)


def leg_text(done: LegResult, *, verbose: bool) -> str:
    """Return a line for a leg, followed by its failures."""
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
    """Return the failures of a scenario and the end of its output."""
    time = "" if run.seconds is None else f" ({run.seconds:.1f} s)"
    lines = [f"    {leg.name} {run.scenario}{time}"]
    lines += [f"      {reason}" for reason in reasons]
    if run.output:
        lines.append(textwrap.indent(run.output.rstrip(), "      | "))
    return "\n".join(lines)


def control_text(done: Sequence[LegResult]) -> str:
    """Return the scores of `nothing.py`, by the suite's verdict and by ours."""
    return "\n".join(
        f"{leg.leg.name}: {sum(suite_passes(result.run) for result in leg.results)} "
        f"of {leg.total} pass by the suite's own verdict, {leg.passed} by ours"
        for leg in done
    )


# --- files ---------------------------------------------------------------------------


def write_json(done: Sequence[LegResult]) -> None:
    """Write the JSON file with all checks of all runs."""
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
    """Write the checks that must succeed, in the order of the suite's scenarios."""
    leg.pins.write_text(json.dumps(pins, indent=1) + "\n", "utf-8")


def write_table(done: Sequence[LegResult]) -> None:
    """Write the table between its markers in README.md."""
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{table(done)}\n{END}{after}", "utf-8")


def table(done: Sequence[LegResult]) -> str:
    """Return the scores of the legs as a Markdown table."""
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
