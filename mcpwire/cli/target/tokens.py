"""Which tokens a command sends to a URL: one of a variable, or those of a login."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mcpwire.cli.failures import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output

__all__ = ["LOGIN_OPTIONS", "add_login_options", "auth_of", "has_login"]

LOGIN_OPTIONS = {
    "auth": "--auth",
    "auth_env": "--auth-env",
    "client_id": "--client-id",
    "client_secret_env": "--client-secret-env",
    "issuer": "--issuer",
    "scopes": "--scope",
    "profile": "--profile",
}
"""Options that only servers at a URL have."""


def add_login_options(parser: argparse.ArgumentParser) -> None:
    """Add what is about logging in."""
    group = parser.add_argument_group("authorization of a server at a URL")
    group.add_argument(
        "--auth",
        action="store_true",
        help="log in with the browser where the server wants that; without it the "
        "login of `mcpwire auth login` is used, if there is one",
    )
    group.add_argument(
        "--auth-env", metavar="VARIABLE", help="send the token that this variable holds"
    )
    group.add_argument(
        "--client-id", metavar="ID", help="this client, as it is registered there"
    )
    group.add_argument(
        "--client-secret-env",
        metavar="VARIABLE",
        help="and the variable that holds its secret; needs --issuer",
    )
    group.add_argument(
        "--issuer", metavar="URL", help="the authorization server that they belong to"
    )
    group.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        metavar="SCOPE",
        help="ask for this instead of what the server names",
    )
    group.add_argument(
        "--profile", metavar="NAME", help="which of several accounts (default)"
    )


def auth_of(options: Options, output: Output | None) -> Any:
    """Return what `Http` is given as ``auth``; ``None``: nothing.

    Raises:
        UsageError: An option makes no sense, or a variable is not set.
    """
    if options.auth_env is not None:
        other = [name for name in LOGIN_OPTIONS if name != "auth_env"]
        for name in other:
            if getattr(options, name):
                raise UsageError(
                    f"--auth-env and {LOGIN_OPTIONS[name]} exclude each other"
                )
        return _variable("--auth-env", options.auth_env)
    wants = any(
        getattr(options, name) for name in ("client_id", "client_secret_env", "issuer")
    )
    if not (options.auth or options.verb.startswith("auth ") or wants):
        is_logged_in = has_login(options)
        if not is_logged_in:
            return None
    return _oauth(options, output)


def has_login(options: Options) -> bool:
    """Tell whether a login to that URL is stored."""
    from mcpwire.transports.oauth.storage.private import default_path

    if not default_path().exists():  # most have none, and load nothing for it
        return False
    from mcpwire import MCPError, OAuth, login_status
    from mcpwire.transports.http.target import Http

    oauth = OAuth(profile=options.profile or "default")
    try:
        http = Http(
            options.command[0].strip(),
            auth=oauth,
            allow_insecure=options.allow_insecure,
        )
        return login_status(http) is not None
    except (MCPError, ValueError):  # whoever opens it says what is wrong
        return False


def _oauth(options: Options, output: Output | None) -> Any:
    from mcpwire import OAuth

    secret = None
    if options.client_secret_env is not None:
        secret = _variable("--client-secret-env", options.client_secret_env)
    may_ask = options.may_ask and not options.no_browser
    is_there = output is not None and output.can_ask
    try:
        return OAuth(
            client_id=options.client_id,
            client_secret=secret,
            issuer=options.issuer,
            scopes=" ".join(options.scopes) if options.scopes else None,
            profile=options.profile or "default",
            interactive=may_ask and is_there,
            on_url=None if output is None else _show_with(output),
        )
    except ValueError as error:
        raise UsageError(_as_options(str(error))) from error


def _show_with(output: Output) -> Callable[[str], None]:
    return lambda url: output.note(f"log in at {url}")


def _as_options(text: str) -> str:
    for name, option in LOGIN_OPTIONS.items():
        text = text.replace(name, option)
    return text


def _variable(option: str, name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"{option} {name}: {name} is not set")
    return value.strip()
