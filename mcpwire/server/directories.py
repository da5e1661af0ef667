"""Files and folders as resources; no file outside of a folder is ever read.

A path is split, its links are resolved, and the target is opened only if it is a
regular file within the folder. Hidden files (names that begin with a dot) are excluded
unless requested.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mcpwire.errors import InternalError
from mcpwire.server.authoring.results import File
from mcpwire.server.log_limit import LimitedLogger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcpwire.server.components import Handle
    from mcpwire.server.resources import Resources

logger = LimitedLogger("mcpwire")

MAX_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of a file in bytes; in Base64 it is a third larger."""

MAX_LISTED: Final = 10_000
"""The maximum number of listed files of one folder."""

_MAX_SCANNED: Final = 10_000
"""How many names of one folder are searched for completions."""

_DEFAULT_TYPE: Final = "application/octet-stream"

_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FILE_FLAGS: Final = (
    os.O_RDONLY
    | _NOFOLLOW
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer would block
    | getattr(os, "O_BINARY", 0)
)
_FOLDER_FLAGS: Final = _FILE_FLAGS | getattr(os, "O_DIRECTORY", 0)


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
            raise NotADirectoryError(f"the folder {os.fspath(root)!r} does not exist")
        self._hidden = hidden
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"Folder({str(self.root)!r})"

    # Single files

    def read(self, path: str) -> File | None:
        """Return a file by its path with slashes; ``None``: not found."""
        data = self.read_bytes(path)
        return None if data is None else file_of(path, data)

    def read_bytes(self, path: str) -> bytes | None:
        """Return the bytes of a file; ``None``: not found."""
        target = self.locate(path)
        if target is None:
            return None
        parts = target.relative_to(self.root).parts
        return read_regular(self.root, parts, self._max_bytes)

    def locate(self, path: str) -> Path | None:
        """Return the target of a path; ``None``: no target within the folder."""
        segments = path.split("/")
        if not all(self._is_name(segment) for segment in segments):
            return None
        try:
            target = self.root.joinpath(*segments).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not found; a loop of links; NUL
            return None
        if not target.is_relative_to(self.root):
            return None
        # A link may point to a hidden file.
        parts = target.relative_to(self.root).parts
        return target if all(self._is_name(name) for name in parts) else None

    def _is_name(self, name: str) -> bool:
        if name in {"", ".", ".."} or "\\" in name:
            return False
        if not _is_utf8(name):
            logger.warning(
                "a file or folder in %r is left out, its name is not UTF-8: %a",
                str(self.root),
                name,
                kind=self.root,
            )
            return False
        return self._hidden or not name.startswith(".")

    # Lists of files

    def walk(self) -> Iterator[str]:
        """Yield the paths of all files in order, without following linked folders."""
        count = 0
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if self._is_name(name))
            for name in sorted(names):
                path = (Path(folder) / name).relative_to(self.root).as_posix()
                target = self.locate(path)
                if target is None or not target.is_file():
                    continue
                count += 1
                if count > MAX_LISTED:
                    raise ValueError(
                        f"there are more than {MAX_LISTED} files in {str(self.root)!r}"
                    )
                yield path

    def suggest(self, typed: str) -> list[str]:
        """Return the paths that begin with a text; folders end with a slash."""
        parent, slash, start = typed.rpartition("/")
        folder = self.locate(parent) if slash else self.root
        if folder is None or not folder.is_dir():
            return []
        paths = []
        for entry in itertools.islice(folder.iterdir(), _MAX_SCANNED):
            path = f"{parent}{slash}{entry.name}"
            target = self.locate(path) if entry.name.startswith(start) else None
            if target is not None:
                paths.append(f"{path}/" if target.is_dir() else path)
        return sorted(paths)


def read_regular(root: Path, parts: Sequence[str], max_bytes: int) -> bytes | None:
    """Return the bytes of a regular file; ``None``: not found, or not regular."""
    try:
        descriptor = _open(root, parts)
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


def _open(root: Path, parts: Sequence[str]) -> int:
    if os.open not in os.supports_dir_fd:
        return os.open(root.joinpath(*parts), _FILE_FLAGS)
    descriptor = os.open(root, _FOLDER_FLAGS & ~_NOFOLLOW)
    for remaining, name in enumerate(parts, start=1 - len(parts)):
        parent = descriptor
        try:
            descriptor = os.open(
                name, _FOLDER_FLAGS if remaining else _FILE_FLAGS, dir_fd=parent
            )
        finally:
            os.close(parent)
    return descriptor


def _is_utf8(name: str) -> bool:
    """Return whether a file name is valid UTF-8, so that it can be sent as text."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def file_of(name: str, data: bytes) -> File:
    """Return a file's contents, with the media type of its name or of its bytes."""
    mime_type = File(path=Path(name)).media_type(data)
    if mime_type == _DEFAULT_TYPE and b"\x00" not in data:
        with contextlib.suppress(UnicodeDecodeError):
            data.decode()
            mime_type = "text/plain"
    return File(data, mime_type=mime_type)


def mime_type_of(name: str) -> str | None:
    """Return the media type of a file's name; ``None``: unknown."""
    mime_type = File(path=Path(name)).media_type(b"")
    return None if mime_type == _DEFAULT_TYPE else mime_type


# Registration


def add_file(
    resources: Resources,
    uri: str,
    path: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    **options: Any,
) -> Handle[Any]:
    """Register one file, which is read for each request."""
    target = Path(path).resolve()
    if not target.is_file():
        raise FileNotFoundError(f"the file {os.fspath(path)!r} does not exist")
    name = Path(path).name

    def read() -> File | None:
        data = read_regular(target.parent, [target.name], max_bytes)
        return None if data is None else file_of(name, data)

    all_options = {"name": name, "mime_type": mime_type_of(name), **options}
    return resources.add(uri, read, is_raw=True, **all_options)


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
    """Register a folder: a template for its files, with completion of their paths."""
    folder = Folder(path, hidden=hidden, max_bytes=max_bytes)
    base = uri if uri.endswith("/") else f"{uri}/"
    if listed:
        common = {k: v for k, v in options.items() if k not in _FOLDER_OPTIONS}
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
    details = {"name": name if name and _is_utf8(name) else "files", **options}
    completers = {"path": folder.suggest}
    return resources.add(
        base + "{path*}", folder.read, is_raw=True, completers=completers, **details
    )


_FOLDER_OPTIONS: Final = frozenset({"name", "title", "description", "mime_type"})
"""Options that apply to the folder and not to each file."""
