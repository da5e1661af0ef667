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

from mcpwire.bench.histogram import merge_histograms, percentiles
from mcpwire.wire.json import encode, loads

FORMAT: Final = 1
_MIN_DEGREES_OF_FREEDOM: Final = 4
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

    With a rate: the most answers within any time of `seconds`. Without: the answers
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
    """Histogram of the time from the start of a call to its answer."""

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
    load: str = ""
    """A short description of its load; empty if it is that of the result."""

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
        histogram = self.latencies()
        return percentiles(histogram, _PERCENTS), histogram.total_count

    @cached_property
    def _single_slices(self) -> tuple[Subject, ...]:
        """A copy of the subject for each slice."""
        return tuple(attrs.evolve(self, slices=(slice,)) for slice in self.slices)

    def latencies(self, kind: str = "latency") -> Any:
        """Return the histogram of `latency`, `service` or `lag` over all slices."""
        return merge_histograms(getattr(slice, kind) for slice in self.slices)

    def total(self, name: str) -> int:
        """Return the sum of a field over all slices."""
        return sum(getattr(slice, name) for slice in self.slices)

    @property
    def seconds(self) -> float:
        """The total time of load, in seconds."""
        return sum(slice.seconds for slice in self.slices)

    @property
    def errors(self) -> dict[str, int]:
        """The number of errors over all slices, by kind."""
        errors: Counter[str] = Counter()
        for slice in self.slices:
            errors.update(slice.errors)
        return dict(errors)

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
        slope, fitted = self.memory_slope(), len(self.samples_of_rounds()) + 1
        freedom: float = len(at) - fitted
        if slope is None or freedom < _MIN_DEGREES_OF_FREEDOM:
            return None
        residuals = [value - slope * x for x, value in zip(at, memory, strict=True)]
        squares = _dot_product(residuals, residuals)
        if not squares:
            return 0.0
        autocorrelation = max(_dot_product(residuals[1:], residuals) / squares, 0.0)
        weight = (1 - autocorrelation) / (1 + autocorrelation)
        error = sqrt(squares / freedom / _dot_product(at, at) / weight)
        freedom = max(len(at) * weight - fitted, 1.0)
        return error * (1.96 + 2.37 / freedom + 2.82 / freedom**2 + 2.56 / freedom**3)

    @cached_property
    def _centred_samples(self) -> tuple[list[float], list[float]]:
        """Times and memory as differences from the means of their round."""
        at: list[float] = []
        memory: list[float] = []
        for samples in self.samples_of_rounds():
            mean_time = fmean(sample.at for sample in samples)
            mean_memory = fmean(sample.memory for sample in samples)
            at += [sample.at - mean_time for sample in samples]
            memory += [sample.memory - mean_memory for sample in samples]
        return at, memory

    def samples_of_rounds(self) -> list[list[Sample]]:
        """Return the samples grouped by round; their time restarts in each round."""
        rounds: list[list[Sample]] = []
        for sample in self.samples:
            if not rounds or sample.at <= rounds[-1][-1].at:
                rounds.append([])
            rounds[-1].append(sample)
        return rounds

    def figures(self) -> dict[str, float]:
        """Return all available figures over all slices, by name."""
        values = (
            (name, figure.compute(self))
            for name, figure in FIGURES.items()
            if self.slices or figure.is_counted
        )
        return {name: value for name, value in values if value is not None}

    def figures_of_slices(self, name: str) -> list[float]:
        """Return a figure of each slice in order, without slices that lack it."""
        values = map(FIGURES[name].compute, self._single_slices)
        return [value for value in values if value is not None]


def _dot_product(left: Iterable[float], right: Iterable[float]) -> float:
    return sum(x * y for x, y in zip(left, right, strict=False))


def step_name(rate: float) -> str:
    """Return the subject name of a rate in the search for the highest rate."""
    return f"{rate:.0f}/s" if rate >= 100 else f"{rate:.3g}/s"


@attrs.frozen
class Figure:
    """A figure that reports, thresholds and comparisons use by its name."""

    unit: str
    """``us``, ``/s``, ``B``, ``B/s``, ``%`` or empty."""

    compute: Callable[[Subject], float | None]
    more_is_better: bool = False
    is_compared: bool = True
    """Whether each slice has the figure, and comparisons include it."""

    is_counted: bool = False
    """Whether the figure is from `Subject.counts` and not from slices."""


def _percentile(percent: float) -> Callable[[Subject], float | None]:
    def compute(subject: Subject) -> float | None:
        value = subject.percentiles.get(percent)
        return None if value is None else value / 1_000

    return compute


def _p99_of(kind: str) -> Callable[[Subject], float | None]:
    def compute(subject: Subject) -> float | None:
        histogram = subject.latencies(kind)
        if not histogram.total_count:
            return None
        value: int = histogram.get_value_at_percentile(99)
        return value / 1_000

    return compute


def _per_call(subject: Subject, total: float | None) -> float | None:
    done = subject.total("done")
    return None if total is None or not done else total / done


def _mean(subject: Subject) -> float | None:
    count = subject.latency_count
    return subject.total("latency_sum") / 1_000 / count if count else None


def _drift(subject: Subject) -> float | None:
    """Return the change of p99 from the first to the last tenth, in percent."""
    slices = subject.slices
    count = len(slices) // 10
    if not count or slices[0].round != slices[-1].round:
        return None
    first, last = (
        merge_histograms(slice.latency for slice in tenth).get_value_at_percentile(99)
        for tenth in (slices[:count], slices[-count:])
    )
    return 100 * (last / first - 1) if first and last else None


def _server_cpu(subject: Subject) -> float | None:
    if any(slice.cpu is None for slice in subject.slices):
        return None
    return _per_call(subject, subject.total("cpu") / 1_000)


def _slope_bound(sign: int) -> Callable[[Subject], float | None]:
    def compute(subject: Subject) -> float | None:
        slope, error = subject.memory_slope(), subject.memory_slope_error()
        return None if slope is None or error is None else slope + sign * error

    return compute


def _count_figure(name: str) -> Figure:
    return Figure(
        "", lambda subject: subject.counts.get(name), is_compared=False, is_counted=True
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
        lambda subject: subject.total("offered") / subject.seconds,
        more_is_better=True,
        is_compared=False,
    ),
    "rate": Figure(
        "/s",
        lambda subject: (
            sum(slice.in_time for slice in subject.slices) / subject.seconds
        ),
        more_is_better=True,
    ),
    "missed": Figure(
        "%", lambda subject: _share(subject, subject.total("missed")), is_compared=False
    ),
    "errors": Figure(
        "%",
        lambda subject: _share(subject, sum(subject.errors.values())),
        is_compared=False,
    ),
    "reconnects": Figure(
        "", lambda subject: subject.total("reconnects"), is_compared=False
    ),
    "connect": Figure(
        "us",
        lambda subject: median(subject.connects) if subject.connects else None,
        is_compared=False,
    ),
    "cpu": Figure("us", _server_cpu),
    "generator cpu": Figure(
        "us",
        lambda subject: _per_call(
            subject, subject.total("generator_cpu") / 1_000 or None
        ),
        is_compared=False,
    ),
    "generator lag p99": Figure("us", _p99_of("lag"), is_compared=False),
    "memory": Figure(
        "B",
        lambda subject: (
            median(s.memory for s in subject.samples) if subject.samples else None
        ),
        is_compared=False,
    ),
    "memory slope": Figure("B/s", Subject.memory_slope, is_compared=False),
    "memory slope low": Figure("B/s", _slope_bound(-1), is_compared=False),
    "memory slope high": Figure("B/s", _slope_bound(1), is_compared=False),
    "descriptors": Figure(
        "",
        lambda subject: max((s.descriptors for s in subject.samples), default=None),
        is_compared=False,
    ),
    "bytes sent": Figure(
        "B",
        lambda subject: _per_call(subject, subject.total("bytes_sent") or None),
        is_compared=False,
    ),
    "bytes received": Figure(
        "B",
        lambda subject: _per_call(subject, subject.total("bytes_received") or None),
        is_compared=False,
    ),
    "messages": _count_figure("messages"),
    "reads": _count_figure("reads"),
    "writes": _count_figure("writes"),
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
    """The highest rate that met the condition; ``None`` if not searched for."""

    notes: tuple[str, ...] = ()

    @property
    def floor(self) -> Subject | None:
        """The floor; ``None`` if it was not measured."""
        return next(
            (subject for subject in self.subjects if subject.name == "floor"), None
        )

    @property
    def targets(self) -> tuple[Subject, ...]:
        """All subjects except the floor."""
        return tuple(subject for subject in self.subjects if subject.name != "floor")

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
            format = value.pop("format")
            if format == FORMAT:
                subjects = tuple(map(_subject, value.pop("subjects")))
                value["notes"] = tuple(value["notes"])
                return cls(subjects=subjects, **value)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a result of mcpwire bench: {error}") from error
        raise ValueError(f"a result of format {format!r}, expected {FORMAT}")


def _subject(value: dict[str, Any]) -> Subject:
    del value["figures"]
    slices = [
        Slice(**{**fields, "windows": tuple(map(tuple, fields["windows"]))})
        for fields in value.pop("slices")
    ]
    samples = [Sample(**fields) for fields in value.pop("samples")]
    return Subject(
        slices=tuple(slices),
        samples=tuple(samples),
        connects=tuple(value.pop("connects", ())),
        **value,
    )
