"""Where credentials are kept between runs, and who may ask for new ones.

Everything a store does is small and whole: a value is there or not, and changes only
where nobody else has changed it since it was read. The lease says who asks the
authorization server; whoever dies with it blocks nobody for longer than it lasts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
import sys
import threading
from pathlib import Path
from time import time as wall_time
from typing import TYPE_CHECKING, Final, Protocol

from mcpwire.errors import AuthError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FileStorage", "MemoryStorage", "Storage", "StorageError"]

logger = logging.getLogger("mcpwire")

BUSY_S: Final = 10.0
"""How long another process may take for a transaction, which has a few rows."""

SCHEMA: Final = """
create table if not exists credential (
    key text primary key, version integer not null, value blob
) without rowid;
create table if not exists lease (
    key text primary key, owner text not null, begun real not null, ends real not null
) without rowid;
"""


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
    for what was never stored, and another number after each change.
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
        self._values: dict[str, tuple[bytes | None, int]] = {}
        self._leases: dict[str, tuple[str, float, float]] = {}

    def __repr__(self) -> str:
        """Return one line without anything that is stored."""
        return f"<{type(self).__name__} {len(self.keys())} credentials>"

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return what is stored, and its version."""
        with self._mutex:
            return self._values.get(key, (None, 0))

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Store that in place of what has this version; see `Storage.save`."""
        with self._mutex:
            if self._values.get(key, (None, 0))[1] != version:
                return None
            self._values[key] = (value, version + 1)
            return version + 1

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let the owner be the only one for so long; see `Storage.lease`."""
        now = wall_time()
        with self._mutex:
            held = self._leases.get(key)
            if held is not None and held[0] != owner and held[1] <= now < held[2]:
                return False
            self._leases[key] = (owner, now, now + seconds)
            return True

    def release(self, key: str, owner: str) -> None:
        """End the lease, if it is that owner's."""
        with self._mutex:
            if self._leases.get(key, ("",))[0] == owner:
                del self._leases[key]

    def keys(self) -> list[str]:
        """Return what is stored, in order."""
        with self._mutex:
            stored = [key for key, (value, _) in self._values.items() if value]
        return sorted(stored)


class FileStorage:
    """Keeps credentials in one SQLite file that only this user can read.

    Without a path it is ``mcpwire/credentials.sqlite`` in the user's state folder
    (``$XDG_STATE_HOME``, else ``~/.local/state``; on macOS ``~/Library/Application
    Support``, on Windows ``%LOCALAPPDATA%``). Its transactions are the lock, so several
    processes may share it.

    A file that is no database any more is set aside under another name with a warning,
    and what was in it has to be logged in for anew.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._local = threading.local()

    def __repr__(self) -> str:
        """Return one line without anything that is stored."""
        return f"{type(self).__name__}({str(self.path)!r})"

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return what is stored, and its version; nothing where it cannot be read.

        A user who has to log in again is better off than one who cannot.
        """
        try:
            with self._transaction() as database:
                row = database.execute(
                    "select value, version from credential where key = ?", (key,)
                ).fetchone()
        except StorageError as error:
            logger.warning("%s: nothing of it is used", error)
            return None, 0
        return (None, 0) if row is None else (row[0], row[1])

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Store that in place of what has this version; see `Storage.save`.

        Raises:
            StorageError: It cannot be stored.
        """
        with self._transaction() as database:
            row = database.execute(
                "select version from credential where key = ?", (key,)
            ).fetchone()
            if (row[0] if row is not None else 0) != version:
                return None
            database.execute(
                "insert into credential values (?, ?, ?) on conflict (key) do update "
                "set version = excluded.version, value = excluded.value",
                (key, version + 1, value),
            )
        return version + 1

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let the owner be the only one for so long; see `Storage.lease`.

        Where nothing can be stored nothing is shared, either: then everybody may.
        """
        now = wall_time()
        try:
            with self._transaction() as database:
                row = database.execute(
                    "select owner, begun, ends from lease where key = ?", (key,)
                ).fetchone()
                # One that begins in the future was made before the clock was set back.
                if row is not None and row[0] != owner and row[1] <= now < row[2]:
                    return False
                database.execute(
                    "insert or replace into lease values (?, ?, ?, ?)",
                    (key, owner, now, now + seconds),
                )
        except StorageError as error:
            logger.warning("%s: nobody is waited for", error)
        return True

    def release(self, key: str, owner: str) -> None:
        """End the lease, if it is that owner's."""
        with contextlib.suppress(StorageError), self._transaction() as database:
            database.execute(
                "delete from lease where key = ? and owner = ?", (key, owner)
            )

    def keys(self) -> list[str]:
        """Return what is stored, in order.

        Raises:
            StorageError: It cannot be read.
        """
        with self._transaction() as database:
            rows = database.execute(
                "select key from credential where value is not null order by key"
            ).fetchall()
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close the file as far as this thread has it open; it opens by itself."""
        database = getattr(self._local, "database", None)
        if database is not None:
            self._local.database = None
            database.close()

    # The file...

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Do all of it or nothing, and nobody else anything meanwhile.

        Raises:
            StorageError: The file cannot be used.
        """
        try:
            database = self._open()
            try:
                database.execute("begin immediate")
                yield database
            except BaseException:
                if database.in_transaction:
                    database.rollback()
                raise
            database.commit()
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StorageError:
        path = str(self.path)
        return StorageError(f"cannot use {path!r} for credentials: {error}", path=path)

    def _open(self) -> sqlite3.Connection:
        """Return this thread's connection; none is taken along over a fork."""
        database: sqlite3.Connection | None = getattr(self._local, "database", None)
        if database is not None and self._local.process == os.getpid():
            if self._local.file == _identity(self.path):
                return database
            database.close()  # removed, or put in place of another
        self._local.database = None
        make_private(self.path)
        self._local.database = database = self._connect()
        self._local.process = os.getpid()
        self._local.file = _identity(self.path)
        return database

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            database.executescript(f"begin immediate; {SCHEMA} commit;")
        except sqlite3.DatabaseError as error:
            database.close()
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._set_aside(error)
            return self._connect()
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self, error: Exception) -> None:
        broken = self.path.with_name(f"{self.path.name}.broken-{int(wall_time())}")
        logger.warning(
            "%s is no credential file any more (%s); it is kept as %s",
            self.path,
            error,
            broken.name,
        )
        self.path.replace(broken)
        make_private(self.path)


def default_path() -> Path:
    """Return where this user's credentials are kept."""
    home = Path.home()
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        given = os.environ.get("XDG_STATE_HOME") or ""
        # The XDG specification: a relative path is to be ignored.
        folder = Path(given) if Path(given).is_absolute() else home / ".local" / "state"
    return folder / "mcpwire" / "credentials.sqlite"


def make_private(path: Path) -> None:
    """Make the file and its folder for this user's eyes only, if they are not there.

    Raises:
        OSError: They cannot be made, or are not this user's own.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name != "posix":
        path.touch()
        return
    _check_own(path.parent, stat.S_ISDIR, 0o700)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))
    _check_own(path, stat.S_ISREG, 0o600)


def _check_own(path: Path, is_kind: object, mode: int) -> None:
    found = path.lstat()
    assert callable(is_kind)
    if not is_kind(found.st_mode):
        raise PermissionError(f"{str(path)!r} is not what it should be")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{str(path)!r} belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(mode)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
