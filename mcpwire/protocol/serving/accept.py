"""What a request's head says of formats: what its body is in, what may answer it.

RFC 9110, 8.3 (Content-Type) and 12.5.1 (Accept).
"""

from __future__ import annotations

from typing import Final

__all__ = ["EVENT_STREAM", "JSON", "accepts", "is_json"]

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

# What nearly every client sends: no need to take it apart.
_BOTH: Final = frozenset(
    {
        f"{JSON}, {EVENT_STREAM}",
        f"{JSON},{EVENT_STREAM}",
        f"{EVENT_STREAM}, {JSON}",
        "*/*",
    }
)
_PLAIN_JSON: Final = frozenset({JSON, f"{JSON}; charset=utf-8"})

_UTF_8: Final = frozenset({"utf-8", "utf8"})


def is_json(content_type: str | None) -> bool:
    """Tell whether a Content-Type stands for JSON in UTF-8, its only encoding."""
    if content_type in _PLAIN_JSON:
        return True
    kind, parameters = _take_apart(content_type or "")
    return kind == JSON and parameters.get("charset", "utf-8").lower() in _UTF_8


def accepts(accept: str | None, *kinds: str) -> bool:
    """Tell whether an Accept allows each of these media types.

    Without one, everything is allowed (RFC 9110, 12.5.1).
    """
    if accept is None or accept in _BOTH:
        return True
    ranges = [_take_apart(part) for part in accept.split(",")]
    return all(_quality(kind, ranges) > 0 for kind in kinds)


def _quality(kind: str, ranges: list[tuple[str, dict[str, str]]]) -> float:
    """Return the weight of a media type: that of the most specific range counts."""
    group = kind.partition("/")[0] + "/*"
    for name in (kind, group, "*/*"):
        weights = [_weight(parameters) for each, parameters in ranges if each == name]
        if weights:
            return max(weights)
    return 0.0


def _weight(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def _take_apart(text: str) -> tuple[str, dict[str, str]]:
    """Return a media type, or range, in lower case, and its parameters."""
    # Quoted semicolons occur in no parameter that is looked at.
    kind, *parts = text.split(";")
    parameters = {}
    for part in parts:
        name, _, value = part.partition("=")
        parameters[name.strip().lower()] = value.strip().strip('"')
    return kind.strip().lower(), parameters
