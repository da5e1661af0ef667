"""Reloads a gateway when the files of its configuration change.

A file that is wrong is reported, and everything goes on as it was until it is right.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcpwire.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike

    from mcpwire.gateway.app import Gateway
    from mcpwire.gateway.plan import Changes
    from mcpwire.gateway.serving.serving import Watched

__all__ = ["Files", "watch"]

logger = logging.getLogger("mcpwire")

INTERVAL_S: Final = 1.0
"""How often the files are looked at."""


class Files:
    """Some files, and whether they have changed since they were looked at."""

    def __init__(self, paths: Iterable[str | PathLike[str]]) -> None:
        self._paths = tuple(paths)
        self._seen = self._look()

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_mark(path) for path in self._paths]

    def have_changed(self) -> bool:
        """Tell whether one of them is another one, or has other content, by now."""
        seen, self._seen = self._seen, self._look()
        return seen != self._seen


def _mark(path: str | PathLike[str]) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:  # an editor puts the new file in its place in a moment
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def watch(
    gateway: Gateway,
    watched: Watched,
    *,
    interval: float = INTERVAL_S,
    told: Callable[[str], object] = logger.warning,
) -> None:
    """Reload a gateway whenever one of its files changes, until this is cancelled.

    Args:
        gateway: The gateway; its servers are the same for everybody.
        watched: The files, and what they name.
        interval: How often they are looked at, in seconds.
        told: Is told in one line what came of it.
    """
    files = Files(watched.files)
    while True:
        await asyncio.sleep(interval)
        if not files.have_changed():
            continue
        try:
            changes = await gateway.replace(watched.load())
        except (MCPError, OSError, ValueError) as error:
            told(f"nothing is reloaded: {error}")
            continue
        if changes:
            told(f"reloaded: {_spell(changes)}")


def _spell(changes: Changes) -> str:
    kinds = {
        "added": changes.added,
        "removed": changes.removed,
        "changed": changes.changed,
    }
    return "; ".join(
        f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names
    )
