"""A running HTTP null server."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class NullServer:
    """The port and the process id of a null server."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


@contextmanager
def run_null_server(server: str, *options: str) -> Iterator[NullServer]:
    """Yield a running null server, which exits when its stdin closes."""
    with subprocess.Popen(
        [server, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield NullServer(int(process.stdout.readline()), process.pid)
