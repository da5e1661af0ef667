"""Histograms of durations in nanoseconds, by the package hdrhistogram."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_NS: Final = 3_600 * 10**9
_SHORTEST_NS: Final = 100
"""Lowest discernible value of the histogram, which gives a resolution of 64 ns."""

_DIGITS: Final = 3
_UNIT_BITS: Final = 6
_KEPT_BITS: Final = 11
"""Significant bits of a value that three decimal digits need."""


def histogram(values: Iterable[int] = ()) -> Any:
    """Return an `HdrHistogram` of durations up to an hour, with three digits.

    Raises:
        LocalProtocolError: The package hdrhistogram is not installed.
    """
    made = _package()(_SHORTEST_NS, LONGEST_NS, _DIGITS)
    for value, count in Counter(map(_rounded, values)).items():
        made.record_value(value, count)
    return made


def _package() -> Any:
    """Return the class `HdrHistogram`, or raise `LocalProtocolError`."""
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError as error:
        raise LocalProtocolError(
            "mcpwire bench needs hdrhistogram: pip install hdrhistogram"
        ) from error
    return HdrHistogram


def _rounded(value: int) -> int:
    """Return the lowest equivalent value in the histogram.

    So there are at most some thousand distinct values to record.
    """
    value = min(max(value, 0), LONGEST_NS)
    shift = max(value.bit_length() - _KEPT_BITS, _UNIT_BITS)
    return value >> shift << shift


def encoded(found: Any) -> str:
    """Return a histogram encoded as text."""
    text: bytes = found.encode()
    return text.decode()


def merged(texts: Iterable[str]) -> Any:
    """Decode several histograms and return their sum."""
    made: Any = None
    for text in texts:
        if made is None:
            made = _package().decode(text.encode())
        else:
            made.decode_and_add(text.encode())
    return histogram() if made is None else made


def percentiles(found: Any, percents: Iterable[float]) -> dict[float, int]:
    """Return the values at percentiles, as `get_percentile_to_value_dict` does.

    `accumulate` is ten times as fast as that method's loop over the counts.
    """
    if not found.total_count:
        return {}
    highest = found.get_max_value()
    shift = max(highest.bit_length() - _KEPT_BITS, _UNIT_BITS)
    last = (shift - _UNIT_BITS << _KEPT_BITS - 1) + (highest >> shift)
    sums = list(accumulate(found.counts[: last + 1]))
    values = {}
    for percent in percents:
        place = bisect_left(sums, found.get_target_count_at_percentile(percent))
        value = found.get_value_from_index(place)
        values[percent] = found.get_highest_equivalent_value(value)
    return values
