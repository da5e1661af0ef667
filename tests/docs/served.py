"""Serves the demo over HTTP to whatever shows the address of such a server."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "over_http"))

from hosting import hosted

from mcpwire.server.demo import demo_dispatcher

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "localhost:8000"
"""What the documents show; the port that is really used is any that is free."""


class Place(NamedTuple):
    """Where the server is, in place of where the documents say it is."""

    real: str

    def put(self, text: str) -> str:
        """Return a program or command that goes to the real server."""
        return text.replace(ADDRESS, self.real)

    def show(self, text: str) -> str:
        """Return what came of it as the documents show it."""
        return text.replace(self.real, ADDRESS)


@contextlib.contextmanager
def served(text: str) -> Iterator[Place]:
    """Serve where the text names the address; it may name it more than once."""
    if ADDRESS not in text:
        yield Place(ADDRESS)
        return
    with hosted(demo_dispatcher()) as host:
        yield Place(f"127.0.0.1:{host.raw.port}")
