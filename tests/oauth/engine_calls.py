"""What tests of logins and tokens do and look at."""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING, Any

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
