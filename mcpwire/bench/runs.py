"""Runs: measure servers or client code in turns, or search for the highest rate."""

from __future__ import annotations

import contextlib
import os
import platform
from datetime import UTC, datetime
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from mcpwire._package import __version__
from mcpwire.bench.client_code import ClientCode, CodeProcess
from mcpwire.bench.histogram import histogram
from mcpwire.bench.load import CLIENT_CODE, MAX_RATE, Call, Load
from mcpwire.bench.null_process import null_command, null_http
from mcpwire.bench.results import Result, Subject, step_name
from mcpwire.bench.worker_group import WorkerGroup
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

    _Report = Callable[["_SubjectRecord[Any]", Slice], None]

_SLICE_S: Final = 0.5
MAX_SLICE_S: Final = 10.0
MAX_SLICE_CALLS: Final = 500_000
"""Maximum calls in a slice of a search: each takes 32 bytes until the slice ends."""

_MAX_GENERATOR_SHARE: Final = 0.7
"""Share of a core above which the generator may be the limit."""

_MAX_LAG_US: Final = 1_000.0
"""Delay of the load up to which figures are not doubted."""

_COUNTED_CALLS: Final = 200
_PHASES_S: Final = 0.5
_MAX_SEARCH_RATIO: Final = 1.05
"""Maximum ratio of the two rates between which the search ends."""

_MIN_ANSWERED_SHARE: Final = 0.97
_SHARED_FIELDS: Final = ("seconds", "rounds", "warm_up", "shape")
"""Fields that are equal in all loads of one run."""


@attrs.frozen
class Progress:
    """The progress of a run."""

    done: float
    """Seconds of load generated so far, summed over all servers."""

    total: float | None
    subject: str
    slice: Slice


_Target = TypeVar("_Target")


@attrs.define
class _SubjectRecord(Generic[_Target]):
    """The measurements of one server, or of client code, during a run."""

    name: str
    target: _Target
    load: Load
    processes: Collection[int] = ()
    server: dict[str, str] = attrs.field(factory=dict)
    slices: list[Slice] = attrs.field(factory=list)
    samples: list[Any] = attrs.field(factory=list)
    connects: list[float] = attrs.field(factory=list)
    phases: dict[str, float] = attrs.field(factory=dict)
    phases_under_load: dict[str, float] = attrs.field(factory=dict)
    counts: dict[str, float] = attrs.field(factory=dict)

    def subject(self, main_load: Load) -> Subject:
        """Return the measurements as a `Subject`; `main_load` is the result's load."""
        has_own_load = self.name != "floor" and self.load.title != main_load.title
        return Subject(
            name=self.name,
            target=str(self.target),
            server=self.server,
            slices=tuple(self.slices),
            load=self.load.title if has_own_load else "",
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
            shape are taken from `load`.
        with_floor: Whether to measure the floor too.
        with_details: Whether to count the messages and system calls of a call, and to
            measure its phases.
        only_counts: Whether to measure no times, and only count the messages and
            system calls of a call, which are the same in each run.
        processes: Ids of the server's processes, if they cannot be found.
        on_progress: Called after each slice.

    Raises:
        ConnectError: A server does not start, or another error of `Client.connect`.
        GeneratorFailed: A process that generates load exited unexpectedly.
        LocalProtocolError: The package hdrhistogram is not installed.
        ValueError: A server of `against` has a reserved name (empty, ``floor`` or
            ``target``), `against_load` names an unknown server, or `only_counts`
            is given with sessions of one call each.

        Safe to cancel: started processes are ended.
    """
    load = load or Load()
    if only_counts and load.sessions == "per-call":
        raise ValueError("only_counts needs sessions that stay open")
    if load.shape != "constant" or only_counts:
        load = attrs.evolve(load, rounds=1)
    started, began = datetime.now(UTC), monotonic()
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(against, str | Stdio | Http):
            against = {"against": against}
        records = [
            _SubjectRecord("target", as_target(target), load, processes),
            *_other_servers(against or {}, against_load or load, load),
        ]
        if with_floor:
            floor_target = await stack.enter_async_context(
                _floor_target(records[0].target)
            )
            records.insert(0, _SubjectRecord("floor", floor_target, _floor_load(load)))
        slices = _slices_of_round(load)
        report = _progress_reporter(records, load.seconds, on_progress)
        for number in range(load.rounds):
            async with contextlib.AsyncExitStack() as round_stack:
                groups = await _start(records, load, round_stack)
                if not only_counts:
                    await _measure(groups, load, number, slices, report)
                    for record, group in groups:
                        record.samples += group.samples
                is_last = number == load.rounds - 1
                if is_last and (with_details or only_counts):
                    await _measure_details(groups, with_phases=not only_counts)
    return _result(load, records, started, began)


def _other_servers(
    against: Mapping[str, Stdio | Http | str],
    loads: Load | Mapping[str, Load],
    main_load: Load,
) -> Iterator[_SubjectRecord[Stdio | Http]]:
    """Yield the servers to compare the target with, each with its load."""
    if isinstance(loads, Load):
        loads = dict.fromkeys(against, loads)
    if unknown := sorted(loads.keys() - against.keys()):
        raise ValueError(f"no server of against is called {unknown[0]!r}")
    for name, other in against.items():
        if name in {"", "floor", "target"}:
            raise ValueError(f"a server of against must not be called {name!r}")
        shared = {field: getattr(main_load, field) for field in _SHARED_FIELDS}
        own_load = attrs.evolve(loads.get(name, main_load), **shared)
        yield _SubjectRecord(name, as_target(other), own_load)


def as_target(target: Stdio | Http | str) -> Stdio | Http:
    """Return a target; parse a URL or a command line."""
    if not isinstance(target, str):
        return target
    return Http(target.strip()) if is_url(target) else parse_command(target)


@contextlib.asynccontextmanager
async def _floor_target(target: Stdio | Http) -> AsyncIterator[Stdio | Http]:
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
    supported = {"ping": Call("ping"), "tools/list": Call("tools/list")}
    calls = tuple(
        attrs.evolve(supported.get(call.method, echo), weight=call.weight)
        for call in load.calls
    )
    return attrs.evolve(load, calls=calls, connect_timeout=Load().connect_timeout)


async def _start(
    records: Sequence[_SubjectRecord[Stdio | Http]],
    load: Load,
    stack: contextlib.AsyncExitStack,
) -> list[tuple[_SubjectRecord[Stdio | Http], WorkerGroup]]:
    """Start and warm up all servers with their workers."""
    groups = []
    for record in records:
        group = WorkerGroup(record.target, record.load, record.processes)
        groups.append((record, await stack.enter_async_context(group)))
        await group.warm_up(load.warm_up)
        record.server = group.server
        record.connects += group.connects
    return groups


async def _measure(
    groups: Sequence[tuple[_SubjectRecord[Any], WorkerGroup | CodeProcess]],
    load: Load,
    number: int,
    slices: int,
    report: _Report,
) -> None:
    """Measure all subjects of a round in turns, each in a number of slices."""
    share = load.seconds / load.rounds
    order = list(groups)
    for step in range(slices):
        order.append(order.pop(0))  # rotate the order of the subjects
        at = number * share + step * share / slices
        for record, group in order:
            slice = await group.measure(number, at, share / slices)
            record.slices.append(slice)
            report(record, slice)


def _slices_of_round(load: Load) -> int:
    """Return the number of slices of each server in a round."""
    share = load.seconds / load.rounds
    slice_seconds = _SLICE_S if load.shape == "constant" else MAX_SLICE_S
    if load.rate is not None:
        # Each has a call, from 0.2/s on.
        slice_seconds = max(slice_seconds, 2 / load.rate)
    return max(1, round(share / min(max(slice_seconds, share / 20), MAX_SLICE_S)))


def _progress_reporter(
    records: Sequence[_SubjectRecord[Any]],
    seconds: float,
    on_progress: Callable[[Progress], None] | None,
) -> _Report:
    """Return a function that reports the progress of all records after a slice."""

    def report(record: _SubjectRecord[Any], slice: Slice) -> None:
        if on_progress is not None:
            done = sum(s.seconds for each in records for s in each.slices)
            on_progress(Progress(done, seconds * len(records), record.name, slice))

    return report


async def _measure_details(
    groups: Sequence[tuple[_SubjectRecord[Any], WorkerGroup]], *, with_phases: bool
) -> None:
    """Count the messages and system calls of a call and measure its phases."""
    for record, group in groups:
        if record.load.sessions == "per-call":
            continue
        record.counts = await group.counts(_COUNTED_CALLS)
        if with_phases:
            record.phases = await group.phases(_PHASES_S, is_sequential=True)
            if record.load.rate is not None or record.load.users > 1:
                record.phases_under_load = await group.phases(
                    _PHASES_S, is_sequential=False
                )


def _result(
    load: Load,
    records: Sequence[_SubjectRecord[Any]],
    started: datetime,
    began: float,
    **fields: Any,
) -> Result:
    subjects = tuple(record.subject(load) for record in records)
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
        subjects=subjects,
        notes=tuple(_notes(subjects, 99 if load.rate is not None else 90)),
        **fields,
    )


def _notes(subjects: Sequence[Subject], percent: int) -> Sequence[str]:
    """Return notes about conditions that make the figures doubtful.

    Args:
        subjects: The measured subjects.
        percent: The percentile of the load's lag to check. In an open loop it is a part
            of the calls, in a closed loop a part of the time, which has fewer calls.
    """
    notes = []
    for subject in subjects:
        if not subject.slices:
            continue
        share = max(slice.generator_share for slice in subject.slices)
        if share > _MAX_GENERATOR_SHARE:
            notes.append(
                f"{subject.name}: making the load used {share:.0%} of a core, so it "
                "may be the limit; --workers spreads it over processes"
            )
        lag = subject.latencies("lag").get_value_at_percentile(percent) / 1_000
        if not subject.total("done"):
            notes.append(f"{subject.name}: no call was answered")
        elif lag > max(subject.figures()["p99"] / 2, _MAX_LAG_US):
            notes.append(
                f"{subject.name}: the load was up to {lag / 1_000:.1f} ms late "
                f"(p{percent}), more than half of the p99 of calls: this machine is "
                "too busy to measure it"
            )
    return notes


async def measure_code(
    code: Mapping[str, ClientCode],
    *,
    users: Sequence[int] = (1,),
    seconds: float = 5.0,
    rounds: int = 5,
    warm_up: float = 0.02,
    slice_seconds: float = 0.1,
    on_users: Callable[[int, Mapping[str, int]], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Result]:
    """Measure calls by client code, from inside the process of each client.

    Each round starts a process for each name. All are connected at the same time, and
    measured in turns in short slices. A call that fails ends the measurement.

    Args:
        code: The code to measure, by the name of its subject in the results. The
            subject ``floor`` is the floor of a result.
        users: The numbers of calls in flight to measure, in order.
        seconds: The total time for which each code is measured with each number of
            users; it is divided among the rounds.
        rounds: The number of rounds.
        warm_up: Seconds of calls before each slice that are not measured, because the
            CPU caches hold the data of the other code.
        slice_seconds: The length of a slice.
        on_users: Called in each round before the slices with a number of users, with
            its position in `users` and the process id of each code; to choose the
            processes' cores, for example.
        on_progress: Called after each slice.

    Returns:
        A result for each number of users.

    Raises:
        GeneratorFailed: The code raised an exception (it is on standard error), or does
            not answer.
        LocalProtocolError: The package hdrhistogram is not installed.
        ValueError: A number is not above zero.

        Safe to cancel: started processes are ended.
    """
    histogram()  # raises now if hdrhistogram is missing
    if slice_seconds <= 0:
        raise ValueError(f"slice_seconds must be above zero, got {slice_seconds!r}")
    started, began = datetime.now(UTC), monotonic()
    call = (Call(CLIENT_CODE),)
    load = Load(calls=call, seconds=seconds, rounds=rounds, warm_up=warm_up)
    loads = [attrs.evolve(load, users=number) for number in users]
    records = [
        [_code_record(name, each, load) for name, each in code.items()]
        for load in loads
    ]
    everything = [record for of_load in records for record in of_load]
    report = _progress_reporter(everything, seconds, on_progress)
    slices = max(1, round(seconds / rounds / slice_seconds))
    for number in range(rounds):
        async with contextlib.AsyncExitStack() as stack:
            processes = {
                name: await stack.enter_async_context(CodeProcess(each, name))
                for name, each in code.items()
            }
            for position, load in enumerate(loads):
                if on_users is not None:
                    pids = {name: process.pid for name, process in processes.items()}
                    on_users(position, pids)
                for process in processes.values():
                    process.set_load(load.users, warm_up)
                groups = [
                    (record, processes[record.name]) for record in records[position]
                ]
                await _measure(groups, load, number, slices, report)
    return [
        _result(load, of_load, started, began)
        for load, of_load in zip(loads, records, strict=True)
    ]


def _code_record(name: str, code: ClientCode, load: Load) -> _SubjectRecord[ClientCode]:
    users = min(load.users, code.max_users or load.users)
    server = dict.fromkeys(("name", "version", "revision"), "")
    return _SubjectRecord(name, code, attrs.evolve(load, users=users), server=server)


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
        ConnectError: The server does not start, or another error of `Client.connect`.
        GeneratorFailed: A process that generates load exited unexpectedly.
        ValueError: The load has no initial rate.

        Safe to cancel: started processes are ended.
    """
    if load.rate is None:
        raise ValueError("the search for the highest rate needs a rate to begin with")
    started, began = datetime.now(UTC), monotonic()
    records: dict[float, _SubjectRecord[Stdio | Http]] = {}
    good, bad, rate = 0.0, None, load.rate
    async with WorkerGroup(as_target(target), load, processes) as group:
        await group.warm_up(load.warm_up)
        while rate <= MAX_RATE and (
            bad is None or (bad > good * _MAX_SEARCH_RATIO and bad > 1)
        ):
            record = _SubjectRecord(step_name(rate), as_target(target), load)
            record.server = group.server
            records[rate] = record
            count = _slices_of_step(load.seconds, rate)
            for number in range(count):
                at = number * load.seconds / count
                slice = await group.measure(0, at, load.seconds / count, rate)
                record.slices.append(slice)
                if on_progress is not None:
                    done = load.seconds * (len(records) - 1) + at + slice.seconds
                    on_progress(Progress(done, None, record.name, slice))
            if _meets_condition(record.subject(load), condition):
                good = rate
            else:
                bad = rate
            rate = good * 2 if bad is None else (good + bad) / 2
    by_rate = [records[rate] for rate in sorted(records)]
    return _result(load, by_rate, started, began, highest=good)


def _slices_of_step(seconds: float, rate: float) -> int:
    """Return the slices of a rate; more slices bound a worker's memory for calls."""
    return max(1, ceil(seconds / MAX_SLICE_S), ceil(seconds * rate / MAX_SLICE_CALLS))


def _meets_condition(subject: Subject, condition: Threshold) -> bool:
    figures = subject.figures()
    is_fast_enough = figures["rate"] >= _MIN_ANSWERED_SHARE * figures["offered"]
    has_few_errors = figures["errors"] <= 100 * (1 - _MIN_ANSWERED_SHARE)
    return is_fast_enough and has_few_errors and condition.is_true(figures)
