"""What a store is, and the one that lasts as long as its process.

Everything a store does is small and whole: a value is there or not, and changes only
where nobody else has changed it since it was read. The lease says who asks the
authorization server; whoever dies with it blocks nobody for longer than it lasts.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Protocol

from mcpwire.errors import AuthError
from mcpwire.transports._affinity import let_go_after_fork

__all__ = ["MemoryStorage", "Storage", "StorageError"]


class StorageError(AuthError):
    """Credentials can be neither read nor kept.

    Attributes:
        path: The file.
    """

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class Storage(Protocol):
    """What keeps credentials; write your own to keep them elsewhere.

    The methods are plain functions and may be called from any thread. A version is 0
    for what is not stored, and for what is a number that was no version before. A key
    may hold a secret, where the URL of the server does.
    """

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return what is stored, and its version."""

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Store that in place of what has this version; return the new version.

        ``None`` as a value removes it. Returns ``None``, and changes nothing, where
        somebody else has changed it.
        """

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let the owner be the only one for so long; return whether it is.

        Whoever has the lease may have it again.
        """

    def release(self, key: str, owner: str) -> None:
        """End the lease, if it is that owner's."""

    def keys(self) -> list[str]:
        """Return what is stored, in order."""


class MemoryStorage:
    """Keeps credentials for as long as it is there; good for one process."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._values: dict[str, tuple[bytes, int]] = {}
        self._changes = 0
        self._leases: dict[str, tuple[str, float]] = {}
        let_go_after_fork(self)

    def __repr__(self) -> str:
        """Return one line without anything that is stored."""
        return f"<{type(self).__name__} {len(self.keys())} credentials>"

    def forked(self) -> None:
        """Go on in a child: the thread that holds the lock may be the parent's."""
        self._mutex = threading.Lock()

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return what is stored, and its version."""
        with self._mutex:
            return self._values.get(key, (None, 0))

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Store that in place of what has this version; see `Storage.save`."""
        with self._mutex:
            if self._values.get(key, (None, 0))[1] != version:
                return None
            if value is None:
                self._values.pop(key, None)
                return 0
            self._changes += 1
            self._values[key] = (value, self._changes)
            return self._changes

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let the owner be the only one for so long; see `Storage.lease`."""
        now = monotonic()
        with self._mutex:
            held = self._leases.get(key)
            if held is not None and held[0] != owner and now < held[1]:
                return False
            self._leases[key] = (owner, now + seconds)
            return True

    def release(self, key: str, owner: str) -> None:
        """End the lease, if it is that owner's."""
        with self._mutex:
            if self._leases.get(key, ("",))[0] == owner:
                del self._leases[key]

    def keys(self) -> list[str]:
        """Return what is stored, in order."""
        with self._mutex:
            return sorted(self._values)
