"""How much a peer may cost us (`Limits`) and how hard we try again (`Recovery`).

Everything that a peer sends is counted while it is read, against these numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DEFAULT_LIMITS",
    "DEFAULT_RECOVERY",
    "Limits",
    "Recovery",
    "check_choice",
    "check_count",
    "check_timeout",
]

T = TypeVar("T")

LONGEST_TIMEOUT_S: Final = 1e9
"""Some thirty years: what is longer (or infinite) is no limit."""

_KIB: Final = 1024
_MIB: Final = 1024 * 1024


def check_timeout(value: object, name: str = "timeout") -> float | None:
    """Return a timeout in seconds, or ``None`` for no limit.

    Raises:
        ValueError: It is zero, negative, NaN or no number. (``inf`` means no limit.)
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number of seconds or None, got {value!r}")
    if not value > 0:  # NaN is not above zero either
        raise ValueError(f"{name} must be above zero, got {value!r}")
    return None if value > LONGEST_TIMEOUT_S else float(value)


def check_count(value: int, name: str, least: int = 1) -> int:
    """Return a number of things that a user gave.

    Raises:
        ValueError: It is no integer, or less.
    """
    if type(value) is not int or value < least:
        bound = "above 0" if least == 1 else f"from {least} on"
        raise ValueError(f"{name} must be an integer {bound}, got {value!r}")
    return value


def check_choice(value: T, name: str, choices: Iterable[object]) -> T:
    """Return a value that a user gave, where it is one of a few.

    Raises:
        ValueError: It is another one.
    """
    known = [*choices]  # no set: a value may have no hash
    if value not in known:
        *others, last = map(repr, known)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {value!r}")
    return value


def _positive(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    kind = int if attribute.type in {int, "int"} else (int, float)
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError(f"{attribute.name} must be a number, got {value!r}")
    if not value > 0:  # NaN is not above zero either
        raise ValueError(f"{attribute.name} must be above zero, got {value!r}")


def _size(default: int) -> int:
    field: int = attrs.field(default=default, validator=_positive)
    return field


def _lifetime_at_most(value: Any) -> Any:
    return min(value, LONGEST_TIMEOUT_S) if isinstance(value, (int, float)) else value


def _seconds(default: float) -> float:
    field: float = attrs.field(
        default=default, validator=_positive, converter=_lifetime_at_most
    )
    return field


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds on what one connection may use. Sizes in bytes, times in seconds."""

    message: int = _size(64 * _MIB)
    """One message: a line on stdio, an HTTP body, an SSE event; after decompression."""

    values: int = _size(2_000_000)
    """Values in one message: its commas and opening brackets outside of strings. They
    are counted, before it is decoded, in messages above 1 MiB."""

    head: int = _size(64 * _KIB)
    """The head of an HTTP answer, and of a request to our own HTTP server."""

    body: int = _size(4 * _MIB)
    """The body of one request to an HTTP server; never more than `message`."""

    body_timeout: float = _seconds(30.0)
    """How long a client may take to send such a body."""

    head_timeout: float = _seconds(10.0)
    """How long a client of our own HTTP server may take to send such a head."""

    listens: int = _size(1_024)
    """`subscriptions/listen` requests that a server keeps open at once; at the limit
    the oldest of the client with the most ends for a client with fewer."""

    batch: int = _size(1_000)
    """Messages in one batch (2025-03-26 only)."""

    stderr_tail: int = _size(64 * _KIB)
    """How much of a child's stderr is kept for error messages."""

    oauth_document: int = _size(_MIB)
    """One metadata or token document."""

    oauth_timeout: float = _seconds(10.0)
    """One OAuth request."""

    unwritten: int = _size(64 * _MIB)
    """Bytes waiting for the peer to read; a call beyond them is refused."""

    stall_timeout: float = _seconds(60.0)
    """How long a client of our own HTTP server may read less than 64 KiB of an answer
    that waits for it."""

    unwritten_total: int = _size(256 * _MIB)
    """Bytes of answers that all HTTP clients together have not read; under a web server
    other than ours, those that wait in event streams."""

    pages: int = _size(1_000)
    """Pages of one list."""

    notifications: int = _size(1_024)
    """Notifications queued for one slow consumer."""

    inbound: int = _size(16)
    """The peer's requests and notifications being handled at once."""

    input_rounds: int = _size(10)
    """Input-required rounds of one call (2026-07-28 basic/patterns/mrtr)."""

    questions: int = _size(100)
    """Requests of the server, such as sampling, that one call of ours answers."""

    question_time: float = _seconds(600.0)
    """How long in all a call's clock stands still while its server is answered."""

    noise_lines: int = _size(16)
    """Lines of a peer that were no messages and are kept for error messages."""

    close_grace: float = _seconds(2.0)
    """How long a child may take to exit after its stdin was closed."""

    terminate_grace: float = _seconds(2.0)
    """How long a child may take to exit after SIGTERM, before SIGKILL."""


@attrs.frozen(kw_only=True)
class Recovery:
    """What is tried again without asking; side effects happen at most once."""

    reinitialize: bool = True
    """Open one new session when the server has forgotten ours (HTTP 404)."""

    restart: bool = True
    """Start a dead child again for the next call."""

    resume: bool = True
    """Resume a broken response stream where its revision allows it."""

    backoff_initial: float = _seconds(0.5)
    """The first delay between attempts, in seconds, before jitter."""

    backoff_max: float = _seconds(30.0)
    """The longest delay between attempts, in seconds."""

    attempts: int = _size(5)
    """Attempts before the last error is raised."""


DEFAULT_LIMITS: Final = Limits()
DEFAULT_RECOVERY: Final = Recovery()
