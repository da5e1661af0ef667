"""What a run measured: figures of each slice of time, and their sums by subject.

A result is written and read as JSON; `reports` and `pages` make all other forms of it.
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

__all__ = ["FIGURES", "Figure", "Result", "Sample", "Slice", "Subject", "step_name"]

FORMAT: Final = 1
_LEAST_FREE: Final = 4
"""So many samples more than a line needs has one with an interval."""

_PERCENTS: Final = (50.0, 90.0, 99.0, 99.9, 100.0)


@attrs.frozen(kw_only=True)
class Sample:
    """What the server's processes held at one moment."""

    at: float
    """Seconds since the measuring of this subject began, pauses left out."""

    memory: int
    """Bytes of resident memory."""

    descriptors: int


@attrs.frozen(kw_only=True)
class Slice:
    """One stretch of load without a pause.

    Times are nanoseconds. Histograms are written as `HdrHistogram` writes them.
    """

    round: int
    at: float
    """Seconds of the whole time at which it began."""

    seconds: float
    """How long calls were begun."""

    elapsed: float
    """How long it took until all were answered."""

    offered: int
    """Calls that were due, or begun where there is no rate."""

    done: int
    """Calls that were answered, well or with an error of the tool or the server."""

    in_time: float
    """The calls that make the rate.

    With a rate: the answers within `seconds` of the first one. Without: the answers
    within the slice, and of each call that was answered later the part of it, from 0 to
    1, that lay within.
    """

    missed: int
    """Calls not begun because too many were in flight, or with no answer in time."""

    errors: Mapping[str, int]
    """Answers that were errors and calls that failed, by the kind of the error."""

    latency: str
    """From when a call was due (without a rate: begun) to its answer.

    A call without an answer in time took until then; any other failure has no latency.
    """

    service: str
    """From when a call was begun to its answer."""

    latency_sum: int
    """All of `latency` added up."""

    lag: str
    """How late the generator was: from when a call was due to its begin.

    Without a rate: how late its event loop was, looked at every 50 ms.
    """

    generator_cpu: int
    """CPU time of the process, or all processes, that made the load."""

    generator_share: float
    """The highest share of a core that one of these processes used."""

    cpu: int | None
    """CPU time of the server's processes; ``None`` where they are not known."""

    bytes_sent: int
    bytes_received: int = 0
    reconnects: int = 0
    """How often a connection was lost and opened anew."""

    windows: tuple[tuple[float, int, int, float, float], ...] = ()
    """Of each second: when, calls answered, errors, p50 and p99 in microseconds."""


@attrs.frozen(kw_only=True)
class Subject:
    """What was measured of one server."""

    name: str
    """A short name, such as ``floor``."""

    target: str
    """The target, as one would type it, without secrets."""

    server: Mapping[str, str]
    """Name, version and protocol revision, as agreed on."""

    slices: tuple[Slice, ...]
    samples: tuple[Sample, ...] = ()
    connects: tuple[float, ...] = ()
    """How long each session took to connect, in microseconds."""

    phases: Mapping[str, float] = attrs.field(factory=dict)
    """Where the time of a call goes that runs alone, in microseconds (medians)."""

    phases_under_load: Mapping[str, float] = attrs.field(factory=dict)
    """The same under the load; empty where that is one user."""

    counts: Mapping[str, float] = attrs.field(factory=dict)
    """What one call costs: messages, and reads and writes of the server."""

    @cached_property
    def percentiles(self) -> Mapping[float, int]:
        """Some percentiles of the latency over all slices; empty without an answer."""
        return self._latency_figures[0]

    @cached_property
    def latency_count(self) -> int:
        """How many calls have a latency."""
        return self._latency_figures[1]

    @cached_property
    def _latency_figures(self) -> tuple[Mapping[float, int], int]:
        """What is read of all latencies at once: reading a histogram takes long."""
        found = self.latencies()
        return percentiles(found, _PERCENTS), found.total_count

    @cached_property
    def _alone(self) -> tuple[Subject, ...]:
        """The same, of each slice alone."""
        return tuple(attrs.evolve(self, slices=(one,)) for one in self.slices)

    def latencies(self, kind: str = "latency") -> Any:
        """Return the histogram over all slices: of `latency`, `service` or `lag`."""
        return merged(getattr(each, kind) for each in self.slices)

    def total(self, name: str) -> int:
        """Return the sum of a number over all slices."""
        return sum(getattr(each, name) for each in self.slices)

    @property
    def seconds(self) -> float:
        """How long load was made."""
        return sum(each.seconds for each in self.slices)

    @property
    def errors(self) -> dict[str, int]:
        """The errors of all slices by their kind."""
        found: Counter[str] = Counter()
        for each in self.slices:
            found.update(each.errors)
        return dict(found)

    def memory_slope(self) -> float | None:
        """Return by how many bytes a second memory grew; ``None``: too few samples.

        It is the slope of one line for all rounds, each from where its server began.
        """
        at, memory = self._centred_samples
        return linear_regression(at, memory).slope if any(at) else None

    def memory_slope_error(self) -> float | None:
        """Return how far off the slope is at most in 95 of 100 cases.

        ``None``: too few samples. It is the standard error of least squares times
        Student's t. Memory grows in steps, so neighbours are off alike: the more they
        are, the fewer samples they count for (as of an AR(1) process).
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
        """Times and memory, each by how far it is from the mean of its round."""
        at: list[float] = []
        memory: list[float] = []
        for samples in self.samples_of_rounds():
            middle = fmean(each.at for each in samples)
            level = fmean(each.memory for each in samples)
            at += [each.at - middle for each in samples]
            memory += [each.memory - level for each in samples]
        return at, memory

    def samples_of_rounds(self) -> list[list[Sample]]:
        """Return the samples by rounds: the time of each begins anew."""
        found: list[list[Sample]] = []
        for each in self.samples:
            if not found or each.at <= found[-1][-1].at:
                found.append([])
            found[-1].append(each)
        return found

    def figures(self) -> dict[str, float]:
        """Return all figures that there are over all slices, by their names."""
        values = (
            (name, figure.of(self))
            for name, figure in FIGURES.items()
            if self.slices or figure.is_counted
        )
        return {name: value for name, value in values if value is not None}

    def figures_of_slices(self, name: str) -> list[float]:
        """Return one figure of each slice, in order; empty where it has none there."""
        found = map(FIGURES[name].of, self._alone)
        return [value for value in found if value is not None]


def _product(left: Iterable[float], right: Iterable[float]) -> float:
    return sum(x * y for x, y in zip(left, right, strict=False))


def step_name(rate: float) -> str:
    """Return how the search for the highest rate names one that it tried."""
    return f"{rate:.0f}/s"


@attrs.frozen
class Figure:
    """A figure that has a name in reports, thresholds and comparisons."""

    unit: str
    """``us``, ``/s``, ``B``, ``B/s``, ``%`` or empty."""

    of: Callable[[Subject], float | None]
    more_is_better: bool = False
    is_compared: bool = True
    """Whether each slice has it, and a difference of two servers is looked for."""

    is_counted: bool = False
    """Whether it is of `Subject.counts`, and not of the slices."""


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
    """Return how far p99 of the last tenth is above that of the first, in percent."""
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
"""All figures, in the order in which they are shown."""


@attrs.frozen(kw_only=True)
class Result:
    """One run: the subjects that were measured in turns."""

    load: Mapping[str, Any]
    """The load, as `Load` has it."""

    title: str
    started: str
    """When, in UTC."""

    machine: Mapping[str, str]
    tool: str
    seconds: float
    subjects: tuple[Subject, ...]
    """The floor first where it was measured, then the targets in order."""

    highest: float | None = None
    """The highest rate that kept the condition, where that was searched for."""

    notes: tuple[str, ...] = ()

    @property
    def floor(self) -> Subject | None:
        """The floor; ``None`` where it was not measured."""
        return next((each for each in self.subjects if each.name == "floor"), None)

    @property
    def targets(self) -> tuple[Subject, ...]:
        """The servers that the run is about."""
        return tuple(each for each in self.subjects if each.name != "floor")

    def to_json(self) -> bytes:
        """Return the result as JSON text; `result.schema.json` describes it."""
        plain = attrs.asdict(self)
        for row, subject in zip(plain["subjects"], self.subjects, strict=True):
            row["figures"] = subject.figures()
        return encode({"format": FORMAT, **plain})

    @classmethod
    def from_json(cls, text: bytes) -> Result:
        """Return the result that `to_json` has written.

        Raises:
            ValueError: The text is no such result.
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
