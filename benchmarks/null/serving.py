"""Keep the null server over HTTP running while somebody calls it."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Serving:
    """Where it listens, and the process that it is."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


@contextmanager
def serving(server: str, *options: str) -> Iterator[Serving]:
    """Start that program; it ends with its standard input."""
    with subprocess.Popen(
        [server, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield Serving(int(process.stdout.readline()), process.pid)
