"""Run the null server of `mcpwire.bench.null` as a child process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.bench.null import PATH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_FILE: Final = Path(__file__).with_name("null.py")
_EXIT_TIMEOUT_S: Final = 10.0


def null_command(*options: str) -> list[str]:
    """Return the command line of a null server.

    Args:
        options: Options of `mcpwire.bench.null`, including ``--stdio`` or ``--http``.
    """
    return [sys.executable, "-I", str(_FILE), *options]


@attrs.frozen
class NullProcess:
    """A running null server over HTTP.

    Attributes:
        url: The URL of its endpoint.
        process: The child process; it exits when its stdin is closed.
    """

    url: str
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def watch(self, client: int) -> None:
        """Set the client process for the CPU time of ``--record --watch``."""
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), b"%d\n" % client)


@contextmanager
def null_process(*options: str) -> Iterator[NullProcess]:
    """Run a null server over HTTP, for programs without an event loop."""
    command = null_command("--http", *options)
    pipe = subprocess.PIPE
    with subprocess.Popen(  # noqa: S603 (ours)
        command,
        stdin=pipe,
        stdout=pipe,
        start_new_session=True,  # no Ctrl-C: it exits at the end of its input
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield NullProcess(f"http://127.0.0.1:{port}{PATH}", process)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_EXIT_TIMEOUT_S)
        finally:
            process.kill()


@asynccontextmanager
async def null_http(*options: str) -> AsyncIterator[NullProcess]:
    """Run a null server over HTTP without blocking the event loop."""
    context = null_process(*options)
    server = await asyncio.to_thread(context.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)
