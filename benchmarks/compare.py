"""Did something become slower between two result files?

    python benchmarks/compare.py BEFORE.json AFTER.json

Ratios to the floor are compared, so that the machine's mood does not matter much. A
change is called one when the spreads of the rounds do not overlap; with fewer than five
rounds on a side that says nothing, and nothing is called.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import report
from harness.figures import more_is_better

if TYPE_CHECKING:
    from harness.figures import Spread

MIN_ROUNDS = 5
SAME_FACTS = ("cpu", "cores", "system", "python", "event_loop", "packages", "pinned")


def verdict(figure: str, before: Spread, after: Spread) -> str:
    """Say whether the ratio went up or down beyond what the rounds scatter."""
    if before["min"] <= after["max"] and after["min"] <= before["max"]:
        return ""
    grew = after["median"] > before["median"]
    better = grew == more_is_better(figure)
    return "better" if better else "WORSE"


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    """Return a row for each figure that both results hold and that has a baseline."""
    judged = min(before["plan"]["rounds"], after["plan"]["rounds"]) >= MIN_ROUNDS
    rows = [["variant", "figure", "before", "after", "change", ""]]
    for name, figures in after["summary"].items():
        if name == after["baselines"][name] or name not in before["summary"]:
            continue
        for figure, new in figures.items():
            old = before["summary"][name].get(figure)
            if old is None:
                continue
            change = new["ratio"]["median"] / old["ratio"]["median"] - 1
            rows.append(
                [
                    name,
                    report.title(figure),
                    report.ratio_cell(old),
                    report.ratio_cell(new),
                    f"{change:+.0%}",
                    verdict(figure, old["ratio"], new["ratio"]) if judged else "?",
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
