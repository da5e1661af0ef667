"""What an authorization asks of the shell that drives it, step by step.

The shell sends back the outcome of each step, or throws the exception that stood in its
place. Only what is said beside each step may be thrown; whatever else goes wrong ends
the operation.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs

if TYPE_CHECKING:
    from mcpwire.auth.model import Pending, Record

__all__ = [
    "Answer",
    "Ask",
    "Draw",
    "Fetch",
    "Forget",
    "Keep",
    "Lease",
    "Listen",
    "Load",
    "NewKey",
    "Now",
    "Recall",
    "Release",
    "Save",
    "Sleep",
    "Step",
    "Steps",
    "Supply",
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
class Draw:
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
class Keep:
    """Store a login that somebody else finishes, in place of an earlier one."""

    pending: Pending

    def __repr__(self) -> str:
        """Show nothing that may hold a secret."""
        return "<Keep>"


@attrs.frozen
class Recall:
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
    | Draw
    | NewKey
    | Sleep
    | Load
    | Save
    | Forget
    | Keep
    | Recall
    | Lease
    | Release
)

Steps: TypeAlias = Generator[Step, Any, T]
"""An operation: yields steps, is sent their outcomes, and returns its own."""
