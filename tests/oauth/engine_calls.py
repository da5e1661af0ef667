"""Helpers for tests of logins and tokens."""

import asyncio
import contextlib
import http.client
import importlib
import pkgutil
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from authorization_server import authorization_server, browse, oauth, protected_server

import mcpwire
import mcpwire.transports
from mcpwire.transports.oauth import authorizer

BOUND_S = 40.0
HOUR_S = 3600
REAL = time.monotonic


@contextlib.asynccontextmanager
async def connected(
    server: Any, grant: Any = None, **options: Any
) -> AsyncIterator[Any]:
    """Connect a client to a server, with a new login unless `grant` is given."""
    auth = oauth() if grant is None else grant
    target = mcpwire.Http(server.url, auth=auth, **options)
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
        yield client


class Clock:
    """The clocks that measure tokens; they do not move by themselves."""

    def __init__(self, patches: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        wall, monotonic = time.time(), time.monotonic()
        patches.setattr(authorizer, "wall_time", lambda: wall + self.ahead)
        patches.setattr(authorizer, "monotonic", lambda: monotonic + self.ahead)
        patches.setattr(authorizer, "EARLY_RENEWAL_TIMEOUT_S", BOUND_S)

    def pass_by(self, seconds: float) -> None:
        self.ahead += seconds


class Hours:
    """The clocks that measure calls and logins, which can be moved forward.

    A user then takes as long as a test wants, however slow the machine is.
    """

    def __init__(self, patches: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        loops = asyncio.base_events.BaseEventLoop
        patches.setattr(loops, "time", lambda _: self.now())
        package = mcpwire.transports  # imported later it would not be patched
        for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(each.name)
        for name, module in tuple(sys.modules.items()):
            if name.startswith("mcpwire.") and vars(module).get("monotonic") is REAL:
                patches.setattr(module, "monotonic", self.now)

    def now(self) -> float:
        return REAL() + self.ahead

    def pass_by(self, seconds: float) -> None:
        """Move all clocks forward; waiting code sees it at its next look."""
        self.ahead += seconds


@pytest.fixture
def auth():
    with authorization_server() as server:
        yield server


@pytest.fixture
def session(auth):
    with protected_server(auth) as made:
        yield made


@pytest.fixture
def stateless(auth):
    with protected_server(auth, era="stateless") as made:
        yield made


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def come_back(url: str) -> None:
    """Log in like a browser, and follow the redirect to this machine."""

    def follow() -> None:
        there = urlsplit(browse(url))
        connection = http.client.HTTPConnection(there.netloc, timeout=30)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            # The callback server may have been closed.
            connection.request("GET", f"{there.path}?{there.query}")
            connection.getresponse().read()

    threading.Thread(target=follow, daemon=True).start()


async def echo(client: Any, text: str = "hi") -> None:
    assert (await client.call_tool("echo", {"text": text})).text == text


def refreshes(auth: Any) -> list[Any]:
    return [
        request
        for request in auth.token_requests
        if request.form["grant_type"] == "refresh_token"
    ]


def whole(error: BaseException) -> str:
    """Return all visible texts of an error."""
    seen = [*traceback.format_exception(error), repr(error), repr(error.args)]
    return "".join([*seen, repr(vars(error)), *getattr(error, "__notes__", ())])
