"""One request of authorization, its answer, and what can be wrong with it.

Nothing that goes into a message holds a query, a body or a header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    DiscoveryError,
    RegistrationError,
    TokenError,
)
from mcpwire.auth.steps import Answer
from mcpwire.errors import MessageTooLarge, RemoteProtocolError
from mcpwire.protocol.http.heads import USER_AGENT, field_line
from mcpwire.protocol.http.request import Request
from mcpwire.wire.json import encode
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from mcpwire.auth.steps import Fetch
    from mcpwire.errors import AuthError, MCPError
    from mcpwire.limits import Limits
    from mcpwire.wire.urls import Url

__all__ = ["Document", "failure", "is_post", "request_of", "too_late"]


class Document:
    """What an engine feeds with an answer: kept as far as it is not too large."""

    def __init__(self, step: Fetch, limits: Limits) -> None:
        self._step = step
        self._limits = limits
        self._status = 0
        self._fields: dict[str, str] = {}
        self._body = bytearray()
        self.is_over = False

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head."""
        self._status = status
        self._fields = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in fields.items()
        }

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the body.

        Raises:
            AuthError: They are too many for a document.
        """
        self._body += chunk
        if len(self._body) <= self._limits.oauth_document:
            return
        del self._body[self._limits.oauth_document :]
        self.is_over = True
        if self._status < 300:
            raise _unusable(
                self._step,
                f"is over the limit of {self._limits.oauth_document} bytes",
                self._status,
            )

    def end(self) -> None:
        """Take note that the body is complete."""
        self.is_over = True

    def out_of_time(self, now: float) -> MCPError:
        """Build the error for a deadline that has passed."""
        return too_late(self._step, self._limits)

    def answer(self) -> Answer:
        """Return what came."""
        return Answer(self._status, self._fields, bytes(self._body))


def is_post(step: Fetch) -> bool:
    """Tell whether a request has a body."""
    return step.form is not None or step.document is not None


def request_of(step: Fetch, url: Url) -> Request:
    """Return the request for a document at a URL."""
    body: bytes | None = None
    fields = {
        "host": url.authority,
        "user-agent": USER_AGENT,
        "accept": "application/json",
        "accept-encoding": "identity",
    }
    if step.form is not None:
        body = urlencode(step.form).encode("ascii")
        fields["content-type"] = "application/x-www-form-urlencoded"
    elif step.document is not None:
        body = encode(dict(step.document))
        fields["content-type"] = "application/json"
    fields |= dict(step.headers)
    lines = [field_line(name, value) for name, value in fields.items()]
    verb = "GET" if body is None else "POST"
    return Request(
        f"{verb} {url.target} HTTP/1.1\r\n".encode("ascii") + b"".join(lines), body
    )


def too_late(step: Fetch, limits: Limits) -> AuthTemporarilyUnavailable:
    """Build the error for a fetch that takes too long."""
    return AuthTemporarilyUnavailable(
        f"{step.what} at '{mask_url(step.url)}' did not answer within "
        f"{limits.oauth_timeout:g} s"
    )


def failure(step: Fetch, error: MCPError) -> AuthError:
    """Return what an engine's error means for a fetch."""
    if isinstance(error, MessageTooLarge):
        return _unusable(step, f"cannot be used: {error}", None)
    if isinstance(error, RemoteProtocolError):
        # What it says may quote what came, and that may quote what was sent.
        return _unusable(step, "cannot be used: it is not acceptable HTTP", None)
    return AuthTemporarilyUnavailable(
        f"{step.what} at '{mask_url(step.url)}' gives no answer: {error}"
    )


def _unusable(step: Fetch, why: str, status: int | None) -> AuthError:
    """Build the error for an answer that is none."""
    message = f"the answer of {step.what} at '{mask_url(step.url)}' {why}"
    if step.form is not None:
        return TokenError(message, status=status)
    if step.document is not None:
        return RegistrationError(message, status=status)
    return DiscoveryError(message, tried=((mask_url(step.url), why),))
