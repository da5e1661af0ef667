"""The errors of authorization, one class for each thing a caller can do about them.

No message holds a token, a code, a secret or the query of a URL. Of the text of an
authorization server it holds a short excerpt of an error code at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.errors import AuthError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AuthRequired",
    "AuthTemporarilyUnavailable",
    "ConsentDenied",
    "DiscoveryError",
    "InsufficientScope",
    "RegistrationError",
    "ResponseRefused",
    "TokenError",
    "UrlRefused",
]


class AuthRequired(AuthError):
    """A user has to log in, and this client may not ask one.

    Attributes:
        url: The whole authorization URL to log in at, if there is one. It is meant for
            the user alone, and stays out of the message.
        scopes: The scopes that would be asked for.
    """

    def __init__(
        self, message: str, *, url: str | None = None, scopes: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.url = url
        self.scopes = tuple(scopes)


class InsufficientScope(AuthRequired):
    """The server wants scopes that the token lacks, and they are not granted.

    Attributes:
        required: The scopes that the server named.
    """

    def __init__(
        self,
        message: str,
        *,
        required: Sequence[str] = (),
        url: str | None = None,
        scopes: Sequence[str] = (),
    ) -> None:
        super().__init__(message, url=url, scopes=scopes)
        self.required = tuple(required)


class ConsentDenied(AuthError):
    """The authorization server sent the user back without a code.

    Attributes:
        error: The code of RFC 6749 section 4.1.2.1, such as ``access_denied``.
        description: The text that the server added, in printable characters.
    """

    def __init__(
        self, message: str, *, error: str, description: str | None = None
    ) -> None:
        super().__init__(message)
        self.error = error
        self.description = description


class ResponseRefused(AuthError):
    """The browser's response does not belong to the request; it was discarded.

    Attributes:
        parameter: The one that is wrong: ``state``, ``iss`` or ``code``.
    """

    def __init__(self, message: str, *, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


class DiscoveryError(AuthError):
    """The authorization server cannot be found, or its metadata must not be believed.

    Attributes:
        tried: Each URL that was asked and the outcome, in order, without queries.
    """

    def __init__(self, message: str, *, tried: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.tried = tuple(tried)


class RegistrationError(AuthError):
    """The authorization server does not know this client, and does not register it.

    Attributes:
        error: The code of RFC 7591 section 3.2.2, where there is one.
        status: The HTTP status, where there was an answer.
    """

    def __init__(
        self, message: str, *, error: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.error = error
        self.status = status


class TokenError(AuthError):
    """The token endpoint refused, or its answer holds no usable token.

    Attributes:
        error: The code of RFC 6749 section 5.2, such as ``invalid_grant``.
        description: The text that the server added, in printable characters.
        status: The HTTP status.
    """

    def __init__(
        self,
        message: str,
        *,
        error: str | None = None,
        description: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.error = error
        self.description = description
        self.status = status


class UrlRefused(AuthError):
    """A URL that neither credentials nor a user may be sent to.

    Attributes:
        url: The URL without its secrets.
        rule: The rule that it breaks, as one clause.
    """

    def __init__(self, message: str, *, url: str, rule: str) -> None:
        super().__init__(message)
        self.url = url
        self.rule = rule


class AuthTemporarilyUnavailable(AuthError):
    """The authorization server cannot answer now; all that is stored is kept.

    Attributes:
        retry_after: The seconds that the server asked to wait, if it did.
        status: The HTTP status, if there was an answer.
    """

    is_passing = True

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
