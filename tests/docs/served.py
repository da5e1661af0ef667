"""Serves the demo over HTTP to whatever shows the address of such a server.

At `PROTECTED` it wants tokens, which come from the server at `ISSUER`. That one
registers everybody, and knows the clients of the documents already.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "over_http"))
sys.path.insert(0, str(Path(__file__).parents[1] / "oauth"))

from authorization_server import authorization_server
from hosting import Host, hosted
from protected import Guarded
from raw_server import raw_server

from mcpwire.server.demo import demo_dispatcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ADDRESS = "localhost:8000"
"""What the documents show; the port that is really used is any that is free."""

PROTECTED = "localhost:9000"
ISSUER = "localhost:9001"


class Place(NamedTuple):
    """Where the servers are, by where the documents say they are."""

    real: Mapping[str, str]

    def put(self, text: str) -> str:
        """Return a program or command that goes to the real server."""
        for shown, real in self.real.items():
            text = text.replace(shown, real)
        return text

    def show(self, text: str) -> str:
        """Return what came of it as the documents show it."""
        for shown, real in self.real.items():
            text = text.replace(real, shown)
        return text


class ProtectedHost(Guarded, Host):
    """The demo, which lets only those in who have a token."""


@contextlib.contextmanager
def _protected() -> Iterator[Mapping[str, str]]:
    with authorization_server(path="") as auth:
        auth.add_client("my-service", secret="s3cret")
        auth.add_client("my-app")
        host = ProtectedHost(demo_dispatcher(), "json")
        host.guard(auth, ("mcp",))
        try:
            with raw_server(host.serve, starts=host.take):
                yield {
                    PROTECTED: f"127.0.0.1:{host.raw.port}",
                    ISSUER: f"127.0.0.1:{auth.raw.port}",
                }
        finally:
            host.stop()


@contextlib.contextmanager
def served(text: str) -> Iterator[Place]:
    """Serve where the text names an address; it may name it more than once."""
    real: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        if ADDRESS in text:
            host = stack.enter_context(hosted(demo_dispatcher()))
            real[ADDRESS] = f"127.0.0.1:{host.raw.port}"
        if PROTECTED in text:
            real |= stack.enter_context(_protected())
        yield Place(real)
