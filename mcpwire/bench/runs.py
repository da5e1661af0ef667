"""Runs: measure servers and the floor in turns, or search for the highest rate."""

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

_SLICE_S: Final = 0.5
LONGEST_SLICE_S: Final = 10.0
MOST_CALLS: Final = 500_000
"""Maximum calls in a slice of a search: each takes 32 bytes until the slice ends."""

_BUSY: Final = 0.7
"""Share of a core above which the generator may be the limit."""

_LATE_US: Final = 1_000.0
"""Delay of the load up to which figures are not doubted."""

_COUNTED_CALLS: Final = 200
_PHASES_S: Final = 0.5
_STEP: Final = 1.05
"""Maximum ratio of the two rates between which the search ends."""

_KEPT_PACE: Final = 0.97
_SHARED: Final = ("seconds", "rounds", "warm_up", "shape")
"""Fields that are equal in all loads of one run."""


@attrs.frozen
class Progress:
    """The progress of a run."""

    done: float
    """Seconds of load generated so far, summed over all servers."""

    total: float | None
    subject: str
    slice: Slice


@attrs.define
class _Running:
    """The measurements of one server during a run."""

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
        """Return the measurements as a `Subject`."""
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

    Each round restarts all servers: the floor (the null server under the same load),
    the target, and the servers to compare it with. They are measured in turns in short
    slices, so that changes of the machine affect all of them.

    Args:
        target: A `Stdio`, an `Http`, a command line or a URL.
        load: The load; default: ``ping`` by one user.
        against: A second server to compare the first one with, or several by their
            names in the result.
        against_load: The load of the other servers, or a load for each name, so that
            one server can be measured under several loads. Time, rounds, warm-up and
            shape are taken from `load`. The result and `differences` do not record
            that the loads differ.
        with_floor: Whether to measure the floor too.
        with_details: Whether to count the messages and system calls of a call, and to
            measure its phases.
        only_counts: Whether to measure no times, and only count the messages and
            system calls of a call, which are the same in each run.
        processes: Ids of the server's processes, if they cannot be found.
        on_progress: Called after each slice.

    Raises:
        ConnectError: A server does not start or respond.
        GeneratorFailed: A process that generates load exited unexpectedly.
        LocalProtocolError: The package hdrhistogram is not installed.
        ValueError: A server of `against` has a reserved name (empty, ``floor`` or
            ``target``), or `against_load` names an unknown server.

        Safe to cancel: started processes are ended.
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
    """Yield the servers to compare the target with, each with its load."""
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
    """Return a target; parse a URL or a command line."""
    if not isinstance(target, str):
        return target
    return Http(target.strip()) if is_url(target) else parse_command(target)


@contextlib.asynccontextmanager
async def _floor_of(target: Stdio | Http) -> AsyncIterator[Stdio | Http]:
    """Run the null server with the transport of a target; yield its target."""
    if isinstance(target, Stdio):
        command, *arguments = null_command("--stdio")
        yield Stdio(command, arguments)
        return
    async with null_http() as server:
        yield Http(server.url)


def _floor_load(load: Load) -> Load:
    """Return the load with calls that the null server supports."""
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
    """Start and warm up all servers with their workers."""
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
        turn.append(turn.pop(0))  # rotate the order of the servers
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
    """Count the messages and system calls of a call and measure its phases."""
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
    """Return notes about conditions that make the figures doubtful.

    Args:
        subjects: The measured subjects.
        percent: The percentile of the load's lag to check. In an open loop it is a part
            of the calls, in a closed loop a part of the time, which has fewer calls.
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
    """Search for the highest rate at which a condition holds.

    At this rate 97 % of the due calls are answered in time, and at most 3 % are errors.

    Each rate is measured for the load's `seconds`. Rates are doubled until one fails,
    then bisected until the highest good rate and the lowest bad one are 5 % apart.

    Returns:
        A result with one subject for each rate; `highest` is the rate, or 0.

    Raises:
        ConnectError: The server does not start or respond.
        GeneratorFailed: A process that generates load exited unexpectedly.
        ValueError: The load has no initial rate.

        Safe to cancel: started processes are ended.
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
    """Return the slices of a rate; more slices bound a worker's memory for calls."""
    return max(1, ceil(seconds / LONGEST_SLICE_S), ceil(seconds * rate / MOST_CALLS))


def _holds(subject: Subject, condition: Threshold) -> bool:
    figures = subject.figures()
    kept = figures["rate"] >= _KEPT_PACE * figures["offered"]
    worked = figures["errors"] <= 100 * (1 - _KEPT_PACE)
    return kept and worked and condition.is_true(figures)
