"""A file and its folder that only this user can read or replace.

Nothing is trusted because it is there: whoever may write in the folder could put a
journal beside a database, and SQLite would play it back.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["default_path", "identity", "make_private", "only_one"]

IS_POSIX: Final = os.name == "posix"

LOOK_S: Final = 0.01
"""How often one who waits for another process looks again."""

_making: Any = threading.Lock()
"""Held while a file of ours is open here outside SQLite.

Closing a file ends every lock that this process has on it, SQLite's too.
"""


def _forked() -> None:
    global _making  # noqa: PLW0603 - a thread of the parent may have held the other
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forked)


def default_path() -> Path:
    """Return where this user's credentials are kept.

    Raises:
        FileNotFoundError: Nothing says where this user's files are.
    """
    given = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else _XDG) or ""
    # The XDG specification: a relative path is to be ignored.
    if sys.platform != "darwin" and Path(given).is_absolute():
        folder = Path(given)
    else:
        try:
            home = Path.home()
        except RuntimeError as error:
            raise FileNotFoundError("this user has no home folder") from error
        folder = home.joinpath(*_FOLDERS.get(sys.platform, (".local", "state")))
    return folder / "mcpwire" / "credentials.sqlite"


_XDG: Final = "XDG_STATE_HOME"
_FOLDERS: Final = {
    "darwin": ("Library", "Application Support"),
    "win32": ("AppData", "Local"),
}


def identity(path: Path) -> tuple[int, int] | None:
    """Return by what a file is known whatever its name; ``None``: it is not there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def make_private(path: Path, *, is_ours: bool) -> None:
    """Make the file and its folder for this user alone, where they are not there.

    Args:
        path: The file.
        is_ours: Whether the folder was made for this file alone.

    Raises:
        OSError: They cannot be made, or others have a say in them.
    """
    _make_folders(path.parent)
    if not IS_POSIX:  # what is below the user's own folder is the user's own there
        path.touch()
        return
    _check_folder(path.parent, is_ours=is_ours)
    with _making, contextlib.suppress(FileExistsError):
        if identity(path) is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            made = os.open(path, flags, 0o600)
            try:
                os.fchmod(made, 0o600)  # whatever the umask takes away
            finally:
                os.close(made)
    found = _check_own(path, stat.S_ISREG)
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o600)


def _make_folders(folder: Path) -> None:
    # Each of them, or others could put something else in the place of the last one.
    missing = []
    while identity(folder) is None:
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o700)
            each.chmod(0o700)  # whatever the umask takes away


def _check_folder(folder: Path, *, is_ours: bool) -> None:
    found = _check_own(folder, stat.S_ISDIR)
    mode = stat.S_IMODE(found.st_mode)
    if is_ours:
        if mode & 0o077:
            folder.chmod(0o700)
        return
    # Where each user has a group of their own it has the user's number.
    others = 0o022 if found.st_gid != found.st_uid else 0o002
    if mode & others:  # it may be /tmp, or shared on purpose: not ours to change
        raise PermissionError(
            f"others may write in its folder {str(folder)!r}: choose one of your own"
        )


def _check_own(path: Path, is_kind: Any) -> os.stat_result:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise PermissionError(f"{str(path)!r} is a symbolic link")
    if not is_kind(found.st_mode):
        kind = "folder" if is_kind is stat.S_ISDIR else "file"
        raise PermissionError(f"{str(path)!r} is no {kind}")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{str(path)!r} belongs to another user")
    return found


@contextlib.contextmanager
def only_one(folder: Path, seconds: float) -> Iterator[None]:
    """Let one process, and one thread of it, at a time do something in that folder.

    Raises:
        TimeoutError: Another one takes longer than that.
    """
    if not IS_POSIX:
        yield
        return
    import fcntl

    ends_at = monotonic() + seconds
    # The folder's own descriptor: no lock of SQLite's is on that.
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > ends_at:
                    raise TimeoutError("another process does not let it go") from None
                sleep(LOOK_S)
        yield
    finally:
        os.close(opened)
