"""``mcpwire auth``: log in to a server at a URL, show its login, log out."""

from __future__ import annotations

import asyncio
import math
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
from mcpwire.cli.session import read_stdin, run_command, url_advice
from mcpwire.cli.targets import make_target
from mcpwire.transports.duplex import can_watch
from mcpwire.transports.oauth.interactive_login import returned_parameters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire import LoginStatus
    from mcpwire.cli.options import Options
    from mcpwire.cli.output import Output

MAX_LINE_BYTES: Final = 4_096
"""Bytes of a typed line that a Linux terminal keeps, newline included."""


def _url_command(
    work: Callable[[Options, Output, Http], Awaitable[int]],
) -> Callable[[Options], int]:
    """Return a command that runs a coroutine function with a server at a URL."""

    async def perform(options: Options, output: Output) -> int:
        if not options.is_at_url:
            raise UsageError(
                f"{options.verb} needs a server at a URL, which begins with http:// or "
                "https://"
            )
        target = make_target(options, output)
        assert isinstance(target, Http)
        try:
            return await work(options, output, target)
        except MCPError as error:
            if exit_code(error) == Exit.AUTHORIZATION:
                advise_login(error, options, is_connected=False)
            elif advice := url_advice(error):
                error.add_note(advice)
            raise

    return lambda options: run_command(options, lambda out, _: perform(options, out))


@_url_command
async def log_in(options: Options, output: Output, target: Http) -> int:
    """Log in to a server."""
    before = login_status(target)
    assert isinstance(target.grant, OAuth)
    stored_grant = attrs.evolve(target.grant, storage=None)  # as the next command's
    current: LoginStatus | None
    if options.callback_url is not None:
        current = await finish_login(target, _read_callback_url(options.callback_url))
    elif options.no_browser:
        current = await _paste_login(output, target)
    else:
        current = await login(target)
    if current is None:
        output.note(f"{target} requires no login")
    elif login_status(attrs.evolve(target, auth=stored_grant)) is None:
        raise StorageError(
            "the login succeeded, but cannot be stored; -v shows why, and "
            "XDG_STATE_HOME selects another folder"
        )
    elif current == before:
        output.note("already logged in; `mcpwire auth logout URL` logs out")
    return _print_status(output, current)


async def _paste_login(output: Output, target: Http) -> LoginStatus | None:
    """Print the login URL and read the redirect URL that the user pastes."""
    pending = await begin_login(target)
    if pending is None:
        return login_status(target)
    if not (output.can_prompt and can_watch(asyncio.get_running_loop())):
        raise AuthRequired(
            f"{target}: a user must log in", url=pending.url, scopes=pending.scopes
        )
    output.note(f"log in at {pending.url}")
    output.note("then paste the whole URL that the browser is redirected to; its page")
    output.note("is not expected to load")
    while not _is_callback_url(line := await _read_line(output)):
        output.note("this is not the URL of the redirect after a login")
    return await finish_login(target, line)


def _read_callback_url(word: str) -> str:
    """Return the URL from the source that ``--callback-url`` names."""
    if word != "-" and not word.startswith("@"):
        raise UsageError(  # without the word, which holds a secret
            "--callback-url: every process of the machine can read a command line; "
            "- reads the URL from standard input, @FILE from a file"
        )
    text = read_source(word).strip()
    if not _is_callback_url(text):
        raise UsageError(
            "--callback-url: this is not the URL of the redirect after a login"
        )
    return text


def _is_callback_url(text: str) -> bool:
    """Return whether a URL may be an authorization response (RFC 6749 4.1.2)."""
    names = returned_parameters(text).keys()
    return "state" in names and not names.isdisjoint({"code", "error"})


async def _read_line(output: Output) -> str:
    with output.prompting("> "):
        line = await read_stdin()
    if not line.strip():
        raise UsageError("no URL was given")
    if len(line) >= MAX_LINE_BYTES:
        raise UsageError(
            f"a terminal reads at most {MAX_LINE_BYTES - 1:,} characters of a line: "
            "write the URL to a file, and use --callback-url @FILE"
        )
    return line.decode("utf-8", "replace").strip()


@_url_command
async def status(_: Options, output: Output, target: Http) -> int:
    """Show the login to a server."""
    current = login_status(target)
    code = _print_status(output, current)
    if current is None:
        return Exit.AUTHORIZATION
    is_expired = (current.expires_at or math.inf) <= time.time()
    return Exit.AUTHORIZATION if is_expired and not current.can_refresh else code


@_url_command
async def log_out(_: Options, output: Output, target: Http) -> int:
    """Delete the stored login to a server, and revoke its tokens if possible."""
    was_deleted = await logout(target)
    document = {"server": str(target), "forgotten": was_deleted}
    text = "logged out of" if was_deleted else "no login was stored for"
    output.result(document, [one_line(f"{text} {target}")])
    return Exit.OK


def _print_status(output: Output, current: LoginStatus | None) -> int:
    if current is None:
        output.result(None, ["not logged in"])
    else:
        rows = {
            "server": current.server,
            "profile": current.profile,
            "issuer": current.issuer,
            "client": current.client_id,
            "scopes": " ".join(current.scopes or ()) or "unknown",
            "token": _validity(current),
        }
        lines = (f"{name:<8} {one_line(text)}" for name, text in rows.items())
        output.result(attrs.asdict(current), lines)
    return Exit.OK


def _validity(current: LoginStatus) -> str:
    renewal = "renewed automatically" if current.can_refresh else "not renewed"
    if current.expires_at is None:
        return f"valid, no known expiry, {renewal}"
    expiry = datetime.fromtimestamp(current.expires_at, UTC).strftime(
        "%Y-%m-%d %H:%M UTC"
    )
    is_expired = current.expires_at <= time.time()
    return f"{'expired' if is_expired else 'valid until'} {expiry}, {renewal}"
