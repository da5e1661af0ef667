"""Trace context of calls: in `_meta`, and where wanted as an argument, too.

Nothing is told to anybody who was not meant to hear it: without a carrier nothing is
added, and what the caller put there stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.types.meta import TRACE_KEYS, is_trace_value

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["with_trace_argument", "with_trace_meta"]

SPANS: Final = ("traceparent", "tracestate")
"""The two say the same thing together: a caller's one is not mixed with our other."""


def with_trace_meta(
    meta: Mapping[str, Any] | None, carrier: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return `_meta` with the trace keys of the carrier, as far as they are valid."""
    # 2026-07-28 basic/index, "_meta": the three keys have no prefix, and their values
    # follow W3C Trace Context and W3C Baggage.
    own = dict(meta or {})
    has_span = any(key in own for key in SPANS)
    added = {
        key: carrier[key]
        for key in TRACE_KEYS
        if key not in own
        and not (has_span and key in SPANS)
        and is_trace_value(key, carrier.get(key))
    }
    # A tracestate belongs to a traceparent.
    if "tracestate" in added and "traceparent" not in added:
        del added["tracestate"]
    return {**own, **added} if added else meta


def with_trace_argument(
    arguments: dict[str, Any] | None, key: str, carrier: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the arguments with what is known of the trace as one of them."""
    known = {name: value for name, value in carrier.items() if value is not None}
    if not known or key in (arguments or {}):
        return arguments
    return {**(arguments or {}), key: known}
