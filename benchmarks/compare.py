"""Comparison of two result files: figures that became slower or faster.

    python benchmarks/compare.py BEFORE.json AFTER.json

Ratios to the floor are compared, so that the machine's state matters little, with the
intervals of `mcpwire bench compare`; with fewer than five rounds on a side there is no
verdict. A variant that is its own baseline and no floor is compared by its values. A
counted figure needs no minimum of rounds, but a change of at least 5 %.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from harness import report
from harness.figures import digits, is_counted, more_is_better, slice_count, spread

from mcpwire.bench.compare import interval, verdict

MIN_ROUNDS = 5
"""With three rounds on a side, one pair in ten is disjoint by chance."""

SAME_FACTS = ("cpu", "cores", "system", "python", "event_loop", "packages", "pinned")
MIN_CHANGE = 0.05


def verdict_on(
    figure: str, before: list[float], after: list[float], change: float
) -> str:
    """Return "WORSE", "better", "" for no difference, or "?" for too few rounds."""
    if is_counted(figure):
        label = "WORSE" if change > 0 else "better"
        return "" if abs(change) < MIN_CHANGE else label
    if min(len(before), len(after)) < MIN_ROUNDS:
        return "?"
    ratio_interval = interval([[each] for each in after], [[each] for each in before])
    label = verdict(ratio_interval, more_is_better=more_is_better(figure))
    return {"worse": "WORSE", "better": "better"}.get(label, "")


def compared_kind(name: str, result: dict[str, Any]) -> str:
    """Return what to compare of a variant: "ratio", "value", or "" for a floor."""
    if name != result["baselines"][name]:
        return "ratio"
    return "" if "floor" in name else "value"


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    """Return a row for each comparable figure that both results contain."""
    shorter_plan = min((before["plan"], after["plan"]), key=slice_count)
    rows = [["variant", "figure", "before", "after", "change", ""]]
    for name, figures in after["summary"].items():
        kind = compared_kind(name, after)
        earlier = before["summary"].get(name, {})
        for figure in [name for name in figures if kind and name in earlier]:
            values = [
                [
                    figures_of_round[name][figure][kind]
                    for figures_of_round in result["rounds"]
                ]
                for result in (before, after)
            ]
            old, new = map(spread, values)
            # From 0 the change is the new value itself.
            change = new["median"] / (old["median"] or 1) - bool(old["median"])
            precision = digits(figure, shorter_plan)
            rows.append(
                [
                    name,
                    report.title(figure),
                    report.spread_cell(old, precision),
                    report.spread_cell(new, precision),
                    f"{change:+.0%}",
                    verdict_on(figure, *values, change),
                ]
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="compare.py")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    try:
        before, after = report.load(options.before), report.load(options.after)
    except (OSError, ValueError) as error:
        sys.exit(f"compare.py: {error}")
    if before["benchmark"] != after["benchmark"]:
        sys.exit("compare.py: these files answer different questions")
    for fact in SAME_FACTS:
        old, new = before["machine"].get(fact), after["machine"].get(fact)
        if old != new:
            print(f"note: {fact} differs: {old} / {new}")
    rows = compare(before, after)
    print(report.table(rows))
    return int(any(row[-1] == "WORSE" for row in rows[1:]))


if __name__ == "__main__":
    sys.exit(main())
