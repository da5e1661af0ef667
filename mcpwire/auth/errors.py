"""Authorization errors, one class for each reaction that a caller can have.

No message contains a token, a code, a secret or the query of a URL. The only text of an
authorization server in a message is a short error code.
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
    """A user has to log in, and this client may not ask a user.

    Attributes:
        url: The whole authorization URL of the login, if known. It is for the user
            only; the message does not contain it.
        scopes: The scopes that the login requests.
    """

    def __init__(
        self, message: str, *, url: str | None = None, scopes: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.url = url
        self.scopes = tuple(scopes)


class InsufficientScope(AuthRequired):
    """The server requires scopes that the token does not have.

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
        description: The text of the server, in printable characters.
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
        parameter: The wrong or missing parameter: ``state``, ``iss`` or ``code``.
    """

    def __init__(self, message: str, *, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


class DiscoveryError(AuthError):
    """The authorization server cannot be found, or its metadata is not acceptable.

    Attributes:
        tried: Each URL that was fetched and the outcome, in order, without queries.
    """

    def __init__(self, message: str, *, tried: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.tried = tuple(tried)


class _RefusedError(AuthError):
    """The errors of an endpoint that answers with an error code."""

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


class RegistrationError(_RefusedError):
    """The authorization server does not register this client, or it belongs to another.

    Attributes:
        error: The code of RFC 7591 section 3.2.2, if the server sent one.
        description: The text of the server, in printable characters.
        status: The HTTP status, if the server answered.
    """


class TokenError(_RefusedError):
    """The token endpoint refused, or its response contains no usable token.

    Attributes:
        error: The code of RFC 6749 section 5.2, such as ``invalid_grant``.
        description: The text of the server, in printable characters.
        status: The HTTP status.
    """


class UrlRefused(AuthError):
    """A URL is refused: neither credentials nor a user may be sent there.

    Attributes:
        url: The URL, its secrets masked.
        rule: The rule that the URL breaks, as one clause.
    """

    def __init__(self, message: str, *, url: str, rule: str) -> None:
        super().__init__(message)
        self.url = url
        self.rule = rule


class AuthTemporarilyUnavailable(AuthError):
    """The authorization server cannot answer now; the stored credentials are kept.

    Attributes:
        retry_after: The delay in seconds that the server asked for, if any.
        status: The HTTP status, if the server answered.
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
