"""Runs ``mcpwire demo-server`` for blocks that show the address of such a server.

At `PROTECTED` it requires tokens, which it issues itself.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from ports import HOST, kept_port
from unmeasured import unmeasured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ADDRESS = "localhost:8000"
"""The address in the documents; the real port is any free one."""

PROTECTED = "localhost:9000"


class Place(NamedTuple):
    """The real addresses of the servers, by the addresses in the documents."""

    real: Mapping[str, str]

    def put(self, text: str) -> str:
        """Return the program or command with the real addresses."""
        for shown, real in self.real.items():
            text = text.replace(shown, real)
        return text

    def show(self, text: str) -> str:
        """Return the output with the addresses of the documents."""
        for shown, real in self.real.items():
            text = text.replace(real, shown)
        return text


@contextlib.contextmanager
def demo_server(*words: str) -> Iterator[str]:
    """Run the command on a free port; give its address."""
    with kept_port() as port:
        address = f"{HOST}:{port}"
        command = [sys.executable, "-m", "mcpwire", "demo-server", "--http", address]
        with subprocess.Popen(
            [*command, *words], stderr=subprocess.PIPE, text=True, env=unmeasured()
        ) as process:
            try:
                assert process.stderr is not None
                assert "serving" in process.stderr.readline()
                yield address
            finally:
                process.terminate()
                process.communicate()


@contextlib.contextmanager
def served(text: str) -> Iterator[Place]:
    """Run a server for each address that the text contains."""
    real: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        if ADDRESS in text:
            real[ADDRESS] = stack.enter_context(demo_server())
        if PROTECTED in text:
            real[PROTECTED] = stack.enter_context(demo_server("--auth"))
        yield Place(real)
