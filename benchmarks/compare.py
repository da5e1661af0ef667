"""Did something become slower between two result files?

    python benchmarks/compare.py BEFORE.json AFTER.json

Ratios to the floor are compared, so that the machine's mood does not matter much. A
change is called one when the spreads of the rounds do not overlap; with fewer than five
rounds on a side that says nothing, and nothing is called. What is its own measure and
no floor is compared as measured. What is counted and not timed needs no rounds, but a
change of a twentieth.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness import report
from harness.figures import digits, is_counted, more_is_better, slices

if TYPE_CHECKING:
    from harness.figures import Spread

MIN_ROUNDS = 5
SAME_FACTS = ("cpu", "cores", "system", "python", "event_loop", "packages", "pinned")


LEAST_CHANGE = 0.05


def change(before: Spread, after: Spread) -> float:
    """Return by what part something grew; what was nothing grew by what it is."""
    return after["median"] / (before["median"] or 1) - bool(before["median"])


def verdict(figure: str, before: Spread, after: Spread) -> str:
    """Say whether the ratio went up or down beyond what the rounds scatter."""
    if before["min"] <= after["max"] and after["min"] <= before["max"]:
        return ""
    grew = after["median"] > before["median"]
    better = grew == more_is_better(figure)
    return "better" if better else "WORSE"


def judged(figure: str, before: Spread, after: Spread, rounds: int) -> str:
    """Say the same where it can be said."""
    if is_counted(figure):
        is_little = abs(change(before, after)) < LEAST_CHANGE
        return "" if is_little else verdict(figure, before, after)
    return verdict(figure, before, after) if rounds >= MIN_ROUNDS else "?"


def kind_of(name: str, result: dict[str, Any]) -> Literal["ratio", "value"] | None:
    """Return what of a variant is compared; nothing of a floor."""
    if name != result["baselines"][name]:
        return "ratio"
    return None if "floor" in name else "value"


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    """Return a row for each figure that both results hold and that can be compared."""
    rounds = min(before["plan"]["rounds"], after["plan"]["rounds"])
    fewest = min((before["plan"], after["plan"]), key=slices)
    rows = [["variant", "figure", "before", "after", "change", ""]]
    for name, figures in after["summary"].items():
        kind = kind_of(name, after)
        known = before["summary"].get(name, {})
        for figure in [each for each in figures if kind and each in known]:
            old, new = known[figure][kind], figures[figure][kind]
            rows.append(
                [
                    name,
                    report.title(figure),
                    report.spread_cell(old, digits(figure, fewest)),
                    report.spread_cell(new, digits(figure, fewest)),
                    f"{change(old, new):+.0%}",
                    judged(figure, old, new, rounds),
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
