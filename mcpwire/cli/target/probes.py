"""Which servers gave no answer to the probe, kept between commands for a day.

The next command begins with `initialize` there and does not wait for silence again. The
file in the user's cache folder has a hash of how each server is reached, and a time.
Nothing in it is needed: where it cannot be read or written, it is as if it were empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcpwire.transports.targets import Stdio
from mcpwire.wire.json import loads

if TYPE_CHECKING:
    from mcpwire.transports.http.target import Http

__all__ = ["ProbeCache"]

OFF: Final = "MCPWIRE_NO_CACHE"
"""The variable that turns it off, whatever its value."""

LIFE_S: Final = 24 * 3_600.0
SERVERS: Final = 256
"""How many servers are kept; those that are forgotten first make room."""

FILE_BYTES: Final = 64 * 1024


class ProbeCache:
    """What is kept of one server.

    Args:
        target: The server. Its command line may hold secrets, so a hash is its name.
    """

    def __init__(self, target: Stdio | Http) -> None:
        self._path = None if os.environ.get(OFF) else _path()
        self._key = _key(target)

    @property
    def is_silent(self) -> bool:
        """Whether the server gave no answer to the probe in the last day."""
        return self._key in self._read()

    def keep(self) -> None:
        """Note that the server gave no answer to the probe."""
        found = self._read()
        found[self._key] = time.time() + LIFE_S
        newest = sorted(found, key=found.__getitem__)[-SERVERS:]
        self._write({key: found[key] for key in newest})

    def forget(self) -> None:
        """Let the next command probe again."""
        found = self._read()
        if found.pop(self._key, None) is not None:
            self._write(found)

    def _read(self) -> dict[str, float]:
        if self._path is None:
            return {}
        try:
            with self._path.open("rb") as file:
                found = loads(file.read(FILE_BYTES))
            now = time.time()
            return {
                str(key): float(until)
                for key, until in found.items()
                if now < until <= now + LIFE_S
            }
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _write(self, found: dict[str, float]) -> None:
        if self._path is None:
            return
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.touch(mode=0o600)
            new.write_text(json.dumps(found), encoding="utf-8")
            new.replace(self._path)


def _path() -> Path | None:
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    try:
        # The XDG specification: a relative path is to be ignored.
        folder = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # this user has no home folder
        return None
    return folder / "mcpwire" / "probes.json"


def _key(target: Stdio | Http) -> str:
    from hashlib import sha256

    reached: list[str] = (
        [target.command, *target.args, str(Path(target.cwd or ".").absolute())]
        if isinstance(target, Stdio)
        else [target.url]
    )
    return sha256(json.dumps(reached).encode()).hexdigest()[:32]
