"""Gets tokens for a blocking client on the loop that HTTP+SSE has of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from mcpwire.transports.oauth.authorizer import Authorizer
from mcpwire.transports.oauth.performing import plain

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LoopAuthorizer"]


class LoopAuthorizer(Authorizer):
    """Calls functions of the user's in threads: they block, and the loop must not."""

    async def _told(self, function: Callable[..., Any], *args: Any) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if answer.done():  # nobody waits any more
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        def run() -> None:
            value, error = None, None
            try:
                value = plain(function(*args), "auth")
            except BaseException as raised:  # noqa: BLE001 - raised to who waits
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, value, error)

        # Not the loop's own threads: their end would be waited for.
        threading.Thread(target=run, name="mcpwire-oauth-ask", daemon=True).start()
        return await answer
