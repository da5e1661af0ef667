"""The steps of an authorization operation, which a shell performs; answer parsing.

The shell sends the outcome of each step into the generator, or throws an exception that
the step's text names; any other exception ends the operation.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.wire.headers import media_type, parse_retry_after

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.auth.records import PendingLogin, Record

T = TypeVar("T")


class Step:
    """Base class of the steps that the shell performs."""


@attrs.frozen
class Answer:
    """The HTTP response to a `Fetch`."""

    status: int
    # Of the head; names in lower case.
    fields: Mapping[str, str] = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)  # at most `Limits.oauth_document` bytes


@attrs.frozen
class Fetch(Step):
    """Send this HTTP request; the outcome is an `Answer` with any status.

    The shell checks the address before it connects. It may throw `UrlRefused`, and
    `AuthTemporarilyUnavailable` if there is no response.
    """

    what: str  # the name in error messages, such as "the token endpoint"
    url: str = attrs.field(repr=False)
    form: tuple[tuple[str, str], ...] | None = attrs.field(default=None, repr=False)
    # The body as a JSON object.
    document: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    # In addition to the body's; lower case.
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    may_redirect: bool = False  # within the URL's origin; for metadata only

    @property
    def is_post(self) -> bool:
        """Whether the request has a body."""
        return self.form is not None or self.document is not None


@attrs.frozen
class Listen(Step):
    """Listen for the browser until the operation ends; the outcome is the redirect URI.

    The port of the preferred redirect URI is used if it is free.
    """

    preferred: str | None = None


@attrs.frozen
class AuthorizeUser(Step):
    """Send the user to this validated URL; the outcome is the response's parameters.

    A response without the state is ignored. The shell may throw `AuthRequired` if no
    user may be asked, and `ConsentDenied` if no response came in time.
    """

    url: str = attrs.field(repr=False)
    state: str = attrs.field(repr=False)
    redirect_uri: str
    scopes: tuple[str, ...]


@attrs.frozen
class CallFunction(Step):
    """Call a function of the user; the outcome is the string that it returns."""

    function: Any
    what: str  # the name in error messages


@attrs.frozen
class ReadClock(Step):
    """Read the wall clock; the outcome is the time in seconds since 1970."""


@attrs.frozen
class RandomBytes(Step):
    """Generate random bytes; the outcome is `count` bytes from the system's source."""

    count: int


@attrs.frozen
class GenerateKey(Step):
    """Generate a private key for proofs of possession; the outcome is a JWK."""


@attrs.frozen
class Sleep(Step):
    """Wait for this many seconds."""

    seconds: float


@attrs.frozen
class Load(Step):
    """Load the stored credential; the outcome is its `Record`, or ``None``."""


@attrs.frozen
class Save(Step):
    """Replace the record that was loaded last; the outcome is whether it was stored.

    False: the store has changed since the load. Load it and decide again.
    """

    record: Record


@attrs.frozen
class Delete(Step):
    """Delete the record loaded last and the pending login; outcome as for `Save`."""


@attrs.frozen
class SavePending(Step):
    """Replace the pending login that was loaded last; outcome as for `Save`."""

    pending: PendingLogin = attrs.field(repr=False)


@attrs.frozen
class LoadPending(Step):
    """Load the pending login; the outcome is the login or ``None``.

    It is removed from the store if it has the state of the response, if one is given.
    """

    state: str | None = attrs.field(default=None, repr=False)


@attrs.frozen
class AcquireLease(Step):
    """Acquire the exclusive right, among all users of the store, to refresh tokens.

    The outcome is whether the lease was acquired; it expires after these seconds.
    """

    seconds: float


@attrs.frozen
class ReleaseLease(Step):
    """Release the lease."""


Steps: TypeAlias = Generator[Step, Any, T]
"""An operation: a generator that yields steps, receives outcomes, returns a result."""


# Answer parsing. The text of an answer is not trusted: it may repeat secrets, or hold
# terminal escapes. Only codes, short and printable, appear in messages.

# RFC 6749 section 5.2 allows more characters; these suffice for codes, also for URIs as
# extensions, and cannot form a sentence.
_CODE: Final = re.compile(r"[A-Za-z0-9_.:/\-]{1,64}")
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_MAX_DESCRIPTION_CHARS: Final = 200
_MIN_SECRET_CHARS: Final = 6  # a shorter one could be part of a word
# Statuses below 500 that are temporary too (RFC 9110, RFC 8470, RFC 6585).
_TEMPORARY_STATUSES: Final = frozenset({408, 425, 429})


def check_available(answer: Answer, what: str, now: float) -> None:
    """Raise `AuthTemporarilyUnavailable` if the status is a temporary failure."""
    if answer.status >= 500 or answer.status in _TEMPORARY_STATUSES:
        raise AuthTemporarilyUnavailable(
            f"{what} cannot answer now (HTTP {answer.status})",
            retry_after=parse_retry_after(answer.fields.get("retry-after"), now),
            status=answer.status,
        )


def describe(answer: Answer) -> str:
    """Return the status, length and content type of an answer, for messages."""
    kind = media_type(answer.fields.get("content-type"))
    kind = kind if _CODE.fullmatch(kind) else "no content type"
    return f"HTTP {answer.status}, {len(answer.body)} bytes, {kind}"


def read_code(value: object) -> str | None:
    """Return an error code if messages may show it, or ``None``."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def read_description(value: object, secrets: Iterable[str] = ()) -> str | None:
    """Return an error's description in printable characters, with secrets masked."""
    if not isinstance(value, str) or not value.strip():
        return None
    for secret in secrets:
        if len(secret) >= _MIN_SECRET_CHARS:
            value = value.replace(secret, "***")
    text = _UNPRINTABLE.sub("?", value).strip()
    is_long = len(text) > _MAX_DESCRIPTION_CHARS
    return f"{text[:_MAX_DESCRIPTION_CHARS]}..." if is_long else text
