"""What the steps of an authorization take beside requests."""

from __future__ import annotations

import copy
import logging
import os
from contextlib import suppress
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import AuthTemporarilyUnavailable, ConsentDenied
from mcpwire.auth.records import (
    credential_key,
    dump,
    load,
    load_pending,
    pending_key,
)
from mcpwire.errors import MCPError
from mcpwire.transports.oauth.browser import open_browser
from mcpwire.transports.oauth.receiver import LoopbackReceiver
from mcpwire.transports.oauth.storage import (
    FileStorage,
    MemoryStorage,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.limits import Limits
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.storage import Storage

__all__ = [
    "QUICK",
    "Desk",
    "Vault",
    "keeps_on",
    "quick",
    "raise_again",
    "returned_parameters",
    "storage_of",
    "supplied",
    "too_late",
]

logger = logging.getLogger("mcpwire.oauth")

LEASE_MORE_S: Final = 10.0
"""By how much a lease outlasts the requests to an authorization server."""

KEEPS: Final = 5
"""How often somebody else's login, begun in the same moment, is overwritten."""


def storage_of(grant: Grant) -> Storage:
    """Return where the tokens of a grant are kept."""
    storage: Any = grant.storage
    if storage is None:
        storage = grant.kept
    if storage is None:
        storage = FileStorage() if isinstance(grant, OAuth) else MemoryStorage()
        # The same one for all connections that are made with it.
        object.__setattr__(grant, "kept", storage)
    chosen: Storage = storage
    return chosen


class Vault:
    """The store, as one operation sees it: it knows what it has loaded last."""

    def __init__(self, grant: Grant, target: Http, limits: Limits) -> None:
        self._storage = storage_of(grant)
        # It must outlast the requests it is for: one more for a nonce, and some time
        # for the store. Who believes too early that we have died sends the same token.
        self._lease_min = 2 * limits.oauth_timeout + LEASE_MORE_S
        whose = target.parsed.unmasked, grant.profile, type(grant).__name__
        self._key = credential_key(*whose)
        self._pending = pending_key(*whose)
        self._owner = os.urandom(16).hex()
        self._version = 0
        self._has_lease = False

    @property
    def is_quick(self) -> bool:
        """Whether it never waits for a disk."""
        return isinstance(self._storage, MemoryStorage)

    def perform(self, step: steps.Step) -> Any:
        """Perform a step that concerns the store; it may wait for a disk."""
        return _STORED[type(step)](self, step)

    def _load(self, step: Any) -> Any:
        data, self._version = self._storage.load(self._key)
        return None if data is None else load(data)

    def _save(self, step: Any) -> bool:
        return self._put(dump(step.record))

    def _forget(self, step: Any) -> bool:
        _, version = self._storage.load(self._pending)
        if version:  # it holds what is forgotten, too
            self._storage.save(self._pending, None, version)
        return self._put(None)

    def _put(self, data: bytes | None) -> bool:
        version = self._storage.save(self._key, data, self._version)
        if version is None:
            return False
        self._version = version
        return True

    def _keep(self, step: Any) -> None:
        data = dump(step.pending)
        for _ in range(KEEPS):  # the last one counts
            _, version = self._storage.load(self._pending)
            if self._storage.save(self._pending, data, version) is not None:
                return

    def _recall(self, step: Any) -> Any:
        data, version = self._storage.load(self._pending)
        if data is None:
            return None
        # It is good for one try; where it cannot be removed its code is good for one.
        with suppress(StorageError):
            if self._storage.save(self._pending, None, version) is None:
                return None
        return load_pending(data)

    def _lease(self, step: Any) -> bool:
        seconds = max(step.seconds, self._lease_min)
        self._has_lease = self._storage.lease(self._key, self._owner, seconds)
        return self._has_lease

    def _release(self, step: Any) -> None:
        self.release()

    def release(self) -> None:
        """Give the lease back, if it is had."""
        if self._has_lease:
            self._has_lease = False
            try:
                self._storage.release(self._key, self._owner)
            except Exception:  # the user's own store may raise any; what came counts
                logger.warning(
                    "a lease cannot be given back, and ends by itself", exc_info=True
                )


_STORED: Final[Mapping[type, Callable[[Vault, Any], Any]]] = {
    steps.Load: Vault._load,  # noqa: SLF001 - the table of this very class
    steps.Save: Vault._save,  # noqa: SLF001 - the table of this very class
    steps.Forget: Vault._forget,  # noqa: SLF001 - the table of this very class
    steps.SavePending: Vault._keep,  # noqa: SLF001 - the table of this very class
    steps.LoadPending: Vault._recall,  # noqa: SLF001 - the table of this very class
    steps.Lease: Vault._lease,  # noqa: SLF001 - the table of this very class
    steps.Release: Vault._release,  # noqa: SLF001 - the table of this very class
}


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
