"""Stores of credentials: the interface, a store in memory, and one in a private file.

A store replaces one value at a time, and only if no other writer has changed it since
it was read. A lease decides which process sends requests to the authorization server;
it expires if the process ends without releasing it.

`FileStorage` opens its SQLite file for each transaction and closes it afterwards, so
no connection is shared with a forked process or another thread, and a removed or
replaced file is detected at once. The file and its folder must be private to this user:
with write access to the folder, others could add a journal that SQLite would replay.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import sys
import threading
from hmac import compare_digest
from pathlib import Path
from time import monotonic, sleep
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.records import credential_key, dump, load, load_pending, pending_key
from mcpwire.errors import AuthError
from mcpwire.transports.base import register_after_fork

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self

    from mcpwire.auth.config import Grant
    from mcpwire.limits import Limits
    from mcpwire.transports.http.target import Http

T = TypeVar("T")

logger = logging.getLogger("mcpwire")
oauth_logger = logging.getLogger("mcpwire.oauth")

BUSY_TIMEOUT_S: Final = 10.0  # longest wait for another process's (short) transaction
LOCK_POLL_S: Final = 0.01  # pause between two tries to lock a folder
MAX_ATTEMPTS: Final = 3  # tries to open a file that other processes replace
CLOCK_SLACK_S: Final = 1.0  # if the clock is set back further, leases are ignored
LEASE_MARGIN_S: Final = 10.0  # time of a lease beyond that of its requests

VERSION: Final = 1  # of the tables; a file with another version is not changed

TABLES: Final[Mapping[str, str]] = {
    "credential": "key text primary key, version integer not null, value blob not null",
    "lease": "key text primary key, owner text not null, begun real, ends real",
    # The last version of all: versions must not repeat, even after rows are removed.
    "change": "id integer primary key, number integer not null",
}

BROKEN_CODES: Final = frozenset({11, 26})  # SQLITE_CORRUPT and SQLITE_NOTADB

# The suffixes of SQLite's files, that of the database last: no journal of an old
# database must remain that SQLite would replay into a new one.
FILE_SUFFIXES: Final = ("-journal", "-wal", "-shm", "")

IS_POSIX: Final = os.name == "posix"

# Errors of file systems on which folders cannot be locked.
NO_LOCK_ERRNOS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})

_FOLDERS: Final = {
    "darwin": ("Library", "Application Support"),
    "win32": ("AppData", "Local"),
}


class StorageError(AuthError):
    """Credentials cannot be read or stored.

    Attributes:
        path: The path of the file.
    """

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class Storage(Protocol):
    """The interface of a credential store; implement it to keep credentials elsewhere.

    The methods are plain functions and may be called from any thread. A key without a
    value has version 0; each save gives its value a number that was never a version
    before. A key may contain a secret if the server's URL does.
    """

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return the stored value and its version."""

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Replace the value if it has this version; return the new version.

        A value of ``None`` removes it. Returns ``None``, and does not change the store,
        if the stored version differs.
        """

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Acquire the key's only lease for an owner; return whether it has the lease.

        The lease expires after that many seconds. Its owner may extend it.
        """

    def release(self, key: str, owner: str) -> None:
        """End the lease if this owner has it."""

    def keys(self) -> list[str]:
        """Return the stored keys, sorted."""


class MemoryStorage:
    """A credential store in memory, for one process and the lifetime of the object."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._values: dict[str, tuple[bytes, int]] = {}
        self._changes = 0
        self._leases: dict[str, tuple[str, float]] = {}
        register_after_fork(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.keys())} credentials>"

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        """Pickle and copy it as an empty store: the credentials stay in this object."""
        return type(self), ()

    def after_fork(self) -> None:
        """Replace the mutex in a forked process: a parent's thread may hold it."""
        self._mutex = threading.Lock()

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return the stored value and its version."""
        with self._mutex:
            return self._values.get(key, (None, 0))

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Replace the value if it has this version; see `Storage.save`."""
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
        """Acquire the key's only lease for an owner; see `Storage.lease`."""
        now = monotonic()
        with self._mutex:
            current = self._leases.get(key)
            if current is not None and current[0] != owner and now < current[1]:
                return False
            self._leases[key] = (owner, now + seconds)
            return True

    def release(self, key: str, owner: str) -> None:
        """End the lease if this owner has it."""
        with self._mutex:
            if self._leases.get(key, ("",))[0] == owner:
                del self._leases[key]

    def keys(self) -> list[str]:
        """Return the stored keys, sorted."""
        with self._mutex:
            return sorted(self._values)


class FileStorage:
    """A credential store in one SQLite file that only this user can read.

    The default is ``mcpwire/credentials.sqlite`` in the user's state folder
    (``$XDG_STATE_HOME``, else ``~/.local/state``; on macOS ``~/Library/Application
    Support``, on Windows ``%LOCALAPPDATA%``). Several processes may share the file:
    each change is one transaction.

    If the file cannot be used, a warning is logged once and no value is read: the user
    must log in again, and the login is kept as long as this object. A file that is no
    longer a valid database is renamed, with a warning.

    Raises:
        StorageError: No path is given, and this user's state folder is unknown.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._is_default = path is None
        try:
            # Absolute, because a program may change its working directory.
            file = Path(path).expanduser() if path is not None else default_path()
            self.path = file.absolute()
        except (FileNotFoundError, RuntimeError) as error:
            raise StorageError(
                f"found no folder for credentials ({error}): give a "
                "storage, or its path"
            ) from error
        # Values that could not be stored, with the versions that they should replace.
        self._unsaved_values: dict[str, tuple[bytes, int]] = {}
        self._last_warning: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def load(self, key: str) -> tuple[bytes | None, int]:
        """Return the stored value and its version; (None, 0) if it cannot be read.

        The user can then log in again, which an error would prevent.
        """
        unsaved = self._unsaved_values.get(key)
        nothing: tuple[bytes | None, int] = (None, 0)
        try:
            stored = self._run(_load, key, missing=nothing)
        except StorageError as error:
            self._warn_once(error)
            return unsaved or nothing
        if unsaved is None or unsaved[1] == stored[1]:
            return unsaved or stored
        self._unsaved_values.pop(key, None)  # another process has stored a newer one
        return stored

    def save(self, key: str, value: bytes | None, version: int) -> int | None:
        """Replace the value if it has this version; see `Storage.save`.

        A value that cannot be stored is kept in memory, with a warning in the log.

        Raises:
            StorageError: The value cannot be removed.
        """
        try:
            saved = self._run(_save, key, value, version)
        except StorageError as error:
            if value is None:
                self._unsaved_values.pop(key, None)
                raise
            self._warn_once(error)
            self._unsaved_values[key] = (value, version)
            return version
        self._unsaved_values.pop(key, None)
        return saved

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Acquire the key's only lease for an owner; see `Storage.lease`.

        If the file cannot be used, processes share no tokens: every owner gets a lease.
        """
        try:
            return self._run(_lease, key, owner, seconds)
        except StorageError as error:
            self._warn_once(error)
            return True

    def release(self, key: str, owner: str) -> None:
        """End the lease if this owner has it."""
        with contextlib.suppress(StorageError):  # the lease then expires
            self._run(_release, key, owner)

    def keys(self) -> list[str]:
        """Return the stored keys, sorted.

        Raises:
            StorageError: The file cannot be read.
        """
        return sorted({*self._run(_keys, missing=list[str]()), *self._unsaved_values})

    def _warn_once(self, error: StorageError) -> None:
        """Log an error once until a transaction that writes succeeds again."""
        if self._last_warning != str(error):
            self._last_warning = str(error)
            logger.warning("%s; the file is not used, and logins are not stored", error)

    def _run(self, work: Callable[..., T], *args: Any, missing: T | None = None) -> T:
        """Run `work` in a transaction, and again if the file was replaced.

        If `work` only reads, `missing` is the result for a missing file.
        """
        try:
            import sqlite3
        except ImportError as error:
            raise self._error("this Python comes without sqlite3") from error
        attempt = 1
        while True:
            id_before = None
            try:
                if missing is not None and file_id(self.path) is None:
                    return missing
                make_folder(self.path.parent, is_ours=self._is_default)
                # Without the lock, another process could rename a broken file while it
                # is open here. SQLite would then take the new file's journal for that
                # of the old file, replay it into the old file, and remove it. A new
                # file needs the folder alone: to close it releases all locks that this
                # process has on it, those of SQLite as well.
                is_present = file_id(self.path) is not None
                with folder_lock(self.path.parent, BUSY_TIMEOUT_S, shared=is_present):
                    if is_present and file_id(self.path) is None:
                        continue  # set aside meanwhile
                    make_file(self.path)
                    id_before = file_id(self.path)
                    begin = "begin immediate" if missing is None else "begin"
                    outcome = self._transact(begin, work, args)
            except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
                self._recover(error, id_before, is_last=attempt == MAX_ATTEMPTS)
                attempt += 1
            else:
                if missing is None:
                    self._last_warning = None
                return outcome

    def _transact(self, begin: str, work: Callable[..., T], args: Any) -> T:
        import sqlite3

        # Mode rw creates no file: others could read a file that SQLite creates.
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
        )
        # Closing rolls back an open transaction.
        with contextlib.closing(connection) as database:
            # Replaced and removed tokens must not stay in free pages.
            database.execute("pragma secure_delete = on").fetchall()
            self._create_tables(database)
            database.execute(begin)
            outcome = work(database, *args)
            database.execute("commit")
        return outcome

    def _create_tables(self, database: sqlite3.Connection) -> None:
        """Create the tables in an empty database; refuse one with other tables."""
        if _version(database) == VERSION:
            return
        database.execute("begin immediate")
        version = _version(database)  # another process may have created them
        tables = database.execute("select count(*) from sqlite_master").fetchone()
        if (version, *tables) == (0, 0):
            for name, columns in TABLES.items():
                database.execute(f"create table {name} ({columns})")
            database.execute(f"pragma user_version = {VERSION}")
        elif version != VERSION:
            raise self._error("it belongs to another program or to a newer mcpwire")
        database.execute("commit")

    def _recover(
        self, error: Exception, id_before: tuple[int, int] | None, *, is_last: bool
    ) -> None:
        """Return if the transaction may be tried again, else raise `StorageError`."""
        is_broken = getattr(error, "sqlite_errorcode", 0) & 0xFF in BROKEN_CODES
        try:
            is_same = file_id(self.path) == id_before
            if is_last or (is_same and not is_broken):
                raise self._error(error) from error
            if is_same and id_before is not None:
                self._set_aside(id_before, error)
        except OSError as other:
            raise self._error(other) from other

    def _error(self, error: Exception | str) -> StorageError:
        reason = error.strerror if isinstance(error, OSError) else None
        path = str(self.path)
        return StorageError(
            f"cannot use {path!r} for credentials: {reason or error}", path=path
        )

    def _set_aside(self, broken_id: tuple[int, int], error: Exception) -> None:
        """Rename a broken file unless another process has just renamed it."""
        name = f"{self.path.name}.broken-{int(wall_time())}-{broken_id[1]}"
        with folder_lock(self.path.parent, BUSY_TIMEOUT_S):
            if file_id(self.path) != broken_id:
                return
            for suffix in FILE_SUFFIXES:
                with contextlib.suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + suffix).rename(
                        self.path.with_name(name + suffix)
                    )
        logger.warning(
            "%r is damaged or not a credential file (%s): it was renamed to %r, and "
            "its logins are lost; log in again",
            str(self.path),
            error,
            name,
        )


# Transactions


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("pragma user_version").fetchone()[0])


def _load(database: sqlite3.Connection, key: str) -> tuple[bytes | None, int]:
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
    # A lease that begins in the future was acquired before the clock was set back.
    if row is not None and row[0] != owner and row[1] - CLOCK_SLACK_S <= now < row[2]:
        return False
    database.execute("delete from lease where ends <= ?", (now,))
    database.execute(
        "insert or replace into lease values (?, ?, ?, ?)",
        (key, owner, now, now + seconds),
    )
    return True


def _release(database: sqlite3.Connection, key: str, owner: str) -> None:
    database.execute("delete from lease where key = ? and owner = ?", (key, owner))


def _keys(database: sqlite3.Connection) -> list[str]:
    return [row[0] for row in database.execute("select key from credential")]


# Private files


def default_path() -> Path:
    """Return the path of this user's credentials; FileNotFoundError without a home."""
    name = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME"
    value = os.environ.get(name) or ""
    # XDG Base Directory Specification: a relative path must be ignored.
    if sys.platform != "darwin" and Path(value).is_absolute():
        folder = Path(value)
    else:
        try:
            home = Path.home()
        except RuntimeError as error:
            raise FileNotFoundError("this user has no home folder") from error
        folder = home.joinpath(*_FOLDERS.get(sys.platform, (".local", "state")))
    return folder / "mcpwire" / "credentials.sqlite"


def file_id(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, or None if it does not exist."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def make_folder(folder: Path, *, is_ours: bool) -> None:
    """Create a private folder, or check that other users cannot write to it."""
    missing = []
    parent = folder
    while file_id(parent) is None:
        missing.append(parent)
        parent = parent.parent
    # All are private, otherwise other users could replace the last one.
    for missing_folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            missing_folder.mkdir(mode=0o700)
            missing_folder.chmod(0o700)  # the umask may have removed bits
    if not IS_POSIX:
        return
    status = _check_owner(folder, stat.S_ISDIR)
    mode = stat.S_IMODE(status.st_mode)
    # A user's private group has the same number as the user.
    write_bits = 0o022 if status.st_gid != status.st_uid else 0o002
    if is_ours and mode & 0o077:
        folder.chmod(0o700)
    # The folder may be /tmp, or shared on purpose, so its mode is not changed.
    if not is_ours and mode & write_bits:
        raise PermissionError(
            f"other users may write to its folder {str(folder)!r}: choose one of your "
            "own"
        )


def make_file(path: Path) -> None:
    """Create a private file, or check the owner of the file and make it private."""
    if not IS_POSIX:  # on Windows, the user's folder is private
        path.touch()
        return
    if file_id(path) is None:
        with contextlib.suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            try:
                os.fchmod(descriptor, 0o600)  # the umask may have removed bits
            finally:
                os.close(descriptor)
    status = _check_owner(path, stat.S_ISREG)
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(0o600)


def _check_owner(path: Path, is_kind: Any) -> os.stat_result:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(f"{str(path)!r} is a symbolic link")
    if not is_kind(status.st_mode):
        kind = "folder" if is_kind is stat.S_ISDIR else "file"
        raise PermissionError(f"{str(path)!r} is not a {kind}")
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{str(path)!r} belongs to another user")
    return status


@contextlib.contextmanager
def folder_lock(
    folder: Path, seconds: float, *, shared: bool = False
) -> Iterator[None]:
    """Yield with a lock on a folder, against other processes and threads.

    A shared lock is for using the file, an exclusive one for making or renaming it.
    """
    if not IS_POSIX:
        yield
        return
    import fcntl

    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    ends_at = monotonic() + seconds
    # SQLite does not lock the folder, so the locks cannot interfere.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > ends_at:
                    raise TimeoutError("another process holds its lock") from None
                sleep(LOCK_POLL_S)
            except OSError as error:
                if error.errno not in NO_LOCK_ERRNOS:
                    raise
                break
        yield
    finally:
        with contextlib.suppress(OSError):  # a forked process may have a copy of it
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def storage_for(grant: Grant) -> Storage:
    """Return the store for a grant's tokens; create the default store if needed."""
    storage: Storage | None = grant.storage
    if storage is None:
        storage = grant.kept
    if storage is None:
        storage = FileStorage() if isinstance(grant, OAuth) else MemoryStorage()
        # All connections of the grant share the store.
        object.__setattr__(grant, "kept", storage)
    return storage


class CredentialStore:
    """Access to the store for one operation; remembers the version that it loaded."""

    def __init__(self, grant: Grant, target: Http, limits: Limits) -> None:
        self._storage = storage_for(grant)
        # A lease must last for its request, a second one for a nonce, and the access to
        # the store. After its end another process may send the same refresh token.
        self._lease_min = 2 * limits.oauth_timeout + LEASE_MARGIN_S
        names = target.parsed.unmasked, grant.profile, type(grant).__name__
        self._key = credential_key(*names)
        self._pending = pending_key(*names)
        self._owner = os.urandom(16).hex()
        self._version = self._pending_version = 0
        self._has_lease = self._is_closed = False

    @property
    def is_quick(self) -> bool:
        """Whether the store never waits for a disk."""
        return isinstance(self._storage, MemoryStorage)

    def perform(self, step: steps.Step) -> Any:
        """Perform a step that concerns the store; it may wait for a disk."""
        outcome: Any = None
        match step:
            case steps.Load():
                data, self._version = self._storage.load(self._key)
                outcome = None if data is None else load(data)
            case steps.Save():
                outcome = self._save(dump(step.record))
            case steps.Delete():
                # A pending login contains credentials as well.
                _, version = self._storage.load(self._pending)
                self._storage.save(self._pending, None, version)
                outcome = self._save(None)
            case steps.SavePending():
                data = dump(step.pending)
                saved = self._storage.save(self._pending, data, self._pending_version)
                outcome = saved is not None
            case steps.LoadPending():
                outcome = self._load_pending(step.state)
            case steps.AcquireLease():
                seconds = max(step.seconds, self._lease_min)
                outcome = self._storage.lease(self._key, self._owner, seconds)
                self._has_lease = outcome
                if self._is_closed:  # by another thread during `lease`
                    self.release()
            case _:
                assert isinstance(step, steps.ReleaseLease)
                self.release()
        return outcome

    def close(self) -> None:
        """Release the lease, also one that another thread is about to acquire."""
        self._is_closed = True
        self.release()

    def release(self) -> None:
        """Release the lease, if there is one."""
        if self._has_lease:
            self._has_lease = False
            try:
                self._storage.release(self._key, self._owner)
            except Exception:  # of a user's store; must not lose the obtained token
                oauth_logger.warning(
                    "a lease cannot be released; it will expire", exc_info=True
                )

    def _save(self, data: bytes | None) -> bool:
        version = self._storage.save(self._key, data, self._version)
        if version is not None:
            self._version = version
        return version is not None

    def _load_pending(self, state: str | None) -> Any:
        data, version = self._storage.load(self._pending)
        self._pending_version = version
        pending = None if data is None else load_pending(data)
        if pending is None or not compare_digest(
            pending.state.encode(), (state or "").encode("utf-8", "surrogatepass")
        ):
            return pending
        # It is for one try. If it cannot be removed, its code still works only once.
        with contextlib.suppress(StorageError):
            if self._storage.save(self._pending, None, version) is None:
                return None
        return pending
