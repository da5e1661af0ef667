"""Run the official conformance suite on client, server and gateway, leg by leg.

    python conformance/run.py                          # every leg
    python conformance/run.py --leg C4 --scenario auth/dpop --verbose
    python conformance/run.py --unshared               # share no results between legs
    python conformance/run.py --pin                    # write the pins
    python conformance/run.py --write                  # write the table in README.md
    python conformance/run.py --control                # score of doing nothing

`make conformance` installs the suite and runs this. Exit code 1: a scenario failed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import TYPE_CHECKING

from driver import report
from driver.legs import LEGS, ROOT, SEQUENTIAL, Leg
from driver.processes import CLIENT, check_installed, list_scenarios, run_scenario
from driver.server_runs import run_server_leg
from driver.verdict import Run, judge, judge_server_run, successful_checks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from driver.verdict import ServerRun

MAX_PARALLEL = 2
CONTROL = ROOT / "conformance" / "control.py"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leg", action="append", choices=[leg.name for leg in LEGS])
    parser.add_argument("--scenario", action="append", help="only these scenarios")
    parser.add_argument(
        "--unshared", action="store_true", help="run everything in each leg it is in"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show what was written all along"
    )
    changes = parser.add_mutually_exclusive_group()
    changes.add_argument("--pin", action="store_true", help="write expected/*.json")
    changes.add_argument("--write", action="store_true", help="write README's table")
    changes.add_argument(
        "--control", action="store_true", help="put what does nothing to the suite"
    )
    return parser.parse_args()


# --- running -------------------------------------------------------------------------


async def run_clients(
    leg: Leg, selected: Collection[str], *, control: bool = False
) -> list[Run]:
    """Run scenarios two at a time, and those that measure time alone."""
    slots = asyncio.Semaphore(MAX_PARALLEL)
    program = CONTROL if control else CLIENT

    async def run_with_slot(scenario: str) -> Run:
        async with slots:
            return await run_scenario(leg, scenario, program=program)

    runs = {}
    async with asyncio.TaskGroup() as group:
        for scenario in selected:
            if scenario not in SEQUENTIAL:
                runs[scenario] = group.create_task(run_with_slot(scenario))
    finished = {scenario: task.result() for scenario, task in runs.items()}
    for scenario in selected:
        if scenario in SEQUENTIAL:
            finished[scenario] = await run_scenario(leg, scenario, program=program)
    return [finished[scenario] for scenario in selected]


async def run_server(
    leg: Leg, selected: Collection[str] | None, *, control: bool = False
) -> tuple[list[Run], ServerRun]:
    """Run a server through a leg; drop scenarios that do not belong to the leg."""
    runs, server_run = await run_server_leg(leg, selected, CONTROL if control else None)
    if leg.runs_unscored:
        scored = await list_scenarios(leg)
        runs = [run for run in runs if run.scenario in scored]
    return runs, server_run


# --- pinning -------------------------------------------------------------------------


async def write_leg_pins(leg: Leg, scenarios: Collection[str] | None) -> bool:
    """Pin the checks of runs without failures; return whether all have pins."""
    listed = await list_scenarios(leg)
    old = leg.pinned() if leg.pins.exists() else {}
    new = {scenario: old.get(scenario) for scenario in listed}
    selected = [name for name in listed if scenarios is None or name in scenarios]
    if leg.side == "client":
        runs = await run_clients(leg, selected)
    else:
        runs, server_run = await run_server(leg, scenarios and selected)
        for reason in judge_server_run(server_run, (), ()):
            print(f"    {leg.name}: {reason}", flush=True)
    for run in runs:
        successful = successful_checks(run.checks or ())
        if failures := judge(run, successful):
            print(report.format_failures(leg, run, failures), flush=True)
        else:
            new[run.scenario] = successful
    report.write_pins(leg, new)
    return all(pins is not None for pins in new.values())


# --- proving -------------------------------------------------------------------------


class LegRunner:
    """Runs of legs against their pins; legs share results of equal scenarios."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.scenarios: Collection[str] | None = options.scenario
        self.control: bool = options.control
        self.shares = not (options.unshared or options.control)
        self.known: dict[tuple[str, str], Run] = {}

    async def run_leg(self, leg: Leg) -> report.LegResult:
        """Run a leg and return its result."""
        start = time.monotonic()
        pins = leg.pinned()
        selected = [name for name in pins if name in (self.scenarios or pins)]
        if leg.side == "client":
            shared = {
                name: run
                for name in selected
                if (run := self._find_shared_run(leg, name))
            }
            own = [name for name in selected if name not in shared]
            runs = await run_clients(leg, own, control=self.control)
            failures, server_output = [], ""
        else:
            shared = {}
            runs, server_run = await run_server(
                leg, self.scenarios and selected, control=self.control
            )
            scenarios = [run.scenario for run in runs]
            failures, server_output = (
                judge_server_run(server_run, scenarios, pins),
                server_run.server_output,
            )
        self.known |= {(leg.name, run.scenario): run for run in runs}
        all_runs = shared | {run.scenario: run for run in runs}
        return report.LegResult(
            leg=leg,
            results=[_judge_run(name, all_runs, pins[name]) for name in selected],
            seconds=time.monotonic() - start,
            shared=len(shared),
            failures=failures,
            server_output=server_output,
        )

    def _find_shared_run(self, leg: Leg, scenario: str) -> Run | None:
        for other in leg.shares if self.shares else ():
            if run := self.known.get((other, scenario)):
                return run
        return None


def _judge_run(
    scenario: str, runs: Mapping[str, Run], pins: Collection[str] | None
) -> report.Result:
    run = runs.get(scenario) or Run(scenario=scenario, checks=None)
    return report.Result(run=run, failures=judge(run, pins))


async def run_all(
    runner: LegRunner, legs: Sequence[Leg], *, verbose: bool
) -> list[report.LegResult]:
    """Run client legs one by one, then server legs two at a time."""
    results: list[report.LegResult] = []

    def print_result(result: report.LegResult) -> None:
        results.append(result)
        print(report.leg_text(result, verbose=verbose), flush=True)

    for leg in legs:
        if leg.side == "client":
            print_result(await runner.run_leg(leg))
    slots = asyncio.Semaphore(MAX_PARALLEL)

    async def run_with_slot(leg: Leg) -> report.LegResult:
        async with slots:
            return await runner.run_leg(leg)

    async with asyncio.TaskGroup() as group:
        servers = [leg for leg in legs if leg.side == "server"]
        running = [group.create_task(run_with_slot(leg)) for leg in servers]
        for task in running:
            print_result(await task)
    return results


async def main() -> int:
    options = parse_arguments()
    legs = [leg for leg in LEGS if not options.leg or leg.name in options.leg]
    if error := check_installed({leg.suite for leg in legs}):
        print(error, file=sys.stderr)
        return 2
    if options.pin:
        return int(
            not all([await write_leg_pins(leg, options.scenario) for leg in legs])
        )
    if options.scenario:
        legs = [leg for leg in legs if leg.pinned().keys() & set(options.scenario)]
    results = await run_all(LegRunner(options), legs, verbose=options.verbose)
    if options.control:
        print(report.control_text(results))
        return 0
    report.write_json(results)
    if options.write:
        report.write_table(results)
    return int(not results or not all(leg.is_green for leg in results))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
