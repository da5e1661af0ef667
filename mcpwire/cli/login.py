"""``mcpwire auth``: logs in at a URL, says whether somebody is, and logs out."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire import (
    AuthRequired,
    Http,
    MCPError,
    OAuth,
    StorageError,
    begin_login,
    finish_login,
    login,
    login_status,
    logout,
)
from mcpwire.cli.auth import advise_login
from mcpwire.cli.escape import one_line
from mcpwire.cli.failures import Exit, UsageError, exit_code
from mcpwire.cli.interactive import Left
from mcpwire.cli.output import read_file, read_input
from mcpwire.cli.session import advice_at_url
from mcpwire.cli.targets import target_of
from mcpwire.protocol.elicitation import describe_url
from mcpwire.transports.duplex import can_watch
from mcpwire.transports.oauth.interactive_login import returned_parameters
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire import LoginStatus
    from mcpwire.cli.grammar import Options
    from mcpwire.cli.interactive import Asker, Person
    from mcpwire.cli.output import Output
    from mcpwire.types import ElicitAction


__all__ = [
    "ask_consent",
    "is_done_there",
    "open_in_browser",
    "perform",
]

LONGEST_LINE: Final = 4_096
"""What Linux keeps of a line that is typed, its newline included."""


async def perform(options: Options, output: Output) -> int:
    """Run one of the three commands; return the exit code."""
    if not options.is_at_url:
        raise UsageError(
            "only servers at a URL are logged in to, which begins with http:// or "
            "https://"
        )
    target = target_of(options, None, output)
    assert isinstance(target, Http)
    try:
        return await _VERBS[options.verb](options, output, target)
    except MCPError as error:
        if exit_code(error) == Exit.AUTHORIZATION:
            advise_login(error, options, is_late=False)
        elif advice := advice_at_url(error):
            error.add_note(advice)
        raise


async def _login(options: Options, output: Output, target: Http) -> int:
    before = login_status(target)
    status: LoginStatus | None
    if options.callback_url is not None:
        status = await finish_login(target, _read_returned(options.callback_url))
    elif options.no_browser:
        status = await _by_hand(output, target)
    else:
        status = await login(target)
    if status is None:
        output.note(f"{target} wants no login")
    elif _kept(target) is None:
        raise StorageError(
            "the login worked, and cannot be kept; -v shows why, and XDG_STATE_HOME "
            "names another folder for it"
        )
    elif status == before:
        output.note("there was a login already; `mcpwire auth logout URL` ends it")
    return _show(output, status)


def _kept(target: Http) -> LoginStatus | None:
    """Return what the next command will find."""
    grant = target.grant
    assert isinstance(grant, OAuth)
    return login_status(attrs.evolve(target, auth=attrs.evolve(grant, storage=None)))


async def _by_hand(output: Output, target: Http) -> LoginStatus | None:
    """Have the user carry the URLs: where the browser is, we are not."""
    begun = await begin_login(target)
    if begun is None:
        return login_status(target)
    if not (output.can_ask and can_watch(asyncio.get_running_loop())):
        raise AuthRequired(
            f"{target}: somebody has to log in", url=begun.url, scopes=begun.scopes
        )
    output.note(f"log in at {begun.url}")
    output.note("then paste the whole URL that the browser ends at; that its page does")
    output.note("not load is as it should be: nobody listens there")
    while not _is_returned(line := await _line(output)):
        output.note("that is not where the browser is sent to after the login")
    return await finish_login(target, line)


def _read_returned(word: str) -> str:
    """Return the URL that was given to ``--callback-url``."""
    if word != "-" and not word.startswith("@"):
        raise UsageError(  # and it is not shown, for what it holds is a secret
            "--callback-url: every process of the machine can read what stands in a "
            "command line; - takes it from standard input, @FILE from a file"
        )
    text = (read_input() if word == "-" else read_file(word[1:])).strip()
    if not _is_returned(text):
        raise UsageError(
            "--callback-url: that is not where the browser is sent to after the login"
        )
    return text


def _is_returned(text: str) -> bool:
    """Tell whether a URL may be an answer (RFC 6749 section 4.1.2)."""
    names = returned_parameters(text).keys()
    return "state" in names and not names.isdisjoint({"code", "error"})


async def _line(output: Output) -> str:
    """Return the next line from the terminal.

    Raises:
        UsageError: There is none, or the terminal has cut it.
    """
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()
    fd = sys.stdin.fileno()

    def readable() -> None:
        if not read.done():
            try:
                read.set_result(os.read(fd, LONGEST_LINE + 1))
            except OSError:  # the terminal has gone
                read.set_result(b"")

    with output.prompting("> "):
        loop.add_reader(fd, readable)
        try:
            line = await read
        finally:
            loop.remove_reader(fd)
    if not line.strip():
        raise UsageError("no URL was given")
    if len(line) >= LONGEST_LINE:
        raise UsageError(
            f"a terminal takes {LONGEST_LINE - 1:,} characters of a line: put the URL "
            "into a file, and give that with --callback-url @FILE"
        )
    return line.decode("utf-8", "replace").strip()


async def _status(_: Options, output: Output, target: Http) -> int:
    status = login_status(target)
    code = _show(output, status)
    return code if status is not None and not _is_over(status) else Exit.AUTHORIZATION


async def _logout(_: Options, output: Output, target: Http) -> int:
    was_there = await logout(target)
    if output.is_json:
        output.document({"server": str(target), "forgotten": was_there})
    else:
        said = "logged out of" if was_there else "there was no login to"
        output.lines([one_line(f"{said} {target}")])
    return Exit.OK


def _show(output: Output, status: LoginStatus | None) -> int:
    if output.is_json:
        output.document(None if status is None else attrs.asdict(status))
    elif status is None:
        output.lines(["not logged in"])
    else:
        output.lines(f"{name:<8} {one_line(text)}" for name, text in _lines(status))
    return Exit.OK


def _is_over(status: LoginStatus) -> bool:
    """Tell whether a login is of no use any more."""
    ends = status.expires_at
    return ends is not None and ends <= time.time() and not status.can_refresh


def _lines(status: LoginStatus) -> list[tuple[str, str]]:
    return [
        ("server", status.server),
        ("profile", status.profile),
        ("issuer", status.issuer),
        ("client", status.client_id),
        ("scopes", " ".join(status.scopes or ()) or "not known"),
        ("token", _validity(status)),
    ]


def _validity(status: LoginStatus) -> str:
    renewed = "renewed by itself" if status.can_refresh else "not renewed"
    if status.expires_at is None:
        return f"good until the server says otherwise, {renewed}"
    ends = datetime.fromtimestamp(status.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    has_ended = status.expires_at <= time.time()
    return f"{'ended' if has_ended else 'good until'} {ends}, {renewed}"


_VERBS: Final[dict[str, Callable[[Options, Output, Http], Awaitable[int]]]] = {
    "auth login": _login,
    "auth status": _status,
    "auth logout": _logout,
}


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
    """Open the page in a browser, unless the user opens it."""
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
