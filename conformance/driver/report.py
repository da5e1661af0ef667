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
    failures: Sequence[str]
    """The reasons of a failure; empty if the run is green."""


@dataclass(frozen=True, kw_only=True)
class LegResult:
    """The results of a leg."""

    leg: Leg
    results: Sequence[Result]
    seconds: float
    shared: int = 0
    """The number of scenarios with results from another leg."""

    failures: Sequence[str] = ()
    """The reasons of a failure of the leg itself, apart from its scenarios."""

    server_output: str = ""
    """The output of the server, if one server ran for the whole leg."""

    @property
    def is_green(self) -> bool:
        """Whether scenarios were run, and none failed."""
        return bool(self.results) and self.passed == self.total and not self.failures

    @property
    def passed(self) -> int:
        """The number of scenarios that passed."""
        return sum(not result.failures for result in self.results)

    @property
    def total(self) -> int:
        """The number of scenarios."""
        return len(self.results)


def leg_text(leg_result: LegResult, *, verbose: bool) -> str:
    """Return a line for a leg, followed by its failures."""
    leg, score = leg_result.leg, f"{leg_result.passed}/{leg_result.total}"
    shared = f" ({leg_result.shared} run before)" if leg_result.shared else ""
    about = f"{leg.suite.version}, {leg.side}: {leg.description}{shared}"
    lines = [f"{leg.name}  {score:>6} {leg_result.seconds:5.0f} s  {about}"]
    lines += [
        format_failures(leg, result.run, result.failures)
        for result in leg_result.results
        if result.failures or verbose
    ]
    lines += [f"    {leg.name}: {reason}" for reason in leg_result.failures]
    if leg_result.server_output and (leg_result.failures or verbose):
        lines.append(
            textwrap.indent(leg_result.server_output[-TAIL:].rstrip(), "      | ")
        )
    return "\n".join(lines)


def format_failures(leg: Leg, run: Run, reasons: Sequence[str]) -> str:
    """Return the failures of a scenario and the end of its output."""
    time = "" if run.seconds is None else f" ({run.seconds:.1f} s)"
    lines = [f"    {leg.name} {run.scenario}{time}"]
    lines += [f"      {reason}" for reason in reasons]
    if run.output:
        lines.append(textwrap.indent(run.output.rstrip(), "      | "))
    return "\n".join(lines)


def control_text(results: Sequence[LegResult]) -> str:
    """Return the scores of `control.py`, by the suite's verdict and by ours."""
    return "\n".join(
        f"{leg.leg.name}: {sum(suite_passes(result.run) for result in leg.results)} "
        f"of {leg.total} pass by the suite's own verdict, {leg.passed} by ours"
        for leg in results
    )


# --- files ---------------------------------------------------------------------------


def write_json(results: Sequence[LegResult]) -> None:
    """Write the JSON file with all checks of all runs."""
    JSON.parent.mkdir(exist_ok=True)
    JSON.write_text(json.dumps([_leg_json(leg) for leg in results], indent=1), "utf-8")


def _leg_json(leg_result: LegResult) -> dict[str, Any]:
    return {
        "leg": leg_result.leg.name,
        "suite": leg_result.leg.suite.version,
        "side": leg_result.leg.side,
        "options": leg_result.leg.options,
        "passed": leg_result.passed,
        "total": leg_result.total,
        "shared": leg_result.shared,
        "red": leg_result.failures,
        "seconds": round(leg_result.seconds, 1),
        "scenarios": [_result_json(result) for result in leg_result.results],
    }


def _result_json(result: Result) -> dict[str, Any]:
    run = result.run
    return {
        "scenario": run.scenario,
        "red": result.failures,
        "seconds": run.seconds and round(run.seconds, 2),
        "suite_exit": run.suite_exit,
        "client_exit": run.client_exit,
        "output": run.output if result.failures else "",
        "checks": [
            {key: check[key] for key in ("id", "name", "status")}
            for check in run.checks or ()
            if check["status"] != "INFO"
        ],
    }


def write_pins(leg: Leg, pins: Mapping[str, Sequence[str] | None]) -> None:
    """Write the checks that must succeed, in the order of the suite's scenarios."""
    leg.pins.write_text(json.dumps(pins, indent=1) + "\n", "utf-8")


def write_table(results: Sequence[LegResult]) -> None:
    """Write the table between its markers in README.md."""
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", "utf-8")


def table(results: Sequence[LegResult]) -> str:
    """Return the scores of the legs as a Markdown table."""
    rows = ["| leg | side | suite | what | passed | run before | checks | seconds |"]
    rows.append("|---|---|---|---|---|---|---|---|")
    for leg_result in results:
        leg = leg_result.leg
        checks = Counter(
            check["status"]
            for result in leg_result.results
            for check in result.run.checks or ()
        )
        counted = checks.total() - checks["INFO"]
        rows.append(
            f"| {leg.name} | {leg.side} | {leg.suite.version} | {leg.description} "
            f"| {leg_result.passed} of {leg_result.total} | {leg_result.shared or ''} "
            f"| {checks['SUCCESS']} of {counted} | {leg_result.seconds:.0f} |"
        )
    return "\n".join(rows)
