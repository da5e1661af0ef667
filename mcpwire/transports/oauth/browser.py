"""Opens the user's browser, at nothing but a URL that was checked.

No shell is involved: the standard library's `webbrowser` starts a program with the URL
as one argument.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from mcpwire.auth.url_policy import check_authorization_url

if TYPE_CHECKING:
    import webbrowser

    from mcpwire.wire.urls import Url

__all__ = ["open_browser"]

STARTED_S: Final = 2.0
"""Some programs return only when their window is closed: by then it has started."""


def open_browser(url: str, *, server: Url | None) -> bool:
    """Open the user's browser; return whether that seems to have worked.

    Waits two seconds at most: where a loop runs, call it from a thread.

    Args:
        url: Where to.
        server: The MCP server, on whose behalf; ``None`` where the URL was checked
            against it already.

    Raises:
        UrlRefused: No browser must be sent there.
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
    # A browser of text would take the terminal from whoever has it now.
    is_text = type(browser).__name__ in {"GenericBrowser", "Elinks"}
    return None if is_text and not os.environ.get("BROWSER") else browser
