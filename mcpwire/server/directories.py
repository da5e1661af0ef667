"""Files and folders as resources; nothing outside a folder is ever read.

A path is taken apart, followed through its links to where it really leads, and opened
only if that is a regular file within the folder. What is hidden (its name begins with a
dot) is not there unless that is asked for.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mcpwire.errors import InternalError
from mcpwire.server.authoring.results import File
from mcpwire.server.log_limit import LogLimit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcpwire.server.components import Handle
    from mcpwire.server.resources import Resources

__all__ = ["Folder", "add_directory", "add_file"]

logger = logging.getLogger("mcpwire")

MAX_BYTES: Final = 32 * 1024 * 1024
"""How large a file may be; in Base64 it is a third larger."""

MAX_LISTED: Final = 10_000
"""How many files of one folder are listed."""

_LOOKED_AT: Final = 10_000
"""How many names of one folder are looked at to complete one."""

_UNKNOWN: Final = "application/octet-stream"

_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = (
    os.O_RDONLY
    | _NOFOLLOW
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # for a pipe that nobody writes to
    | getattr(os, "O_BINARY", 0)
)
_FOLDER: Final = _FILE | getattr(os, "O_DIRECTORY", 0)


class Folder:
    """A folder of readable files."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        hidden: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise NotADirectoryError(f"there is no folder {os.fspath(root)!r}")
        self._hidden = hidden
        self._log_limit = LogLimit()
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"Folder({str(self.root)!r})"

    # One file...

    def read(self, path: str) -> File | None:
        """Return a file by its path with slashes; ``None``: it is not there."""
        data = self.read_bytes(path)
        return None if data is None else file_of(path, data)

    def read_bytes(self, path: str) -> bytes | None:
        """Return the bytes of a file; ``None``: it is not there."""
        real = self.locate(path)
        if real is None:
            return None
        inside = real.relative_to(self.root).parts
        return read_regular(self.root, inside, self._max_bytes)

    def locate(self, path: str) -> Path | None:
        """Return where a path really leads; ``None``: nowhere within the folder."""
        segments = path.split("/")
        if not all(self._is_name(segment) for segment in segments):
            return None
        try:
            real = self.root.joinpath(*segments).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not there; a loop of links; NUL
            return None
        if not real.is_relative_to(self.root):
            return None
        # A link may lead to what is hidden.
        inside = real.relative_to(self.root).parts
        return real if all(self._is_name(name) for name in inside) else None

    def _is_name(self, name: str) -> bool:
        if name in {"", ".", ".."} or "\\" in name:
            return False
        if not _is_utf8(name):
            self._log_limit.log(
                logger.warning,
                "a file or folder in %r is left out, its name is not UTF-8: %a",
                str(self.root),
                name,
            )
            return False
        return self._hidden or not name.startswith(".")

    # Many of them...

    def walk(self) -> Iterator[str]:
        """Iterate over the paths of all files in order, without linked folders."""
        count = 0
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if self._is_name(name))
            for name in sorted(names):
                path = (Path(folder) / name).relative_to(self.root).as_posix()
                real = self.locate(path)
                if real is None or not real.is_file():
                    continue
                count += 1
                if count > MAX_LISTED:
                    raise ValueError(
                        f"there are more than {MAX_LISTED} files in {str(self.root)!r}"
                    )
                yield path

    def suggest(self, typed: str) -> list[str]:
        """Return the paths that begin as what was typed; folders end with a slash."""
        above, slash, start = typed.rpartition("/")
        real = self.locate(above) if slash else self.root
        if real is None or not real.is_dir():
            return []
        found = []
        for entry in itertools.islice(real.iterdir(), _LOOKED_AT):
            path = f"{above}{slash}{entry.name}"
            there = self.locate(path) if entry.name.startswith(start) else None
            if there is not None:
                found.append(f"{path}/" if there.is_dir() else path)
        return sorted(found)


def read_regular(root: Path, inside: Sequence[str], max_bytes: int) -> bytes | None:
    """Return the bytes of a regular file; ``None``: it is none, or not there."""
    try:
        descriptor = _open(root, inside)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InternalError(f"the resource is larger than {max_bytes} bytes")
    return data


def _open(root: Path, inside: Sequence[str]) -> int:
    if os.open not in os.supports_dir_fd:
        return os.open(root.joinpath(*inside), _FILE)
    descriptor = os.open(root, _FOLDER & ~_NOFOLLOW)
    for left, name in enumerate(inside, start=1 - len(inside)):
        above = descriptor
        try:
            descriptor = os.open(name, _FOLDER if left else _FILE, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def _is_utf8(name: str) -> bool:
    """Tell whether a name has a text: what Python read of other bytes has none."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def file_of(name: str, data: bytes) -> File:
    """Return a file's contents, with the media type of its name or of its bytes."""
    mime_type = File(path=Path(name)).media_type(data)
    if mime_type == _UNKNOWN and b"\x00" not in data:
        with contextlib.suppress(UnicodeDecodeError):
            data.decode()
            mime_type = "text/plain"
    return File(data, mime_type=mime_type)


def mime_type_of(name: str) -> str | None:
    """Return the media type that a file's name tells, if it does."""
    mime_type = File(path=Path(name)).media_type(b"")
    return None if mime_type == _UNKNOWN else mime_type


# As resources...


def add_file(
    resources: Resources,
    uri: str,
    path: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    **options: Any,
) -> Handle[Any]:
    """Register one file; it is read anew each time."""
    real = Path(path).resolve()
    if not real.is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    name = Path(path).name

    def read() -> File | None:
        data = read_regular(real.parent, [real.name], max_bytes)
        return None if data is None else file_of(name, data)

    given = {"name": name, "mime_type": mime_type_of(name), **options}
    return resources.add(uri, read, is_raw=True, **given)


def add_directory(
    resources: Resources,
    uri: str,
    path: str | os.PathLike[str],
    *,
    listed: bool = True,
    hidden: bool = False,
    max_bytes: int = MAX_BYTES,
    **options: Any,
) -> Handle[Any]:
    """Register a folder: a template for its files, which completes their paths."""
    folder = Folder(path, hidden=hidden, max_bytes=max_bytes)
    base = uri if uri.endswith("/") else f"{uri}/"
    if listed:
        common = {k: v for k, v in options.items() if k not in _OF_THE_WHOLE}
        for file in list(folder.walk()):
            resources.add(
                base + quote(file, safe="/"),
                functools.partial(folder.read, file),
                name=file,
                mime_type=mime_type_of(file),
                is_raw=True,
                **common,
            )
    name = folder.root.name
    given = {"name": name if name and _is_utf8(name) else "files", **options}
    suggestions = {"path": folder.suggest}
    return resources.add(
        base + "{path*}", folder.read, is_raw=True, suggestions=suggestions, **given
    )


_OF_THE_WHOLE: Final = frozenset({"name", "title", "description", "mime_type"})
"""Options that say something of the folder and not of each file."""
