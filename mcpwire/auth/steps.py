"""What an authorization asks of the shell that drives it, step by step.

The shell sends back the outcome of each step, or throws the exception that stood in its
place. Only what is said beside each step may be thrown; whatever else goes wrong ends
the operation.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.auth.records import Pending, Record

__all__ = [
    "Answer",
    "Ask",
    "Fetch",
    "Forget",
    "Lease",
    "Listen",
    "Load",
    "LoadPending",
    "NewKey",
    "Now",
    "RandomBytes",
    "Release",
    "Save",
    "SavePending",
    "Sleep",
    "Step",
    "Steps",
    "Supply",
    "check_available",
    "describe",
    "read_code",
    "read_description",
    "read_object",
    "retry_after",
]

T = TypeVar("T")


@attrs.frozen(repr=False)
class Answer:
    """What came back to a `Fetch`."""

    status: int

    fields: Mapping[str, str]
    """The head's fields, names in lower case."""

    body: bytes
    """Not longer than `Limits.oauth_document`."""

    def __repr__(self) -> str:
        """Show nothing that may hold a secret."""
        return f"<Answer {self.status}, {len(self.body)} bytes>"


@attrs.frozen(repr=False)
class Fetch:
    """Send this HTTP request; the outcome is an `Answer`, whatever its status.

    The shell checks where the URL leads before it connects. It may throw `UrlRefused`,
    and `AuthTemporarilyUnavailable` where no answer came.
    """

    what: str
    """What is asked for, as the noun of messages: "the token endpoint"."""

    url: str

    form: tuple[tuple[str, str], ...] | None = None
    """The body of a POST as form fields."""

    document: Mapping[str, Any] | None = None
    """The body of a POST as a JSON object; neither: a GET."""

    headers: tuple[tuple[str, str], ...] = ()
    """Beside those that the body asks for; names in lower case."""

    may_redirect: bool = False
    """Whether a redirect within the URL's origin may be followed: for metadata only."""

    def __repr__(self) -> str:
        """Show nothing that may hold a secret."""
        return f"<Fetch {self.what}>"


@attrs.frozen
class Listen:
    """Be ready for the user's way back; the outcome is the redirect URI.

    The shell listens there until the operation ends.
    """

    preferred: str | None = None
    """The redirect URI of before; its port is taken where it is free."""


@attrs.frozen(repr=False)
class Ask:
    """Send the user to that URL; the outcome is the parameters they come back with.

    It is checked already. The shell may throw `AuthRequired` where nobody may be asked,
    and `ConsentDenied` where nobody came back in time.
    """

    url: str

    state: str
    """By which the way back is known; anything that comes without it is not this."""

    redirect_uri: str

    scopes: tuple[str, ...]

    def __repr__(self) -> str:
        """Show nothing that may hold a secret."""
        return f"<Ask for {' '.join(self.scopes) or 'no scopes'}>"


@attrs.frozen
class Supply:
    """Call a function of the user's; the outcome is the text it gave."""

    function: Any

    what: str
    """What is asked for, for messages."""


@attrs.frozen
class Now:
    """The outcome is the wall clock's time, in seconds since 1970."""


@attrs.frozen
class RandomBytes:
    """The outcome is so many random bytes of the system's generator."""

    count: int


@attrs.frozen
class NewKey:
    """The outcome is a new private key for proofs of possession, as a JWK."""


@attrs.frozen
class Sleep:
    """Let so many seconds pass."""

    seconds: float


@attrs.frozen
class Load:
    """The outcome is what is stored for this credential: a `Record`, or ``None``."""


@attrs.frozen
class Save:
    """Store that in place of what was loaded last; the outcome is whether it was.

    False: somebody else has stored something since. Load it, and decide anew.
    """

    record: Record


@attrs.frozen
class Forget:
    """Store nothing in place of what was loaded last; the outcome is as for `Save`.

    What was begun for it and not finished goes with it.
    """


@attrs.frozen(repr=False)
class SavePending:
    """Store a login that somebody else finishes, in place of an earlier one."""

    pending: Pending

    def __repr__(self) -> str:
        """Show nothing that may hold a secret."""
        return "<SavePending>"


@attrs.frozen
class LoadPending:
    """Take back the login that was kept; the outcome is a `Pending`, or ``None``."""


@attrs.frozen
class Lease:
    """Be the only one to ask for tokens, among all who share the store.

    The outcome is whether it is had; it ends by itself after so many seconds.
    """

    seconds: float


@attrs.frozen
class Release:
    """Give the lease back."""


Step: TypeAlias = (
    Fetch
    | Listen
    | Ask
    | Supply
    | Now
    | RandomBytes
    | NewKey
    | Sleep
    | Load
    | Save
    | Forget
    | SavePending
    | LoadPending
    | Lease
    | Release
)

Steps: TypeAlias = Generator[Step, Any, T]
"""An operation: yields steps, is sent their outcomes, and returns its own."""


# RFC 6749 section 5.2 allows more; these are what codes are made of, extensions that
# are URIs included, and they cannot hold a sentence.
_CODE: Final = re.compile(r"[A-Za-z0-9_.:/\-]{1,64}")
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_LONGEST_DESCRIPTION: Final = 200
_SHORTEST_SECRET: Final = 6
"""Shorter ones are also parts of words."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_DATE: Final = re.compile(r"[A-Z][a-z]{2}[A-Za-z0-9,: -]{10,30}")

_UNAVAILABLE: Final = frozenset({408, 425, 429})
"""Statuses below 500 that say: not now (RFC 9110, RFC 8470, RFC 6585)."""


def check_available(answer: Answer, what: str, now: float) -> None:
    """Check that an answer is one: that whoever gave it could.

    Raises:
        AuthTemporarilyUnavailable: It could not, and may be able to later.
    """
    if answer.status >= 500 or answer.status in _UNAVAILABLE:
        raise AuthTemporarilyUnavailable(
            f"{what} cannot answer now (HTTP {answer.status})",
            retry_after=retry_after(answer, now),
            status=answer.status,
        )


def retry_after(answer: Answer, now: float) -> float | None:
    """Return the seconds that an answer asks to wait (RFC 9110 section 10.2.3)."""
    text = answer.fields.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _DATE.fullmatch(text):
        return None
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except (IndexError, TypeError, ValueError):  # its parser is not sure how to fail
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(date.timestamp() - now, 0.0)


def read_object(answer: Answer) -> dict[str, Any] | None:
    """Return the JSON object that an answer holds; ``None``: it holds none."""
    try:
        value = loads(answer.body)
    except JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def describe(answer: Answer) -> str:
    """Say in a few words what an answer was that holds no JSON object."""
    kind = answer.fields.get("content-type", "").partition(";")[0].strip().lower()
    kind = kind if _CODE.fullmatch(kind) else "no content type"
    return f"HTTP {answer.status}, {len(answer.body)} bytes, {kind}"


def read_code(value: object) -> str | None:
    """Return an error code as messages may show it; ``None``: it is none."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def read_description(value: object, secrets: Iterable[str] = ()) -> str | None:
    """Return what an error adds for people, in printable characters, without secrets.

    Args:
        value: The member that holds it.
        secrets: What was sent there and must not come back in a text.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            value = value.replace(secret, "***")
    text = _UNPRINTABLE.sub("?", value).strip()
    is_long = len(text) > _LONGEST_DESCRIPTION
    return f"{text[:_LONGEST_DESCRIPTION]}..." if is_long else text
