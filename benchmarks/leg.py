"""The argument of variants that call a null server: shape, era, placement, program.

    stdio --legacy anywhere /path/of/stdio_null
    json --modern apart /path/of/http_null

Standard library only, because it runs in every client's environment.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from harness.placement import pin_cores, start_on_server_core
from null.server import run_null_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

NAME = "echo"
ARGUMENTS = {"text": "hi"}
ANSWER = "hello"
VERSIONS = {"--legacy": "2025-11-25", "--modern": "2026-07-28"}


class Leg(NamedTuple):
    """Transport, era and placement of calls to a null server."""

    shape: str
    """``stdio``, or over HTTP the form of the responses: ``json`` or ``sse``."""
    era: str
    """The era as an option of the null server."""
    placement: str
    """The placement on cores: one of `harness.placement`, or ``anywhere``."""
    server: str
    """The path of the null server."""

    @property
    def is_stdio(self) -> bool:
        return self.shape == "stdio"

    @property
    def is_modern(self) -> bool:
        return self.era == "--modern"

    @contextmanager
    def url(self) -> Iterator[str]:
        """Run the HTTP null server, client and server on their cores; yield its URL."""
        with run_null_server(self.server, self.era, f"--{self.shape}") as null:
            pin_cores(null.pid, self.placement)
            yield null.url

    def start_on_server_core(self) -> AbstractContextManager[None]:
        """Return a context manager within which servers start on their core."""
        return start_on_server_core(self.placement)

    def check(self, text: str, version: str | None = None) -> None:
        """Assert before the measurement that text and version are as expected."""
        assert text == ANSWER, text
        assert version in (None, VERSIONS[self.era]), version


def parse_leg(argument: str) -> Leg:
    """Parse a variant's argument."""
    return Leg(*argument.split(" ", 3))
