"""One way to call a null server, as every variant that does so is told it.

    stdio --legacy anywhere /path/of/stdio_null
    json --modern apart /path/of/http_null

Standard library only, for it runs in every client's own environment.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from harness.blocking import place, place_server
from null.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

NAME = "echo"
ARGUMENTS = {"text": "hi"}
ANSWER = "hello"
VERSIONS = {"--legacy": "2025-11-25", "--modern": "2026-07-28"}


class Leg(NamedTuple):
    """One way of three to call a null server, in one era of two."""

    shape: str
    """``stdio``; or over HTTP what the answers are: ``json`` or ``sse``."""
    era: str
    """The null server's option."""
    placement: str
    """On which cores: one of `harness.blocking`, or ``anywhere``."""
    server: str
    """Its program."""

    @property
    def is_stdio(self) -> bool:
        return self.shape == "stdio"

    @property
    def is_modern(self) -> bool:
        return self.era == "--modern"

    @contextmanager
    def url(self) -> Iterator[str]:
        """Serve over HTTP meanwhile, both sides on their cores."""
        with serving(self.server, self.era, f"--{self.shape}") as null:
            place(null.pid, self.placement)
            yield null.url

    def starting(self) -> AbstractContextManager[None]:
        """Have a server that is started meanwhile run on its core."""
        return place_server(self.placement)

    def check(self, text: str, version: str | None = None) -> None:
        """Fail before anything is measured when a call does not do its work."""
        assert text == ANSWER, text
        assert version in (None, VERSIONS[self.era]), version


def parse(argument: str) -> Leg:
    """Return the leg of a variant's argument."""
    return Leg(*argument.split(" ", 3))
