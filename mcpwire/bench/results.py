"""The result of a run: measurements of each slice, and figures of each subject.

A result is written and read as JSON; `reports` and `pages` produce the other formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping  # noqa: TC003 - for attrs
from functools import cached_property
from math import sqrt
from statistics import fmean, linear_regression, median
from typing import Any, Final

import attrs

from mcpwire.bench.histogram import merged, percentiles
from mcpwire.wire.json import encode, loads

FORMAT: Final = 1
_LEAST_FREE: Final = 4
"""Minimum degrees of freedom for an interval of the slope."""

_PERCENTS: Final = (50.0, 90.0, 99.0, 99.9, 100.0)


@attrs.frozen(kw_only=True)
class Sample:
    """The memory and descriptors of the server's processes at one moment."""

    at: float
    """Seconds of measurement of this subject in the round, without pauses."""

    memory: int
    """Bytes of resident memory."""

    descriptors: int


@attrs.frozen(kw_only=True)
class Slice:
    """The measurements of one uninterrupted interval of load.

    Times are in nanoseconds unless noted. Histograms are encoded by `HdrHistogram`.
    """

    round: int
    at: float
    """The start of the slice within the total time, in seconds."""

    seconds: float
    """The time for which calls were begun, in seconds."""

    elapsed: float
    """The time until all calls had been answered, in seconds."""

    offered: int
    """Calls that were due; without a rate, calls that were begun."""

    done: int
    """Calls with a response, including errors of the tool or the server."""

    in_time: float
    """The calls that count for the achieved rate.

    With a rate: the answers within `seconds` of the first answer. Without: the answers
    within the slice, plus for each call answered later the part of it, from 0 to 1,
    that lies within the slice.
    """

    missed: int
    """Calls not begun (too many in flight, or too late) and calls that timed out."""

    errors: Mapping[str, int]
    """The number of errors and failed calls, by the kind of the error."""

    latency: str
    """Histogram of the time from the due time (without a rate: begin) to the answer.

    A call that timed out counts up to its timeout; other failures have no latency.
    """

    service: str
    """Histogram of the time from the begin of a call to its answer."""

    latency_sum: int
    """The sum of all latencies."""

    lag: str
    """Histogram of the generator's delay: from the due time of a call to its begin.

    Without a rate: the delay of its event loop, sampled every 50 ms.
    """

    generator_cpu: int
    """CPU time of all processes that generated the load."""

    generator_share: float
    """The highest share of a core that one of these processes used, from 0 to 1."""

    cpu: int | None
    """CPU time of the server's processes; ``None`` if they are not known."""

    bytes_sent: int
    bytes_received: int = 0
    reconnects: int = 0
    """The number of connections that were lost and reopened."""

    windows: tuple[tuple[float, int, int, float, float], ...] = ()
    """For each second: time, calls answered, errors, p50 and p99 in microseconds."""


@attrs.frozen(kw_only=True)
class Subject:
    """The measurements of one server."""

    name: str
    """A short name, such as ``floor``."""

    target: str
    """The command line or URL, without secrets."""

    server: Mapping[str, str]
    """Name, version and negotiated protocol revision."""

    slices: tuple[Slice, ...]
    samples: tuple[Sample, ...] = ()
    connects: tuple[float, ...] = ()
    """The connection time of each session, in microseconds."""

    phases: Mapping[str, float] = attrs.field(factory=dict)
    """The median duration of each phase of a sequential call, in microseconds."""

    phases_under_load: Mapping[str, float] = attrs.field(factory=dict)
    """The same under the load; empty if the load is one user."""

    counts: Mapping[str, float] = attrs.field(factory=dict)
    """Messages, and reads and writes of the server, for one call."""

    @cached_property
    def percentiles(self) -> Mapping[float, int]:
        """Percentiles of the latency over all slices, in nanoseconds; may be empty."""
        return self._latency_figures[0]

    @cached_property
    def latency_count(self) -> int:
        """The number of calls that have a latency."""
        return self._latency_figures[1]

    @cached_property
    def _latency_figures(self) -> tuple[Mapping[float, int], int]:
        """Percentiles and count, cached together because decoding is slow."""
        found = self.latencies()
        return percentiles(found, _PERCENTS), found.total_count

    @cached_property
    def _alone(self) -> tuple[Subject, ...]:
        """A copy of the subject for each slice."""
        return tuple(attrs.evolve(self, slices=(one,)) for one in self.slices)

    def latencies(self, kind: str = "latency") -> Any:
        """Return the histogram of `latency`, `service` or `lag` over all slices."""
        return merged(getattr(each, kind) for each in self.slices)

    def total(self, name: str) -> int:
        """Return the sum of a field over all slices."""
        return sum(getattr(each, name) for each in self.slices)

    @property
    def seconds(self) -> float:
        """The total time of load, in seconds."""
        return sum(each.seconds for each in self.slices)

    @property
    def errors(self) -> dict[str, int]:
        """The number of errors over all slices, by kind."""
        found: Counter[str] = Counter()
        for each in self.slices:
            found.update(each.errors)
        return dict(found)

    def memory_slope(self) -> float | None:
        """Return the growth of memory in bytes per second; ``None``: too few samples.

        This is a common slope for all rounds; each round has its own intercept.
        """
        at, memory = self._centred_samples
        return linear_regression(at, memory).slope if any(at) else None

    def memory_slope_error(self) -> float | None:
        """Return the half-width of the slope's 95 % interval; ``None``: few samples.

        It is the least-squares standard error times Student's t. Memory grows in steps,
        so residuals are autocorrelated: the sample size is reduced as for an AR(1)
        process.
        """
        at, memory = self._centred_samples
        slope, used = self.memory_slope(), len(self.samples_of_rounds()) + 1
        free: float = len(at) - used
        if slope is None or free < _LEAST_FREE:
            return None
        off = [value - slope * x for x, value in zip(at, memory, strict=True)]
        squares = _product(off, off)
        if not squares:
            return 0.0
        alike = max(_product(off[1:], off) / squares, 0.0)
        each_counts = (1 - alike) / (1 + alike)
        error = sqrt(squares / free / _product(at, at) / each_counts)
        free = max(len(at) * each_counts - used, 1.0)
        return error * (1.96 + 2.37 / free + 2.82 / free**2 + 2.56 / free**3)

    @cached_property
    def _centred_samples(self) -> tuple[list[float], list[float]]:
        """Times and memory as differences from the means of their round."""
        at: list[float] = []
        memory: list[float] = []
        for samples in self.samples_of_rounds():
            middle = fmean(each.at for each in samples)
            level = fmean(each.memory for each in samples)
            at += [each.at - middle for each in samples]
            memory += [each.memory - level for each in samples]
        return at, memory

    def samples_of_rounds(self) -> list[list[Sample]]:
        """Return the samples grouped by round; their time restarts in each round."""
        found: list[list[Sample]] = []
        for each in self.samples:
            if not found or each.at <= found[-1][-1].at:
                found.append([])
            found[-1].append(each)
        return found

    def figures(self) -> dict[str, float]:
        """Return all available figures over all slices, by name."""
        values = (
            (name, figure.of(self))
            for name, figure in FIGURES.items()
            if self.slices or figure.is_counted
        )
        return {name: value for name, value in values if value is not None}

    def figures_of_slices(self, name: str) -> list[float]:
        """Return a figure of each slice in order, without slices that lack it."""
        found = map(FIGURES[name].of, self._alone)
        return [value for value in found if value is not None]


def _product(left: Iterable[float], right: Iterable[float]) -> float:
    return sum(x * y for x, y in zip(left, right, strict=False))


def step_name(rate: float) -> str:
    """Return the subject name of a rate in the search for the highest rate."""
    return f"{rate:.0f}/s"


@attrs.frozen
class Figure:
    """A figure that reports, thresholds and comparisons use by its name."""

    unit: str
    """``us``, ``/s``, ``B``, ``B/s``, ``%`` or empty."""

    of: Callable[[Subject], float | None]
    more_is_better: bool = False
    is_compared: bool = True
    """Whether each slice has the figure, and comparisons include it."""

    is_counted: bool = False
    """Whether the figure is from `Subject.counts` and not from slices."""


def _percentile(percent: float) -> Callable[[Subject], float | None]:
    def read(subject: Subject) -> float | None:
        found = subject.percentiles.get(percent)
        return None if found is None else found / 1_000

    return read


def _p99_of(kind: str) -> Callable[[Subject], float]:
    def read(subject: Subject) -> float:
        found: int = subject.latencies(kind).get_value_at_percentile(99)
        return found / 1_000

    return read


def _per_call(subject: Subject, total: float | None) -> float | None:
    done = subject.total("done")
    return None if total is None or not done else total / done


def _mean(subject: Subject) -> float | None:
    count = subject.latency_count
    return subject.total("latency_sum") / 1_000 / count if count else None


def _drift(subject: Subject) -> float | None:
    """Return the change of p99 from the first to the last tenth, in percent."""
    slices = subject.slices
    tenth = len(slices) // 10
    if not tenth or slices[0].round != slices[-1].round:
        return None
    first, last = (
        merged(each.latency for each in part).get_value_at_percentile(99)
        for part in (slices[:tenth], slices[-tenth:])
    )
    return 100 * (last / first - 1) if first and last else None


def _server_cpu(subject: Subject) -> float | None:
    if any(each.cpu is None for each in subject.slices):
        return None
    return _per_call(subject, subject.total("cpu") / 1_000)


def _slope_end(sign: int) -> Callable[[Subject], float | None]:
    def read(subject: Subject) -> float | None:
        slope, error = subject.memory_slope(), subject.memory_slope_error()
        return None if slope is None or error is None else slope + sign * error

    return read


def _counted(name: str) -> Figure:
    return Figure(
        "", lambda one: one.counts.get(name), is_compared=False, is_counted=True
    )


def _share(subject: Subject, count: int) -> float:
    return 100 * count / max(subject.total("offered"), 1)


FIGURES: Final[dict[str, Figure]] = {
    "p50": Figure("us", _percentile(50)),
    "p90": Figure("us", _percentile(90)),
    "p99": Figure("us", _percentile(99)),
    "p99.9": Figure("us", _percentile(99.9), is_compared=False),
    "max": Figure("us", _percentile(100), is_compared=False),
    "p99 drift": Figure("%", _drift, is_compared=False),
    "mean": Figure("us", _mean),
    "service p99": Figure("us", _p99_of("service"), is_compared=False),
    "offered": Figure(
        "/s",
        lambda one: one.total("offered") / one.seconds,
        more_is_better=True,
        is_compared=False,
    ),
    "rate": Figure(
        "/s",
        lambda one: sum(each.in_time for each in one.slices) / one.seconds,
        more_is_better=True,
    ),
    "missed": Figure(
        "%", lambda one: _share(one, one.total("missed")), is_compared=False
    ),
    "errors": Figure(
        "%", lambda one: _share(one, sum(one.errors.values())), is_compared=False
    ),
    "reconnects": Figure("", lambda one: one.total("reconnects"), is_compared=False),
    "connect": Figure(
        "us",
        lambda one: median(one.connects) if one.connects else None,
        is_compared=False,
    ),
    "cpu": Figure("us", _server_cpu),
    "generator cpu": Figure(
        "us",
        lambda one: _per_call(one, one.total("generator_cpu") / 1_000),
        is_compared=False,
    ),
    "generator lag p99": Figure("us", _p99_of("lag"), is_compared=False),
    "memory": Figure(
        "B",
        lambda one: median(s.memory for s in one.samples) if one.samples else None,
        is_compared=False,
    ),
    "memory slope": Figure("B/s", Subject.memory_slope, is_compared=False),
    "memory slope low": Figure("B/s", _slope_end(-1), is_compared=False),
    "memory slope high": Figure("B/s", _slope_end(1), is_compared=False),
    "descriptors": Figure(
        "",
        lambda one: max((s.descriptors for s in one.samples), default=None),
        is_compared=False,
    ),
    "bytes sent": Figure(
        "B", lambda one: _per_call(one, one.total("bytes_sent")), is_compared=False
    ),
    "bytes received": Figure(
        "B",
        lambda one: _per_call(one, one.total("bytes_received") or None),
        is_compared=False,
    ),
    "messages": _counted("messages"),
    "reads": _counted("reads"),
    "writes": _counted("writes"),
}
"""All figures in display order."""


@attrs.frozen(kw_only=True)
class Result:
    """The result of one run, with all subjects measured in turns."""

    load: Mapping[str, Any]
    """The fields of `Load`."""

    title: str
    started: str
    """The start of the run as an ISO 8601 time in UTC."""

    machine: Mapping[str, str]
    tool: str
    seconds: float
    subjects: tuple[Subject, ...]
    """The floor first if it was measured, then the targets in order."""

    highest: float | None = None
    """The highest rate that kept the condition; ``None`` if not searched for."""

    notes: tuple[str, ...] = ()

    @property
    def floor(self) -> Subject | None:
        """The floor; ``None`` if it was not measured."""
        return next((each for each in self.subjects if each.name == "floor"), None)

    @property
    def targets(self) -> tuple[Subject, ...]:
        """All subjects except the floor."""
        return tuple(each for each in self.subjects if each.name != "floor")

    def to_json(self) -> bytes:
        """Return the result as JSON, as `result.schema.json` describes it."""
        plain = attrs.asdict(self)
        for row, subject in zip(plain["subjects"], self.subjects, strict=True):
            row["figures"] = subject.figures()
        return encode({"format": FORMAT, **plain})

    @classmethod
    def from_json(cls, text: bytes) -> Result:
        """Parse a result that `to_json` has written.

        Raises:
            ValueError: The text is not such a result.
        """
        try:
            value = loads(text)
            found = value.pop("format")
            if found == FORMAT:
                subjects = tuple(map(_subject, value.pop("subjects")))
                value["notes"] = tuple(value["notes"])
                return cls(subjects=subjects, **value)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a result of mcpwire bench: {error}") from error
        raise ValueError(f"a result of format {found!r}, expected {FORMAT}")


def _subject(value: dict[str, Any]) -> Subject:
    del value["figures"]
    slices = [
        Slice(**{**each, "windows": tuple(map(tuple, each["windows"]))})
        for each in value.pop("slices")
    ]
    samples = [Sample(**each) for each in value.pop("samples")]
    return Subject(
        slices=tuple(slices),
        samples=tuple(samples),
        connects=tuple(value.pop("connects", ())),
        **value,
    )
