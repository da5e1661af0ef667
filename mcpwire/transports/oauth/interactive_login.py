"""Ask the user to log in: show a URL, and wait until the browser comes back.

The browser is opened by the standard library's `webbrowser`, which starts a program
with the URL as one argument: no shell is involved. It opens checked URLs only.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.errors import ConsentDenied
from mcpwire.auth.url_policy import check_authorization_url
from mcpwire.transports.handlers import invoke
from mcpwire.transports.oauth.callback_server import CallbackServer, query_parameters

if TYPE_CHECKING:
    import webbrowser
    from collections.abc import Callable

    from mcpwire.auth.config import OAuth
    from mcpwire.auth.steps import Ask
    from mcpwire.wire.urls import Url

__all__ = ["InteractiveLogin", "call_user", "open_browser", "returned_parameters"]

STARTED_S: Final = 2.0
"""Some programs return only when their window is closed: by then it has started."""


class InteractiveLogin:
    """One login by the user; closed when its operation ends."""

    def __init__(self, grant: OAuth, server: Url) -> None:
        self._grant = grant
        self._server = server
        self._callbacks: CallbackServer | None = None

    def listen(self, preferred: str | None) -> str:
        """Listen for the browser; return the redirect URI."""
        self._callbacks = CallbackServer(
            port=self._grant.callback_port, preferred=preferred
        )
        return self._callbacks.redirect_uri

    async def ask(self, step: Ask) -> dict[str, str]:
        """Send the user to the URL; return the parameters of the response.

        Raises:
            ConsentDenied: No user can be asked, or no response came in time.
        """
        grant = self._grant
        try:
            async with asyncio.timeout(grant.timeout):
                if grant.ask is not None:
                    return returned_parameters(await call_user(grant.ask, step.url))
                await asyncio.to_thread(self._show, step.url)
                assert self._callbacks is not None
                return await self._callbacks.wait(step.state)
        except TimeoutError as error:
            raise ConsentDenied(
                f"nobody came back from logging in within {grant.timeout:g} s",
                error="timeout",
            ) from error

    def _show(self, url: str) -> None:
        grant = self._grant
        if grant.on_url is not None:
            grant.on_url(url)
        is_open = False
        if callable(grant.open_browser):
            grant.open_browser(url)
            is_open = True
        elif grant.open_browser:
            is_open = open_browser(url, server=self._server)
        if not is_open and grant.on_url is None:
            raise ConsentDenied(
                "no browser can be opened here: pass on_url= to show the URL yourself, "
                "or interactive=False",
                error="interaction_required",
            )

    def close(self) -> None:
        """Stop listening."""
        if self._callbacks is not None:
            self._callbacks.close()


async def call_user(function: Callable[..., Any], *args: Any) -> Any:
    """Call a plain or async function of the user's and return its result."""
    value = invoke(function, *args)
    return await value if hasattr(value, "__await__") else value


def returned_parameters(returned: Any) -> dict[str, str]:
    """Return the parameters of the URL that the browser was redirected to.

    Raises:
        ConsentDenied: It is neither a URL with parameters nor a mapping of them.
    """
    if isinstance(returned, str):
        query = returned.partition("#")[0].partition("?")[2]
        try:
            return query_parameters(query)
        except ValueError as error:
            raise ConsentDenied(
                "the URL that the user came back to has too many parameters",
                error="invalid_request",
            ) from error
    if isinstance(returned, dict):
        return {str(name): str(value) for name, value in returned.items()}
    raise ConsentDenied(
        "ask must return the URL that the user came back to, got "
        f"{type(returned).__name__}",
        error="invalid_request",
    )


def open_browser(url: str, *, server: Url | None) -> bool:
    """Open the user's browser; return whether that seems to have worked.

    It waits two seconds at most: where a loop runs, call it from a thread.

    Args:
        url: The URL to open.
        server: The MCP server that the login is for; ``None`` if the URL was checked
            against it already.

    Raises:
        UrlRefused: The browser may not be sent to the URL.
    """
    checked = check_authorization_url(url, server=server)
    browser = _browser()
    if browser is None:
        return False
    outcome: list[bool] = []

    def start() -> None:
        try:
            outcome.append(browser.open(checked))
        except OSError:
            outcome.append(False)

    thread = threading.Thread(target=start, name="mcpwire-browser", daemon=True)
    thread.start()
    thread.join(STARTED_S)
    return outcome[0] if outcome else True


def _browser() -> webbrowser.BaseBrowser | None:
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    # A text browser would take the terminal from its present user.
    is_text = type(browser).__name__ in {"GenericBrowser", "Elinks"}
    return None if is_text and not os.environ.get("BROWSER") else browser
