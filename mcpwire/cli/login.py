"""``mcpwire auth``: log in to a server at a URL, show its login, log out."""

from __future__ import annotations

import asyncio
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
from mcpwire.cli.failures import Exit, UsageError, exit_code
from mcpwire.cli.output import one_line, read_source
from mcpwire.cli.session import advice_at_url, run_command, typed
from mcpwire.cli.targets import target_of
from mcpwire.transports.duplex import can_watch
from mcpwire.transports.oauth.interactive_login import returned_parameters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire import LoginStatus
    from mcpwire.cli.options import Options
    from mcpwire.cli.output import Output

LONGEST_LINE: Final = 4_096
"""Bytes of a typed line that a Linux terminal keeps, newline included."""


def _at_url(
    work: Callable[[Options, Output, Http], Awaitable[int]],
) -> Callable[[Options], int]:
    """Return a command that runs a coroutine function with a server at a URL."""

    async def perform(options: Options, output: Output) -> int:
        if not options.is_at_url:
            raise UsageError(
                "only servers at a URL are logged in to, which begins with http:// or "
                "https://"
            )
        target = target_of(options, output)
        assert isinstance(target, Http)
        try:
            return await work(options, output, target)
        except MCPError as error:
            if exit_code(error) == Exit.AUTHORIZATION:
                advise_login(error, options, is_late=False)
            elif advice := advice_at_url(error):
                error.add_note(advice)
            raise

    return lambda options: run_command(options, lambda out, _: perform(options, out))


@_at_url
async def log_in(options: Options, output: Output, target: Http) -> int:
    """Log in to a server."""
    before = login_status(target)
    found: LoginStatus | None
    if options.callback_url is not None:
        found = await finish_login(target, _read_returned(options.callback_url))
    elif options.no_browser:
        found = await _by_hand(output, target)
    else:
        found = await login(target)
    if found is None:
        output.note(f"{target} wants no login")
    elif _kept(target) is None:
        raise StorageError(
            "the login worked, and cannot be kept; -v shows why, and XDG_STATE_HOME "
            "names another folder for it"
        )
    elif found == before:
        output.note("there was a login already; `mcpwire auth logout URL` ends it")
    return _show(output, found)


def _kept(target: Http) -> LoginStatus | None:
    """Return the login as the next command will read it from the storage."""
    grant = target.grant
    assert isinstance(grant, OAuth)
    return login_status(attrs.evolve(target, auth=attrs.evolve(grant, storage=None)))


async def _by_hand(output: Output, target: Http) -> LoginStatus | None:
    """Print the login URL and read the redirect URL that the user pastes."""
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
    """Return the URL from the source that ``--callback-url`` names."""
    if word != "-" and not word.startswith("@"):
        raise UsageError(  # without the word, which holds a secret
            "--callback-url: every process of the machine can read what stands in a "
            "command line; - takes it from standard input, @FILE from a file"
        )
    text = read_source(word).strip()
    if not _is_returned(text):
        raise UsageError(
            "--callback-url: that is not where the browser is sent to after the login"
        )
    return text


def _is_returned(text: str) -> bool:
    """Return whether a URL may be an authorization response (RFC 6749 4.1.2)."""
    names = returned_parameters(text).keys()
    return "state" in names and not names.isdisjoint({"code", "error"})


async def _line(output: Output) -> str:
    """Return the next line from the terminal."""
    with output.prompting("> "):
        line = await typed()
    if not line.strip():
        raise UsageError("no URL was given")
    if len(line) >= LONGEST_LINE:
        raise UsageError(
            f"a terminal takes {LONGEST_LINE - 1:,} characters of a line: put the URL "
            "into a file, and give that with --callback-url @FILE"
        )
    return line.decode("utf-8", "replace").strip()


@_at_url
async def status(_: Options, output: Output, target: Http) -> int:
    """Show the login to a server."""
    found = login_status(target)
    code = _show(output, found)
    if found is None:
        return Exit.AUTHORIZATION
    ends = found.expires_at
    is_over = ends is not None and ends <= time.time() and not found.can_refresh
    return Exit.AUTHORIZATION if is_over else code


@_at_url
async def log_out(_: Options, output: Output, target: Http) -> int:
    """Delete the stored login to a server, and revoke its tokens if possible."""
    was_there = await logout(target)
    document = {"server": str(target), "forgotten": was_there}
    said = "logged out of" if was_there else "there was no login to"
    output.result(document, [one_line(f"{said} {target}")])
    return Exit.OK


def _show(output: Output, found: LoginStatus | None) -> int:
    if found is None:
        output.result(None, ["not logged in"])
    else:
        rows = {
            "server": found.server,
            "profile": found.profile,
            "issuer": found.issuer,
            "client": found.client_id,
            "scopes": " ".join(found.scopes or ()) or "not known",
            "token": _validity(found),
        }
        lines = (f"{name:<8} {one_line(text)}" for name, text in rows.items())
        output.result(attrs.asdict(found), lines)
    return Exit.OK


def _validity(found: LoginStatus) -> str:
    renewed = "renewed by itself" if found.can_refresh else "not renewed"
    if found.expires_at is None:
        return f"good until the server says otherwise, {renewed}"
    ends = datetime.fromtimestamp(found.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    has_ended = found.expires_at <= time.time()
    return f"{'ended' if has_ended else 'good until'} {ends}, {renewed}"
