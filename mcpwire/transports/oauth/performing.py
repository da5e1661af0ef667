"""What the steps of an authorization take beside requests."""

from __future__ import annotations

import copy
import os
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl

from mcpwire.auth import steps
from mcpwire.auth.errors import AuthTemporarilyUnavailable, ConsentDenied
from mcpwire.errors import MCPError
from mcpwire.transports.oauth.browser import open_browser
from mcpwire.transports.oauth.receiver import LoopbackReceiver

if TYPE_CHECKING:
    from mcpwire.auth.config import OAuth

__all__ = [
    "QUICK",
    "Desk",
    "keeps_on",
    "quick",
    "raise_again",
    "returned_parameters",
    "supplied",
    "too_late",
]


class Desk:
    """Where a user is asked, and comes back to; closed when the operation ends."""

    def __init__(self, grant: OAuth) -> None:
        self._grant = grant
        self.receiver: LoopbackReceiver | None = None

    def listen(self, preferred: str | None) -> str:
        """Listen for the way back; return the redirect URI."""
        self.receiver = LoopbackReceiver(
            port=self._grant.callback_port, preferred=preferred
        )
        return self.receiver.redirect_uri

    def show(self, url: str, server: Any) -> None:
        """Show the user where to log in.

        Raises:
            ConsentDenied: There is nobody to show it to.
        """
        grant = self._grant
        if grant.on_url is not None:
            grant.on_url(url)
        is_open = False
        if callable(grant.open_browser):
            grant.open_browser(url)
            is_open = True
        elif grant.open_browser:
            is_open = open_browser(url, server=server)
        if not is_open and grant.on_url is None:
            raise ConsentDenied(
                "no browser can be opened here: pass on_url= to show the URL yourself, "
                "or interactive=False",
                error="interaction_required",
            )

    def close(self) -> None:
        """Listen no more."""
        if self.receiver is not None:
            self.receiver.close()


def too_late(seconds: float | None) -> ConsentDenied:
    """Build the error for a user who does not come back."""
    return ConsentDenied(
        f"nobody came back from logging in within {seconds:g} s", error="timeout"
    )


def returned_parameters(returned: Any) -> dict[str, str]:
    """Return the parameters of the URL that a user came back to.

    Raises:
        ConsentDenied: It is neither a URL with parameters nor a mapping of them.
    """
    if isinstance(returned, str):
        query = returned.partition("#")[0].partition("?")[2]
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=64)
        except ValueError as error:
            raise ConsentDenied(
                "the URL that the user came back to has too many parameters",
                error="invalid_request",
            ) from error
        # What stands there twice says nothing (RFC 6749 section 3.1).
        names = [name for name, _ in pairs]
        return {name: value for name, value in pairs if names.count(name) == 1}
    if isinstance(returned, dict):
        return {str(name): str(value) for name, value in returned.items()}
    raise ConsentDenied(
        "ask must return the URL that the user came back to, got "
        f"{type(returned).__name__}",
        error="invalid_request",
    )


def raise_again(error: BaseException) -> NoReturn:
    """Raise an error for one of those who waited for the same.

    Each gets one of our own for itself. What a function of the user's raised may be of
    a class that cannot be copied.
    """
    if isinstance(error, MCPError):
        raise copy.copy(error) from error
    raise error


def supplied(value: object, what: str) -> str:
    """Return what a function of the user's gave, if it can be used.

    Raises:
        AuthTemporarilyUnavailable: It gave nothing.
    """
    if not isinstance(value, str) or not value.strip():
        raise AuthTemporarilyUnavailable(
            f"{what}: the function gave {type(value).__name__}, not a text"
        )
    return value.strip()


def keeps_on(step: steps.Step, before: bool) -> bool:  # noqa: FBT001 - a fold over steps
    """Tell whether an operation must not be broken off from this step on.

    What is posted spends something: a refresh token that rotates, a code, a place in
    the register. Whoever breaks off before the answer is stored has lost it for good.

    Args:
        step: What is performed next.
        before: Whether it was so before.
    """
    if type(step) is steps.Fetch:
        return step.form is not None or step.document is not None
    return before and type(step) in _BETWEEN


_BETWEEN: Final = frozenset(
    {steps.RandomBytes, steps.Load, steps.Now, steps.Release, steps.Save}
)
"""What stands between an answer and its place in the store, which others wait for."""

QUICK: Final = frozenset({steps.RandomBytes, steps.Listen, steps.NewKey, steps.Now})
"""Steps that wait for nothing."""


def quick(step: steps.Step, desk: Desk | None) -> Any:
    """Perform one of them."""
    if type(step) is steps.Listen:
        assert desk is not None, "nobody is asked"
        return desk.listen(step.preferred)
    if type(step) is steps.Now:
        return wall_time()
    if type(step) is steps.RandomBytes:
        return os.urandom(step.count)
    from mcpwire.auth.jwt import new_key

    assert type(step) is steps.NewKey
    return new_key()
