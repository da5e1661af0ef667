"""Limits on the resources that a peer may use, and the recovery from failures.

Received data is counted against `Limits` while it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

MAX_TIMEOUT_S: Final = 1e9
"""About thirty years: a longer (or infinite) timeout means no limit."""

_KIB: Final = 1024
_MIB: Final = 1024 * 1024


def check_timeout(value: object, name: str = "timeout") -> float | None:
    """Return a timeout in seconds, or ``None`` for no limit.

    Raises:
        ValueError: It is zero, negative, NaN or not a number. (``inf``: no limit.)
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number of seconds or None, got {value!r}")
    check_bounds(**{name: value})
    return None if value > MAX_TIMEOUT_S else float(value)


def check_count(value: int, name: str, minimum: int = 1) -> int:
    """Return a count that a user passed.

    Raises:
        ValueError: It is not an integer, or is less than `minimum`.
    """
    if type(value) is not int or value < minimum:
        bound = "above 0" if minimum == 1 else f"from {minimum} on"
        raise ValueError(f"{name} must be an integer {bound}, got {value!r}")
    return value


def check_choice(value: T, name: str, choices: Iterable[object]) -> T:
    """Return a value that a user passed, if it is one of the choices.

    Raises:
        ValueError: It is not.
    """
    allowed = [*choices]  # not a set: a value may not be hashable
    if value not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {value!r}")
    return value


def choice_validator(*choices: object) -> Any:
    """Return a validator of a field that has one of the choices."""
    return lambda _, attribute, value: check_choice(value, attribute.name, choices)


def check_bounds(**bounds: float) -> None:
    """Raise a `ValueError` that names the first number that is not above zero."""
    for name, value in bounds.items():
        if not value > 0:  # NaN fails the comparison, too
            raise ValueError(f"{name} must be above zero, got {value!r}")


def validate_switch(_: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    """Check that a field is ``True`` or ``False``."""
    if not isinstance(value, bool):
        raise ValueError(f"{attribute.name} must be True or False, got {value!r}")


def validate_count(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Check that a field is a count above zero, or ``None``."""
    if value is not None:
        check_count(value, attribute.name)


def _check_positive(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    kind = int if attribute.type in {int, "int"} else (int, float)
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError(f"{attribute.name} must be a number, got {value!r}")
    check_bounds(**{attribute.name: value})


def _count_field(default: int) -> int:
    field: int = attrs.field(default=default, validator=_check_positive)
    return field


def _cap_timeout(value: Any) -> Any:
    return min(value, MAX_TIMEOUT_S) if isinstance(value, (int, float)) else value


def _seconds_field(default: float) -> float:
    field: float = attrs.field(
        default=default, validator=_check_positive, converter=_cap_timeout
    )
    return field


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds on what one connection may use. Sizes in bytes, times in seconds."""

    message: int = _count_field(64 * _MIB)
    """One message: a line on stdio, an HTTP body, an SSE event; after decompression."""

    values: int = _count_field(2_000_000)
    """Values in one message: its commas and opening brackets outside of strings. They
    are counted, before it is decoded, in messages above 1 MiB."""

    head: int = _count_field(64 * _KIB)
    """The head of an HTTP response, and of a request to mcpwire's HTTP server."""

    body: int = _count_field(4 * _MIB)
    """The body of one request to an HTTP server; never more than `message`."""

    body_timeout: float = _seconds_field(30.0)
    """How long a client may take to send the body of a request."""

    head_timeout: float = _seconds_field(10.0)
    """How long a client of mcpwire's HTTP server may take to send a head."""

    listens: int = _count_field(1_024)
    """Open `subscriptions/listen` requests of a server; at the limit a request of a
    client with fewer of them ends the oldest one of the client with the most."""

    batch: int = _count_field(1_000)
    """Messages in one batch (2025-03-26 only)."""

    stderr_tail: int = _count_field(64 * _KIB)
    """The end of a child's stderr that is kept for error messages."""

    oauth_document: int = _count_field(_MIB)
    """One metadata or token document."""

    oauth_timeout: float = _seconds_field(10.0)
    """One OAuth request."""

    unwritten: int = _count_field(64 * _MIB)
    """Bytes waiting for the peer to read; a call beyond them is refused."""

    stall_timeout: float = _seconds_field(60.0)
    """How long a client of mcpwire's HTTP server may read less than 64 KiB of a pending
    response."""

    unwritten_total: int = _count_field(256 * _MIB)
    """Unread bytes of responses to all HTTP clients together; under another web server
    the bytes queued in event streams."""

    pages: int = _count_field(1_000)
    """Pages of one list."""

    notifications: int = _count_field(1_024)
    """Notifications queued for one slow consumer."""

    inbound: int = _count_field(16)
    """Requests and notifications of the peer that are handled at the same time."""

    input_rounds: int = _count_field(10)
    """Input-required rounds of one call (2026-07-28 basic/patterns/mrtr)."""

    questions: int = _count_field(100)
    """Server requests, such as sampling, that one call of a client answers."""

    question_time: float = _seconds_field(600.0)
    """How long in total a call's timeout is paused for handling server requests."""

    noise_lines: int = _count_field(16)
    """Lines of a peer that were not messages, kept for error messages."""

    close_grace: float = _seconds_field(2.0)
    """How long a child may take to exit after its stdin was closed."""

    terminate_grace: float = _seconds_field(2.0)
    """How long a child may take to exit after SIGTERM, before SIGKILL."""


@attrs.frozen(kw_only=True)
class Recovery:
    """Automatic retries after failures; side effects happen at most once."""

    reinitialize: bool = True
    """Open one new session when the server has discarded the old one (HTTP 404)."""

    restart: bool = True
    """Restart an exited child for the next call."""

    resume: bool = True
    """Resume a broken response stream where its revision allows it."""

    backoff_initial: float = _seconds_field(0.5)
    """The first delay between attempts, in seconds, before jitter."""

    backoff_max: float = _seconds_field(30.0)
    """The longest delay between attempts, in seconds."""

    attempts: int = _count_field(5)
    """Attempts before the last error is raised."""


DEFAULT_LIMITS: Final = Limits()
DEFAULT_RECOVERY: Final = Recovery()
