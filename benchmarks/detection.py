"""Test of `mcpwire bench --against`: rates of detected and of false slowdowns.

    python benchmarks/detection.py --trials 100

Each trial starts two null servers that take 200 us of CPU per call, and measures them
in turn. In half of the trials a call of the second server costs 15 % more: at least
95 % of these must be detected, and at most 5 % of the others reported as different.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from harness.machine import describe
from harness.report import FORMAT, save
from harness.rounds import FOLDER

from mcpwire import Stdio
from mcpwire.bench import Call, Load, differences, run
from mcpwire.bench.null_process import null_command

if TYPE_CHECKING:
    from collections.abc import Sequence

COST_S = 200e-6
SLOWER = 1.15
LOAD = Load(calls=(Call.tool("echo", {"text": "hi"}),), warm_up=0.1)
FIGURES = ("p50", "cpu")
MIN_DETECTED, MAX_FALSE = 0.95, 0.05


def null_server(cost: float) -> Stdio:
    command, *arguments = null_command("--stdio", "--delay", f"{cost:.7f}")
    return Stdio(command, arguments)


async def trial(factor: float) -> dict[str, str]:
    """Return the verdicts on a server with a multiple of the cost of the other."""
    result = await run(
        null_server(COST_S),
        LOAD,
        against=null_server(COST_S * factor),
        with_floor=False,
        with_details=False,
    )
    return {each.figure: each.verdict for each in differences(result, FIGURES)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10, help="of each kind (10)")
    parser.add_argument(
        "--output", type=Path, default=FOLDER / "results/local/detection.json"
    )
    options = parser.parse_args(arguments)
    counts: dict[str, Counter[str]] = {}
    for number in range(options.trials):
        for name, factor in (("slower", SLOWER), ("equal", 1.0)):
            for figure, verdict in asyncio.run(trial(factor)).items():
                counts.setdefault(f"{figure}, {name}", Counter())[verdict] += 1
        print(f"trial {number + 1} of {options.trials}", file=sys.stderr, flush=True)
    is_good = True
    for name, count in counts.items():
        if name.endswith("slower"):
            share = count["worse"] / options.trials
            is_good &= share >= MIN_DETECTED
            print(f"{name}: found in {share:.0%} (at least {MIN_DETECTED:.0%})")
        else:
            share = 1 - count["no difference shown"] / options.trials
            is_good &= share <= MAX_FALSE
            print(f"{name}: called different in {share:.0%} (at most {MAX_FALSE:.0%})")
    save(
        options.output,
        {
            "format": FORMAT,
            "benchmark": "detection",
            "machine": describe(),
            "trials": options.trials,
            "counts": counts,
        },
    )
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
