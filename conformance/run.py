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
from driver.legs import ALONE, LEGS, ROOT, Leg
from driver.processes import CLIENT, check_installed, list_scenarios, play
from driver.standing import stand
from driver.verdict import Run, judge, judge_stand, pinnable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from driver.verdict import Stand

AT_ONCE = 2
NOTHING = ROOT / "conformance" / "nothing.py"


def arguments() -> argparse.Namespace:
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
    leg: Leg, wanted: Collection[str], *, control: bool = False
) -> list[Run]:
    """Run scenarios two at a time, and those that measure time alone."""
    slots = asyncio.Semaphore(AT_ONCE)
    program = NOTHING if control else CLIENT

    async def one(scenario: str) -> Run:
        async with slots:
            return await play(leg, scenario, program=program)

    runs = {}
    async with asyncio.TaskGroup() as group:
        for scenario in wanted:
            if scenario not in ALONE:
                runs[scenario] = group.create_task(one(scenario))
    finished = {scenario: task.result() for scenario, task in runs.items()}
    for scenario in wanted:
        if scenario in ALONE:
            finished[scenario] = await play(leg, scenario, program=program)
    return [finished[scenario] for scenario in wanted]


async def run_server(
    leg: Leg, wanted: Collection[str] | None, *, control: bool = False
) -> tuple[list[Run], Stand]:
    """Run a server through a leg; drop scenarios that do not belong to the leg."""
    runs, ended = await stand(leg, wanted, NOTHING if control else None)
    if leg.runs_unscored:
        scored = await list_scenarios(leg)
        runs = [run for run in runs if run.scenario in scored]
    return runs, ended


# --- pinning -------------------------------------------------------------------------


async def pin(leg: Leg, scenarios: Collection[str] | None) -> bool:
    """Pin the checks of runs without failures; return whether all have pins."""
    offered = await list_scenarios(leg)
    old = leg.pinned() if leg.pins.exists() else {}
    new = {scenario: old.get(scenario) for scenario in offered}
    wanted = [name for name in offered if scenarios is None or name in scenarios]
    if leg.side == "client":
        runs = await run_clients(leg, wanted)
    else:
        runs, ended = await run_server(leg, scenarios and wanted)
        for reason in judge_stand(ended, (), ()):
            print(f"    {leg.name}: {reason}", flush=True)
    for run in runs:
        proved = pinnable(run.checks or ())
        if red := judge(run, proved):
            print(report.red(leg, run, red), flush=True)
        else:
            new[run.scenario] = proved
    report.write_pins(leg, new)
    return all(pins is not None for pins in new.values())


# --- proving -------------------------------------------------------------------------


class Proof:
    """Runs of legs against their pins; legs share results of equal scenarios."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.scenarios: Collection[str] | None = options.scenario
        self.control: bool = options.control
        self.shares = not (options.unshared or options.control)
        self.known: dict[tuple[str, str], Run] = {}

    async def prove(self, leg: Leg) -> report.LegResult:
        """Run a leg and return its result."""
        begin = time.monotonic()
        pins = leg.pinned()
        wanted = [name for name in pins if name in (self.scenarios or pins)]
        if leg.side == "client":
            shared = {name: run for name in wanted if (run := self._shared(leg, name))}
            mine = [name for name in wanted if name not in shared]
            runs = await run_clients(leg, mine, control=self.control)
            red, wrote = [], ""
        else:
            shared = {}
            runs, ended = await run_server(
                leg, self.scenarios and wanted, control=self.control
            )
            played = [run.scenario for run in runs]
            red, wrote = judge_stand(ended, played, pins), ended.wrote
        self.known |= {(leg.name, run.scenario): run for run in runs}
        all_runs = shared | {run.scenario: run for run in runs}
        return report.LegResult(
            leg=leg,
            results=[_judged(name, all_runs, pins[name]) for name in wanted],
            seconds=time.monotonic() - begin,
            shared=len(shared),
            red=red,
            wrote=wrote,
        )

    def _shared(self, leg: Leg, scenario: str) -> Run | None:
        for other in leg.shares if self.shares else ():
            if run := self.known.get((other, scenario)):
                return run
        return None


def _judged(
    scenario: str, runs: Mapping[str, Run], pins: Collection[str] | None
) -> report.Result:
    run = runs.get(scenario) or Run(scenario=scenario, checks=None)
    return report.Result(run=run, red=judge(run, pins))


async def prove_all(
    proof: Proof, legs: Sequence[Leg], *, verbose: bool
) -> list[report.LegResult]:
    """Run client legs one by one, then server legs two at a time."""
    done: list[report.LegResult] = []

    def tell(result: report.LegResult) -> None:
        done.append(result)
        print(report.leg_text(result, verbose=verbose), flush=True)

    for leg in legs:
        if leg.side == "client":
            tell(await proof.prove(leg))
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(leg: Leg) -> report.LegResult:
        async with slots:
            return await proof.prove(leg)

    async with asyncio.TaskGroup() as group:
        servers = [leg for leg in legs if leg.side == "server"]
        running = [group.create_task(one(leg)) for leg in servers]
        for task in running:
            tell(await task)
    return done


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
    done = await prove_all(Proof(options), legs, verbose=options.verbose)
    if options.control:
        print(report.control_text(done))
        return 0
    report.write_json(done)
    if options.write:
        report.write_table(done)
    return int(not done or not all(leg.green for leg in done))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
