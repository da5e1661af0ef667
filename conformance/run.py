"""Put `client.py` to the official conformance suite, leg by leg.

    python conformance/run.py                          # every leg
    python conformance/run.py --leg C4 --scenario auth/dpop --verbose
    python conformance/run.py --pin                    # write down what has to succeed
    python conformance/run.py --write                  # the table in README.md

`make conformance` installs the suite and runs this. Exit code 1: something is red.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import TYPE_CHECKING

from driver import report
from driver.legs import ALONE, LEGS, Leg
from driver.processes import check_installed, list_scenarios, play
from driver.verdict import judge, pinnable

if TYPE_CHECKING:
    from collections.abc import Collection

    from driver.verdict import Run

AT_ONCE = 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leg", action="append", choices=[leg.name for leg in LEGS])
    parser.add_argument("--scenario", action="append", help="only these scenarios")
    parser.add_argument(
        "--verbose", action="store_true", help="show what clients wrote"
    )
    changes = parser.add_mutually_exclusive_group()
    changes.add_argument("--pin", action="store_true", help="write expected/*.json")
    changes.add_argument("--write", action="store_true", help="write README's table")
    return parser.parse_args()


async def run_leg(leg: Leg, wanted: Collection[str]) -> list[Run]:
    """Run scenarios, two at a time, and those with a stopwatch by themselves."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(scenario: str) -> Run:
        async with slots:
            return await play(leg, scenario)

    runs = {}
    async with asyncio.TaskGroup() as group:
        for scenario in wanted:
            if scenario not in ALONE:
                runs[scenario] = group.create_task(one(scenario))
    finished = {scenario: task.result() for scenario, task in runs.items()}
    for scenario in wanted:
        if scenario in ALONE:
            finished[scenario] = await play(leg, scenario)
    return [finished[scenario] for scenario in wanted]


async def pin(leg: Leg, scenarios: Collection[str] | None) -> bool:
    """Write down what succeeds now where nothing is red but the pins themselves."""
    offered = await list_scenarios(leg)
    old = leg.pinned() if leg.pins.exists() else {}
    new = {scenario: old.get(scenario) for scenario in offered}
    wanted = [name for name in offered if scenarios is None or name in scenarios]
    for run in await run_leg(leg, wanted):
        proved = pinnable(run.checks or ())
        if red := judge(run, proved):
            print(report.red(leg, run, red), flush=True)
        else:
            new[run.scenario] = proved
    report.write_pins(leg, new)
    return all(new.values())


async def prove(leg: Leg, scenarios: Collection[str] | None) -> report.LegResult:
    """Run a leg against its pins."""
    begin = time.monotonic()
    pins = leg.pinned()
    wanted = [name for name in pins if scenarios is None or name in scenarios]
    results = []
    for run in await run_leg(leg, wanted):
        red = judge(run, pins[run.scenario])
        results.append(report.Result(run=run, red=red))
    return report.LegResult(leg=leg, results=results, seconds=time.monotonic() - begin)


async def main() -> int:
    options = arguments()
    legs = [leg for leg in LEGS if not options.leg or leg.name in options.leg]
    if wrong := check_installed({leg.suite for leg in legs}):
        print(wrong, file=sys.stderr)
        return 2
    if options.pin:
        return int(not all([await pin(leg, options.scenario) for leg in legs]))
    if options.scenario:
        legs = [leg for leg in legs if leg.pinned().keys() & set(options.scenario)]
    done = []
    for leg in legs:
        done.append(await prove(leg, options.scenario))
        print(report.leg_text(done[-1], verbose=options.verbose), flush=True)
    report.write_json(done)
    if options.write:
        report.write_table(done)
    return int(not done or not all(leg.green for leg in done))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
