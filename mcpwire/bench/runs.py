"""Runs: servers measured in turns, with the floor among them; the highest rate."""

from __future__ import annotations

import contextlib
import os
import platform
from datetime import UTC, datetime
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire._package import __version__
from mcpwire.bench.crew import Crew
from mcpwire.bench.load import MOST_RATE, Call, Load
from mcpwire.bench.null_process import null_command, null_http
from mcpwire.bench.results import Result, Subject, step_name
from mcpwire.transports.http.target import Http
from mcpwire.transports.targets import Stdio, is_url, parse_command

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Iterator,
        Mapping,
        Sequence,
    )

    from mcpwire.bench.results import Slice
    from mcpwire.bench.thresholds import Threshold

__all__ = ["find_max", "run"]

_SLICE_S: Final = 0.5
LONGEST_SLICE_S: Final = 10.0
MOST_CALLS: Final = 500_000
"""So many calls are due in one slice of a search: each takes 32 bytes until it ends."""

_BUSY: Final = 0.7
"""From which share of a core on the generator itself is the limit."""

_LATE_US: Final = 1_000.0
"""A load that is less late than this puts no figure in doubt."""

_COUNTED_CALLS: Final = 200
_PHASES_S: Final = 0.5
_STEP: Final = 1.05
"""How close to each other the last two rates are between which the highest lies."""

_KEPT_PACE: Final = 0.97
_SHARED: Final = ("seconds", "rounds", "warm_up", "shape")
"""What the loads of one run have in common."""


@attrs.frozen
class Progress:
    """How far a run is."""

    done: float
    """Seconds of load that were made, of all servers."""

    total: float | None
    subject: str
    slice: Slice


@attrs.define
class _Running:
    """What is known so far of one server."""

    name: str
    target: Stdio | Http
    load: Load
    processes: Collection[int] = ()
    server: dict[str, str] = attrs.field(factory=dict)
    slices: list[Slice] = attrs.field(factory=list)
    samples: list[Any] = attrs.field(factory=list)
    connects: list[float] = attrs.field(factory=list)
    phases: dict[str, float] = attrs.field(factory=dict)
    phases_under_load: dict[str, float] = attrs.field(factory=dict)
    counts: dict[str, float] = attrs.field(factory=dict)

    def subject(self) -> Subject:
        """Return what was measured."""
        return Subject(
            name=self.name,
            target=str(self.target),
            server=self.server,
            slices=tuple(self.slices),
            samples=tuple(self.samples),
            connects=tuple(self.connects),
            phases=self.phases,
            phases_under_load=self.phases_under_load,
            counts=self.counts,
        )


async def run(
    target: Stdio | Http | str,
    load: Load | None = None,
    *,
    against: Stdio | Http | str | Mapping[str, Stdio | Http | str] | None = None,
    against_load: Load | Mapping[str, Load] | None = None,
    with_floor: bool = True,
    with_details: bool = True,
    only_counts: bool = False,
    processes: Collection[int] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Put a server under load and measure it.

    Each round starts all anew: the floor (a server that does nothing, under the same
    load), the target, and those it is compared with. All are measured in short slices
    in turn, so that each stands beside the others in the same moments of the machine.

    Args:
        target: A `Stdio`, an `Http`, a command line or a URL.
        load: What is asked of it; omitted: ``ping``, by one user.
        against: A second server, to compare the first one with; or several, each by the
            name that the result gives it.
        against_load: Their load, where that has other calls, or a load for each by its
            name, so that one server can be measured under several. Time, rounds,
            warm-up and shape are those of `load`. The result and `differences` do not
            know that the loads differ.
        with_floor: Whether the floor is measured too.
        with_details: Whether to count what a call costs in messages and system calls,
            and to find out where its time goes.
        only_counts: Whether to measure no time, and only count what a call costs in
            messages and system calls, which is the same each time.
        processes: Ids of the server's processes, where they cannot be found.
        on_progress: Called after each slice.

    Raises:
        ConnectError: A server does not start, or gives no answer.
        GeneratorFailed: A process that makes load ended unexpectedly.
        LocalProtocolError: The package hdrhistogram is not installed.
        ValueError: A server of `against` has a name that the run gives itself, or
            `against_load` names a server that is not there.

    Safe to cancel: processes that were started are ended.
    """
    load = load or Load()
    if load.shape != "constant" or only_counts:
        load = attrs.evolve(load, rounds=1)
    started, began = datetime.now(UTC), monotonic()
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(against, str | Stdio | Http):
            against = {"against": against}
        subjects = [
            _Running("target", as_target(target), load, processes),
            *_others(against or {}, against_load or load, load),
        ]
        if with_floor:
            where = await stack.enter_async_context(_floor_of(subjects[0].target))
            subjects.insert(0, _Running("floor", where, _floor_load(load)))
        for number in range(load.rounds):
            async with contextlib.AsyncExitStack() as servers:
                crews = await _start(subjects, load, servers)
                if not only_counts:
                    await _measure(crews, load, number, on_progress)
                is_last = number == load.rounds - 1
                if is_last and (with_details or only_counts):
                    await _look_closer(crews, with_phases=not only_counts)
    return _result(load, subjects, started, began)


def _others(
    against: Mapping[str, Stdio | Http | str],
    loads: Load | Mapping[str, Load],
    usual: Load,
) -> Iterator[_Running]:
    """Give the servers beside the target, each with its load."""
    if isinstance(loads, Load):
        loads = dict.fromkeys(against, loads)
    if unknown := sorted(loads.keys() - against.keys()):
        raise ValueError(f"no server of against is called {unknown[0]!r}")
    for name, other in against.items():
        if name in {"", "floor", "target"}:
            raise ValueError(f"a server of against must not be called {name!r}")
        same = {each: getattr(usual, each) for each in _SHARED}
        own = attrs.evolve(loads.get(name, usual), **same)
        yield _Running(name, as_target(other), own)


def as_target(target: Stdio | Http | str) -> Stdio | Http:
    """Return the target that a text names."""
    if not isinstance(target, str):
        return target
    return Http(target.strip()) if is_url(target) else parse_command(target)


@contextlib.asynccontextmanager
async def _floor_of(target: Stdio | Http) -> AsyncIterator[Stdio | Http]:
    """Give the server that does nothing, over the transport of a target."""
    if isinstance(target, Stdio):
        command, *arguments = null_command("--stdio")
        yield Stdio(command, arguments)
        return
    async with null_http() as server:
        yield Http(server.url)


def _floor_load(load: Load) -> Load:
    """Return the load with the calls that the floor knows."""
    echo = Call.tool("echo", {"text": "hello"})
    known = {"ping": Call("ping"), "tools/list": Call("tools/list")}
    calls = tuple(
        attrs.evolve(known.get(call.method, echo), weight=call.weight)
        for call in load.calls
    )
    return attrs.evolve(load, calls=calls)


async def _start(
    subjects: Sequence[_Running], load: Load, stack: contextlib.AsyncExitStack
) -> list[tuple[_Running, Crew]]:
    """Start all servers and what puts them under load."""
    found = []
    for one in subjects:
        crew = Crew(one.target, one.load, one.processes)
        found.append((one, await stack.enter_async_context(crew)))
        await crew.warm_up(load.warm_up)
        one.server = crew.server
        one.connects += crew.connects
    return found


async def _measure(
    crews: Sequence[tuple[_Running, Crew]],
    load: Load,
    number: int,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    """Measure all servers of a round in turns."""
    share = load.seconds / load.rounds
    width = _SLICE_S if load.shape == "constant" else LONGEST_SLICE_S
    count = max(1, round(share / min(max(width, share / 20), LONGEST_SLICE_S)))
    total = load.seconds * len(crews)
    turn = list(crews)
    for step in range(count):
        turn.append(turn.pop(0))  # so that none is always the first
        at = number * share + step * share / count
        for one, crew in turn:
            found = await crew.measure(number, at, share / count)
            one.slices.append(found)
            if on_progress is not None:
                done = sum(s.seconds for each, _ in crews for s in each.slices)
                on_progress(Progress(done, total, one.name, found))
    for one, crew in crews:
        one.samples += crew.samples


async def _look_closer(
    crews: Sequence[tuple[_Running, Crew]], *, with_phases: bool
) -> None:
    """Count what a call costs, and see where its time goes."""
    for one, crew in crews:
        if one.load.sessions == "per-call":
            continue
        one.counts = await crew.counts(_COUNTED_CALLS)
        if with_phases:
            one.phases = await crew.phases(_PHASES_S, is_alone=True)
            if one.load.rate is not None or one.load.users > 1:
                one.phases_under_load = await crew.phases(_PHASES_S, is_alone=False)


def _result(
    load: Load,
    subjects: Sequence[_Running],
    started: datetime,
    began: float,
    **facts: Any,
) -> Result:
    found = tuple(each.subject() for each in subjects)
    return Result(
        load=attrs.asdict(load),
        title=load.title,
        started=started.isoformat(timespec="seconds"),
        machine={
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
            "cores": str(os.cpu_count()),
        },
        tool=f"mcpwire {__version__}",
        seconds=round(monotonic() - began, 3),
        subjects=found,
        notes=tuple(_notes(found, 99 if load.rate is not None else 90)),
        **facts,
    )


def _notes(subjects: Sequence[Subject], percent: int) -> Sequence[str]:
    """Say what puts the figures in doubt.

    Args:
        subjects: What was measured.
        percent: Which percentile of the load's lag does. In an open loop a part of the
            calls is late, in a closed one a part of the time, which has fewer calls.
    """
    found = []
    for one in subjects:
        if not one.slices:
            continue
        share = max(each.generator_share for each in one.slices)
        if share > _BUSY:
            found.append(
                f"{one.name}: making the load used {share:.0%} of a core, so it may be "
                "the limit; --workers spreads it over processes"
            )
        late = one.latencies("lag").get_value_at_percentile(percent) / 1_000
        if not one.total("done"):
            found.append(f"{one.name}: no call was answered")
        elif late > max(one.figures()["p99"] / 2, _LATE_US):
            found.append(
                f"{one.name}: the load was up to {late / 1_000:.1f} ms late "
                f"(p{percent}), more than half of the p99 of calls: this machine is "
                "too busy to measure it"
            )
    return found


async def find_max(
    target: Stdio | Http | str,
    load: Load,
    condition: Threshold,
    *,
    processes: Collection[int] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Find the highest rate at which a condition holds and calls are answered well.

    Of the calls that are due, 97 in 100 must be answered in time and without an error.

    Each rate gets the load's `seconds`. Rates are doubled until one breaks the
    condition, and halved between the last two until they lie 5 % apart.

    Returns:
        A result with one subject for each rate; `highest` is the rate, or 0.

    Raises:
        ConnectError: The server does not start, or gives no answer.
        GeneratorFailed: A process that makes load ended unexpectedly.
        ValueError: The load has no rate to begin with.

    Safe to cancel: processes that were started are ended.
    """
    if load.rate is None:
        raise ValueError("the search for the highest rate needs a rate to begin with")
    started, began = datetime.now(UTC), monotonic()
    steps: list[_Running] = []
    good, bad, rate = 0.0, None, load.rate
    async with Crew(as_target(target), load, processes) as crew:
        await crew.warm_up(load.warm_up)
        while rate <= MOST_RATE and (bad is None or (bad > good * _STEP and bad > 1)):
            step = _Running(step_name(rate), as_target(target), load)
            step.server = crew.server
            steps.append(step)
            count = _slices_of_step(load.seconds, rate)
            for number in range(count):
                at = number * load.seconds / count
                found = await crew.measure(0, at, load.seconds / count, rate)
                step.slices.append(found)
                if on_progress is not None:
                    done = load.seconds * (len(steps) - 1) + at + found.seconds
                    on_progress(Progress(done, None, step.name, found))
            if _holds(step.subject(), condition):
                good = rate
            else:
                bad = rate
            rate = good * 2 if bad is None else (good + bad) / 2
    steps.sort(key=lambda step: sum(each.offered for each in step.slices))
    return _result(load, steps, started, began, highest=good)


def _slices_of_step(seconds: float, rate: float) -> int:
    """Return in how many slices a rate is tried: a worker keeps the calls of one."""
    return max(1, ceil(seconds / LONGEST_SLICE_S), ceil(seconds * rate / MOST_CALLS))


def _holds(subject: Subject, condition: Threshold) -> bool:
    figures = subject.figures()
    kept = figures["rate"] >= _KEPT_PACE * figures["offered"]
    worked = figures["errors"] <= 100 * (1 - _KEPT_PACE)
    return kept and worked and condition.is_true(figures)
