"""Asks whether a page may be visited; opens it only where it is told to.

2025-11-25 client/elicitation, "Safe URL Handling": the whole URL is shown and its host
stands out, nothing is fetched before, nothing is opened without consent, and what is
opened is opened where neither this program nor a model can look.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from mcpwire.cli.ask.terminal import Left
from mcpwire.cli.text.escape import one_line
from mcpwire.protocol.elicitation import describe_url
from mcpwire.versions import Era

if TYPE_CHECKING:
    from mcpwire.cli.ask.host import Asker
    from mcpwire.cli.ask.terminal import Person
    from mcpwire.types import ElicitAction

__all__ = ["ask_consent", "is_done_there", "open_in_browser"]

ANSWERS: Final = {
    "y": True,
    "yes": True,
    "d": False,
    "n": False,
    "no": False,
    "decline": False,
}

OPENER: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"

OPENING_S: Final = 3.0
"""After this long whatever opens the page is taken for the browser itself."""

STAYING: Final[list[subprocess.Popen[bytes]]] = []
"""Browsers that outlive the command; nobody waits for them."""


async def ask_consent(
    url: str, message: str, asker: Asker, person: Person
) -> ElicitAction:
    """Show where a server wants the person to go; return what is answered."""
    person.show(asker.lines("asks you to visit a page", message, person))
    person.show(_shown(url, person))
    person.forget()
    try:
        while True:
            text = (await person.ask("y agrees, d declines, c cancels > ")).lower()
            text = text.removeprefix("!")
            if text in {"c", "cancel"}:
                return "cancel"
            if text in ANSWERS:
                break
        if not ANSWERS[text]:
            return "decline"
        await _offer_to_open(url, person)
        # From 2026-07-28 on the answer goes with the same call made again, and what
        # was done at the page counts then.
        is_last_word = asker.revision.era is Era.STATELESS
        if is_last_word and not await is_done_there(person):
            return "cancel"
    except Left as left:
        return left.action
    return "accept"


async def is_done_there(person: Person) -> bool:
    """Wait for the person to come back from a page; return whether to go on.

    Raises:
        Left: The question is left open.
    """
    question = "When you are done there: r goes on with the call, c gives it up > "
    while True:
        text = (await person.ask(question)).lower().removeprefix("!")
        if text in {"r", "c"}:
            return text == "r"


def _shown(url: str, person: Person) -> list[str]:
    """Return the URL, whole, its host standing out, and what is odd about it."""
    about = describe_url(url)
    start = url.lower().find(about.host, len("http://"))
    end = start + len(about.host)
    host = person.strong(about.host)
    parts = (url[:start], person.strong(url[start:end]), url[end:])
    lines = ["", f"  URL   {''.join(parts) if start > 0 else url}", f"  host  {host}"]
    if about.unicode_host != about.host:
        lines[-1] += f" (a browser may show {one_line(about.unicode_host)})"
    lines += [f"  {person.strong('Take care')}: {said}" for said in about.warnings]
    return [
        *lines,
        "",
        "Nothing has been fetched or opened. What you do there mcpwire does not see.",
    ]


async def _offer_to_open(url: str, person: Person) -> None:
    """Open the page, if that is wanted; who does not want it opens it themselves."""
    text = await person.ask("o opens it in your browser, Enter leaves that to you > ")
    if text.lower().removeprefix("!") in {"o", "open"}:
        opened = await asyncio.to_thread(open_in_browser, url)
        said = "It was handed to your browser." if opened else "No browser took it."
        person.show([f"  {said}"])


def open_in_browser(url: str) -> bool:
    """Hand a URL to the person's browser; return whether one took it.

    By a process of its own: what browsers print must not come among our results, and
    one that stays must not keep the command.
    """
    process = subprocess.Popen(  # noqa: S603 - no shell; the URL is one checked word
        [sys.executable, "-I", "-c", OPENER, url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(OPENING_S) == 0
    except subprocess.TimeoutExpired:
        STAYING.append(process)
        return True
