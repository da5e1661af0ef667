"""The steps that an authorization asks its shell to perform, and how answers are read.

The shell sends the outcome of each step back, or throws the exception that took its
place: one that is named beside the step, as any other ends the operation.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.wire.headers import parse_retry_after
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
]

T = TypeVar("T")


class Step:
    """A step of an operation, which the shell performs."""


@attrs.frozen(repr=False)
class Answer:
    """The answer to a `Fetch`."""

    status: int
    fields: Mapping[str, str]  # of the head; names in lower case
    body: bytes  # at most `Limits.oauth_document` bytes

    def __repr__(self) -> str:
        return f"<Answer {self.status}, {len(self.body)} bytes>"


@attrs.frozen(repr=False)
class Fetch(Step):
    """Send this HTTP request; the outcome is an `Answer`, of any status.

    The shell checks the address before it connects. It may throw `UrlRefused`, and
    `AuthTemporarilyUnavailable` if no answer came.
    """

    what: str  # the noun of messages: "the token endpoint"
    url: str
    form: tuple[tuple[str, str], ...] | None = None
    document: Mapping[str, Any] | None = None  # the body as a JSON object
    headers: tuple[tuple[str, str], ...] = ()  # beside the body's; in lower case
    may_redirect: bool = False  # within the URL's origin; for metadata only

    @property
    def is_post(self) -> bool:
        """Whether something is sent beside the URL."""
        return self.form is not None or self.document is not None

    def __repr__(self) -> str:
        return f"<Fetch {self.what}>"


@attrs.frozen
class Listen(Step):
    """Listen for the browser until the operation ends; the outcome is the redirect URI.

    The port of the preferred redirect URI is taken if it is free.
    """

    preferred: str | None = None


@attrs.frozen(repr=False)
class Ask(Step):
    """Send the user to this checked URL; the outcome is the response's parameters.

    A response without the state is ignored. The shell may throw `AuthRequired` if no
    user may be asked, and `ConsentDenied` if no response came in time.
    """

    url: str
    state: str
    redirect_uri: str
    scopes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Ask for {' '.join(self.scopes) or 'no scopes'}>"


@attrs.frozen
class Supply(Step):
    """Call a function of the user's; the outcome is the text that it returned."""

    function: Any
    what: str  # the noun of messages


@attrs.frozen
class Now(Step):
    """The outcome is the wall clock's time, in seconds since 1970."""


@attrs.frozen
class RandomBytes(Step):
    """The outcome is this many bytes of the system's random generator."""

    count: int


@attrs.frozen
class NewKey(Step):
    """The outcome is a new private key for proofs of possession, as a JWK."""


@attrs.frozen
class Sleep(Step):
    """Let this many seconds pass."""

    seconds: float


@attrs.frozen
class Load(Step):
    """The outcome is the `Record` stored for this credential, or ``None``."""


@attrs.frozen
class Save(Step):
    """Store this in place of what was loaded last; the outcome is whether it was.

    False: the store has changed since. Load it, and decide anew.
    """

    record: Record


@attrs.frozen
class Forget(Step):
    """Delete what was loaded last and the pending login; outcome: as for `Save`."""


@attrs.frozen(repr=False)
class SavePending(Step):
    """Store a login to be finished later, in place of an earlier one."""

    pending: Pending

    def __repr__(self) -> str:
        return "<SavePending>"


@attrs.frozen
class LoadPending(Step):
    """Take the pending login out of the store; the outcome is it, or ``None``."""


@attrs.frozen
class Lease(Step):
    """Become the only one of all that share the store to ask for tokens.

    The outcome is whether the lease is had; it ends by itself after these seconds.
    """

    seconds: float


@attrs.frozen
class Release(Step):
    """Give the lease back."""


Steps: TypeAlias = Generator[Step, Any, T]
"""An operation: yields steps, is sent their outcomes, and returns its own."""


# Reading an answer. Its text is foreign: it may repeat what was sent there, and may be
# meant for a terminal. Only codes, short and printable, get into messages.

# RFC 6749 section 5.2 allows more; these are the characters of codes, extensions that
# are URIs included, and they cannot form a sentence.
_CODE: Final = re.compile(r"[A-Za-z0-9_.:/\-]{1,64}")
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_LONGEST_DESCRIPTION: Final = 200
_SHORTEST_SECRET: Final = 6  # shorter ones are also parts of words
# Below 500, and still: not now (RFC 9110, RFC 8470, RFC 6585).
_UNAVAILABLE: Final = frozenset({408, 425, 429})


def check_available(answer: Answer, what: str, now: float) -> None:
    """Raise `AuthTemporarilyUnavailable` if a later answer may be another one."""
    if answer.status >= 500 or answer.status in _UNAVAILABLE:
        raise AuthTemporarilyUnavailable(
            f"{what} cannot answer now (HTTP {answer.status})",
            retry_after=parse_retry_after(answer.fields.get("retry-after"), now),
            status=answer.status,
        )


def read_object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body; ``None`` if it is anything else."""
    try:
        value = loads(body)
    except JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def describe(answer: Answer) -> str:
    """Describe an answer without a JSON object, in a few words."""
    kind = answer.fields.get("content-type", "").partition(";")[0].strip().lower()
    kind = kind if _CODE.fullmatch(kind) else "no content type"
    return f"HTTP {answer.status}, {len(answer.body)} bytes, {kind}"


def read_code(value: object) -> str | None:
    """Return an error code that messages may show, or ``None``."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def read_description(value: object, secrets: Iterable[str] = ()) -> str | None:
    """Return an error's description in printable characters, the secrets masked."""
    if not isinstance(value, str) or not value.strip():
        return None
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            value = value.replace(secret, "***")
    text = _UNPRINTABLE.sub("?", value).strip()
    is_long = len(text) > _LONGEST_DESCRIPTION
    return f"{text[:_LONGEST_DESCRIPTION]}..." if is_long else text
