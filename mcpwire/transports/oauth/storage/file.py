"""Credentials in one SQLite file, shared by all processes of a user.

The file is opened for each transaction and closed after it. So no connection is taken
along over a fork, none is left open by a thread that has ended, and a file that was
removed or replaced is noticed at once.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.transports.oauth.storage.base import StorageError
from mcpwire.transports.oauth.storage.private import (
    default_path,
    identity,
    make_private,
    only_one,
)

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Mapping
    from types import ModuleType

__all__ = ["FileStorage"]

T = TypeVar("T")

logger = logging.getLogger("mcpwire")

BUSY_S: Final = 10.0
"""How long another process may take for a transaction, which has a few rows."""

SLACK_S: Final = 1.0
"""By how much a clock may be set back without a lease coming to nothing."""

ATTEMPTS: Final = 3
"""How often a file is opened that another one takes the place of meanwhile."""

VERSION: Final = 1
"""Of the tables; a file with another one is not ours to change."""

TABLES: Final[Mapping[str, str]] = {
    "credential": "key text primary key, version integer not null, value blob not null",
    "lease": "key text primary key, owner text not null, begun real, ends real",
    # What is removed leaves nothing behind, and no version comes twice all the same.
    "change": "id integer primary key, number integer not null",
}

BROKEN: Final = frozenset({11, 26})
"""SQLITE_CORRUPT and SQLITE_NOTADB."""

FILES: Final = ("-journal", "-wal", "-shm", "")
"""What SQLite keeps beside a file, and at last the file itself: what is left of one
database must never be played back into another."""


class FileStorage:
    """Keeps credentials in one SQLite file that only this user can read.

    Without a path it is ``mcpwire/credentials.sqlite`` in the user's state folder
    (``$XDG_STATE_HOME``, else ``~/.local/state``; on macOS ``~/Library/Application
    Support``, on Windows ``%LOCALAPPDATA%``). Its transactions are the lock, so several
    processes may share it.

    Where the file cannot be used, that is logged once and nothing is read from it: the
    user logs in again, and that login lasts as long as this object. A file that is no
    database any more is set aside under another name with a warning.

    Raises:
        StorageError: No path is given, and nothing says where this user's files are.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._is_default = path is None
        try:
            # Absolute, as a program may go to another folder.
            given = Path(path).expanduser() if path is not None else default_path()
            self.path = given.absolute()
        except (FileNotFoundError, RuntimeError) as error:
            raise StorageError(
                f"cannot tell where credentials are to be kept ({error}): give a "
                "storage, or its path"
            ) from error
        self._unsaved: dict[str, tuple[bytes, int]] = {}
        """What could not be stored, and the version it was to take the place of."""
        self._complaint: str | None = None

    def __repr__(self) -> str:
        """Return one line without anything that is stored."""
        return f"{type(self).__name__}({str(self.path)!r})"

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return what is stored, and its version; nothing where it cannot be read.

        A user who has to log in again is better off than one who cannot.
        """
        unsaved = self._unsaved.get(key)
        try:
            found = self._run(_load, key, reads=True)
        except StorageError as error:
            self._complain(error)
            return unsaved or (None, 0)
        if unsaved is None or unsaved[1] == found[1]:
            return unsaved or found
        self._unsaved.pop(key, None)  # somebody has stored something newer
        return found

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Store that in place of what has this version; see `Storage.save`.

        What cannot be stored is kept in memory, and that is logged.

        Raises:
            StorageError: It was to be removed, and that cannot be done.
        """
        try:
            saved = self._run(_save, key, value, version)
        except StorageError as error:
            if value is None:
                self._unsaved.pop(key, None)
                raise
            self._complain(error)
            self._unsaved[key] = (value, version)
            return version
        self._unsaved.pop(key, None)
        return saved

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let the owner be the only one for so long; see `Storage.lease`.

        Where nothing can be stored nothing is shared, either: then everybody may.
        """
        try:
            return self._run(_lease, key, owner, seconds)
        except StorageError as error:
            self._complain(error)
            return True

    def release(self, key: str, owner: str) -> None:
        """End the lease, if it is that owner's."""
        with contextlib.suppress(StorageError):  # then it ends by itself
            self._run(_release, key, owner)

    def keys(self) -> list[str]:
        """Return what is stored, in order.

        Raises:
            StorageError: It cannot be read.
        """
        return sorted({*self._run(_keys, reads=True), *self._unsaved})

    def _complain(self, error: StorageError) -> None:
        """Say what is wrong, once, until something was stored again."""
        if self._complaint != str(error):
            self._complaint = str(error)
            logger.warning("%s: nothing of it is used, and logins are not kept", error)

    # The file...

    def _run(self, work: Callable[..., T], *given: Any, reads: bool = False) -> T:
        """Do all of it or nothing, and nobody else anything meanwhile.

        Raises:
            StorageError: The file cannot be used.
        """
        try:
            import sqlite3
        except ImportError as error:
            raise self._failed("this Python comes without sqlite3") from error
        attempt = 1
        while True:
            found = None
            try:
                if reads and identity(self.path) is None:
                    return work(None, *given)
                make_private(self.path, is_ours=self._is_default)
                found = identity(self.path)
                outcome = self._transact(sqlite3, work, given, reads=reads)
            except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
                self._mend(error, found, is_last=attempt == ATTEMPTS)
                attempt += 1
            else:
                if not reads:
                    self._complaint = None
                return outcome

    def _transact(
        self, library: ModuleType, work: Callable[..., T], given: Any, *, reads: bool
    ) -> T:
        # Mode rw: a file that SQLite makes is for everybody to read.
        connection = library.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
        )
        # What is closed in the middle of a transaction is rolled back.
        with contextlib.closing(connection) as database:
            # Tokens that were replaced or removed must not stay in free pages.
            database.execute("pragma secure_delete = on").fetchall()
            self._set_up(database)
            database.execute("begin" if reads else "begin immediate")
            outcome = work(database, *given)
            database.execute("commit")
        return outcome

    def _set_up(self, database: sqlite3.Connection) -> None:
        """Make the tables, where nobody has made any.

        Raises:
            StorageError: It is a database of something else.
        """
        if _version(database) == VERSION:
            return
        database.execute("begin immediate")
        version = _version(database)  # somebody may have been quicker
        tables = database.execute("select count(*) from sqlite_master").fetchone()
        if (version, *tables) == (0, 0):
            for name, columns in TABLES.items():
                database.execute(f"create table {name} ({columns})")
            database.execute(f"pragma user_version = {VERSION}")
        elif version != VERSION:
            raise self._failed("it is another program's, or a newer mcpwire's")
        database.execute("commit")

    # ... and what can be wrong with it.

    def _mend(
        self, error: Exception, found: tuple[int, int] | None, *, is_last: bool
    ) -> None:
        """Return where it may be tried once more.

        Raises:
            StorageError: It may not.
        """
        is_broken = getattr(error, "sqlite_errorcode", 0) & 0xFF in BROKEN
        try:
            is_same = identity(self.path) == found
            if is_last or (is_same and not is_broken):
                raise self._failed(error) from error
            if is_same and found is not None:
                self._set_aside(found, error)
        except OSError as other:
            raise self._failed(other) from other

    def _failed(self, error: Exception | str) -> StorageError:
        reason = error.strerror if isinstance(error, OSError) else None
        path = str(self.path)
        return StorageError(
            f"cannot use {path!r} for credentials: {reason or error}", path=path
        )

    def _set_aside(self, broken: tuple[int, int], error: Exception) -> None:
        """Give a broken file another name, unless somebody else just did."""
        name = f"{self.path.name}.broken-{int(wall_time())}-{broken[1]}"
        with only_one(self.path.parent, BUSY_S):
            if identity(self.path) != broken:
                return
            for suffix in FILES:
                with contextlib.suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + suffix).rename(
                        self.path.with_name(name + suffix)
                    )
        logger.warning(
            "%r is no credential file any more (%s): it is kept as %r, and whatever "
            "was in it has to be logged in for anew",
            str(self.path),
            error,
            name,
        )


# What is done in a transaction; there is no database where there is no file to read.


def _version(database: sqlite3.Connection) -> int:
    found: int = database.execute("pragma user_version").fetchone()[0]
    return found


def _load(database: sqlite3.Connection | None, key: str) -> tuple[bytes | None, int]:
    if database is None:
        return None, 0
    row = database.execute(
        "select value, version from credential where key = ?", (key,)
    ).fetchone()
    return (None, 0) if row is None else (row[0], row[1])


def _save(
    database: sqlite3.Connection, key: str, value: bytes | None, version: int
) -> int | None:
    if _load(database, key)[1] != version:
        return None
    if value is None:
        database.execute("delete from credential where key = ?", (key,))
        return 0
    row = database.execute("select number from change").fetchone()
    number: int = 1 if row is None else row[0] + 1
    database.execute("insert or replace into change values (0, ?)", (number,))
    database.execute(
        "insert or replace into credential values (?, ?, ?)", (key, number, value)
    )
    return number


def _lease(database: sqlite3.Connection, key: str, owner: str, seconds: float) -> bool:
    now = wall_time()
    row = database.execute(
        "select owner, begun, ends from lease where key = ?", (key,)
    ).fetchone()
    # One that begins in the future was made before the clock was set back.
    if row is not None and row[0] != owner and row[1] - SLACK_S <= now < row[2]:
        return False
    database.execute("delete from lease where ends <= ?", (now,))
    database.execute(
        "insert or replace into lease values (?, ?, ?, ?)",
        (key, owner, now, now + seconds),
    )
    return True


def _release(database: sqlite3.Connection, key: str, owner: str) -> None:
    database.execute("delete from lease where key = ? and owner = ?", (key, owner))


def _keys(database: sqlite3.Connection | None) -> list[str]:
    if database is None:
        return []
    rows = database.execute("select key from credential")
    return [row[0] for row in rows]
