"""What tests of logins and tokens do and look at."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from authorization_server import browse

from mcpwire.transports.oauth import performing, session

if TYPE_CHECKING:
    import pytest

BOUND_S = 20.0
HOUR_S = 3600


class Clock:
    """The clocks that tokens are measured by."""

    def __init__(self, patches: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        for module in (session, performing):
            patches.setattr(module, "wall_time", lambda: time.time() + self.ahead)
        patches.setattr(session, "monotonic", lambda: time.monotonic() + self.ahead)

    def pass_by(self, seconds: float) -> None:
        self.ahead += seconds


def come_back(url: str) -> None:
    """Be a browser that logs in and follows the server's redirect to this machine."""

    def follow() -> None:
        there = urlsplit(browse(url))
        connection = http.client.HTTPConnection(there.netloc, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            # Whoever waited may have given up.
            connection.request("GET", f"{there.path}?{there.query}")
            connection.getresponse().read()

    threading.Thread(target=follow, daemon=True).start()


async def echo(client: Any, text: str = "hi") -> None:
    assert (await client.call_tool("echo", {"text": text})).text == text


def refreshes(auth: Any) -> list[Any]:
    """Return the requests for which a refresh token was sent."""
    return [
        request
        for request in auth.token_requests
        if request.form["grant_type"] == "refresh_token"
    ]


def whole(error: BaseException) -> str:
    """Return all that can be seen of an error."""
    seen = [*traceback.format_exception(error), repr(error), repr(error.args)]
    return "".join([*seen, repr(vars(error)), *getattr(error, "__notes__", ())])
