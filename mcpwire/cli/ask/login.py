"""``mcpwire auth``: logs in at a URL, says whether somebody is, and logs out."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli.failures import Exit, UsageError
from mcpwire.cli.target.making import target_of
from mcpwire.cli.text.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire import Http, LoginStatus
    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output

__all__ = ["perform"]


async def perform(options: Options, output: Output) -> int:
    """Run one of the three commands; return the exit code."""
    if not options.is_at_url:
        raise UsageError("only servers at a URL are logged in to")
    target: Any = target_of(options, None, output)
    return await _VERBS[options.verb](options, output, target)


async def _login(options: Options, output: Output, target: Http) -> int:
    from mcpwire import login

    if options.no_browser:
        status = await _by_hand(output, target)
    else:
        status = await login(target)
    if status is None:
        output.note(f"{target} wants no login")
        return _show(output, None)
    return _show(output, status)


async def _by_hand(output: Output, target: Http) -> LoginStatus | None:
    """Have the user carry the URLs: where the browser is, we are not."""
    from mcpwire import begin_login, finish_login, login_status

    begun = await begin_login(target)
    if begun is None:
        return login_status(target)
    output.note(f"log in at {begun.url}")
    output.note("then paste the whole URL that the browser was sent to, and Enter:")
    returned = await asyncio.to_thread(sys.stdin.readline)
    if not returned.strip():
        raise UsageError("no URL came from standard input")
    return await finish_login(target, returned.strip())


async def _status(_: Options, output: Output, target: Http) -> int:
    from mcpwire import login_status

    return _show(output, login_status(target), Exit.AUTHORIZATION)


async def _logout(_: Options, output: Output, target: Http) -> int:
    from mcpwire import logout

    was_there = await logout(target)
    if output.is_json:
        output.document({"server": str(target), "forgotten": was_there})
    else:
        said = "logged out of" if was_there else "there was no login to"
        output.lines([one_line(f"{said} {target}")])
    return Exit.OK


def _show(output: Output, status: LoginStatus | None, missing: int = Exit.OK) -> int:
    if output.is_json:
        output.document(None if status is None else _document(status))
    elif status is None:
        output.lines(["not logged in"])
    else:
        output.lines(f"{name:<8} {one_line(text)}" for name, text in _lines(status))
    return Exit.OK if status is not None else missing


def _document(status: LoginStatus) -> dict[str, Any]:
    import attrs

    return attrs.asdict(status)


def _lines(status: LoginStatus) -> list[tuple[str, str]]:
    ends = "nobody knows"
    if status.expires_at is not None:
        ends = datetime.fromtimestamp(status.expires_at, UTC).isoformat(" ", "seconds")
    renewed = "renewed by itself" if status.can_refresh else "not renewed"
    return [
        ("server", status.server),
        ("profile", status.profile),
        ("issuer", status.issuer),
        ("client", status.client_id),
        ("scopes", " ".join(status.scopes or ()) or "not known"),
        ("ends", f"{ends} ({renewed})"),
    ]


_VERBS: Final[dict[str, Callable[[Options, Output, Http], Awaitable[int]]]] = {
    "auth login": _login,
    "auth status": _status,
    "auth logout": _logout,
}
