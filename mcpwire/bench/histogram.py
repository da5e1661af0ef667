"""Histograms of times in nanoseconds, by the package hdrhistogram."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LONGEST_NS", "histogram", "merged"]

LONGEST_NS: Final = 3_600 * 10**9
_SHORTEST_NS: Final = 100
"""Of this size and less, times are told apart by 64 ns."""

_DIGITS: Final = 3
_UNIT_BITS: Final = 6
_KEPT_BITS: Final = 11
"""How many bits of a larger time are kept for three digits."""


def histogram(values: Iterable[int] = ()) -> Any:
    """Return an `HdrHistogram` of nanoseconds, up to an hour, with three digits.

    Raises:
        LocalProtocolError: The package hdrhistogram is not installed.
    """
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError as error:
        raise LocalProtocolError(
            "mcpwire bench needs hdrhistogram: pip install hdrhistogram"
        ) from error
    made = HdrHistogram(_SHORTEST_NS, LONGEST_NS, _DIGITS)
    for value, count in Counter(map(_rounded, values)).items():
        made.record_value(value, count)
    return made


def _rounded(value: int) -> int:
    """Return the least value that the histogram does not tell from this one.

    So there are never more than some thousand values to count.
    """
    value = min(max(value, 0), LONGEST_NS)
    shift = max(value.bit_length() - _KEPT_BITS, _UNIT_BITS)
    return value >> shift << shift


def merged(encoded: Iterable[str]) -> Any:
    """Return one histogram of several that were written as text."""
    made = histogram()
    for text in encoded:
        made.decode_and_add(text.encode())
    return made
