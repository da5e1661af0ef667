"""Authorization of a command: a token from an environment variable, or a login."""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli.failures import UsageError
from mcpwire.cli.options import Login, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.cli.options import Options
    from mcpwire.cli.output import Output

LOGIN_TIMEOUT_S: Final = 300.0
"""Time limit of an interactive login."""

VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
"""Variable names that messages may show; any other text may be the secret itself."""

_FLAGS: Final = {
    "ca_file": "--ca",
    "client_cert": "--cert",
    "client_id": "--client-id",
    "client_secret": "--client-secret-env",
    "issuer": "--issuer",
    "profile": "--profile",
    "proxy": "--proxy",
    "scopes": "--scope",
    "pass allow_insecure=True": "pass --allow-insecure",
}
"""Parameter of the library -> flag of the command line."""


@contextlib.contextmanager
def flag_errors() -> Iterator[None]:
    """Convert a `ValueError` to a usage error that names flags, not parameters."""
    try:
        yield
    except ValueError as error:
        names = "|".join(map(re.escape, _FLAGS))
        pattern = rf"(?<!-)\b({names})\b"
        message = re.sub(pattern, lambda match: _FLAGS[match[0]], str(error))
        raise UsageError(message) from error


def make_auth(
    options: Options, output: Output, headers: dict[str, str], configured: Any
) -> Any:
    """Return the ``auth`` argument of `Http`; ``None``: no authorization.

    The precedence is: a header, options for a login, the configuration, a stored login.
    """
    flags = options.flags(Tokens, Login)
    if any(name.lower() == "authorization" for name in headers):
        for flag in [options.verb] if options.verb.startswith("auth ") else flags:
            raise UsageError(f"a header Authorization and {flag} exclude each other")
        return None
    if options.auth_env is not None:
        for flag in flags:
            if flag != "--auth-env":
                raise UsageError(f"--auth-env and {flag} exclude each other")
        token = _read_variable("--auth-env", options.auth_env)
        if not (token.isascii() and token.isprintable()) or " " in token:
            name = _safe_name(options.auth_env)
            raise UsageError(f"--auth-env: {name} does not contain a token")
        return token
    if configured is not None and not flags:
        return _interactive_grant(configured, options, output)
    if flags or options.verb.startswith("auth ") or _has_login(options):
        return _oauth(options, output)
    return None


def _has_login(options: Options) -> bool:
    """Return whether a login to the target's URL is stored."""
    from mcpwire.transports.oauth.storage import default_path

    try:
        if not default_path().exists():  # most users: saves the imports below
            return False
    except OSError:  # there is no folder for state
        return False
    from mcpwire import MCPError, OAuth, login_status
    from mcpwire.transports.http.target import Http

    try:
        url, allow_insecure = options.command[0], options.allow_insecure
        http = Http(url, auth=OAuth(), allow_insecure=allow_insecure)
        return login_status(http) is not None
    except (MCPError, ValueError):  # reported when the target is created
        return False


def _interactive_grant(configured: Any, options: Options, output: Output) -> Any:
    """Return the configured grant; an `OAuth` gets this terminal's prompts."""
    from mcpwire import OAuth

    grant = OAuth() if configured == "oauth" else configured
    if isinstance(grant, OAuth):
        import attrs

        settings = _interactive_options(options, output)
        for name in ("interactive", "open_browser"):
            if not getattr(grant, name):
                settings[name] = False
        return attrs.evolve(grant, **settings)
    if options.verb.startswith("auth "):
        raise UsageError("the login of this server is configured, and needs no user")
    return grant


def _interactive_options(options: Options, output: Output) -> dict[str, Any]:
    """Return the `OAuth` arguments for an interactive login, if the command has one."""
    if Login not in options.groups:
        return {"interactive": False}  # `bench`: other processes use the target

    def show(url: str) -> None:
        output.event("login", {"url": url}, f"log in at {url}")

    def open_url(url: str) -> None:
        from mcpwire.transports.oauth.interactive_login import open_browser

        if not open_browser(url, server=None):  # already checked against the server
            output.note(
                "no browser could be opened; to use one on another machine, press "
                "Ctrl-C and run `mcpwire auth login URL --no-browser`"
            )

    may_ask = options.may_ask and not (options.no_browser or options.callback_url)
    timeout = (options.verb == "auth login" and options.timeout) or LOGIN_TIMEOUT_S
    return {
        "interactive": output.can_prompt and may_ask,
        "on_url": show,
        "open_browser": open_url,
        "timeout": None if timeout == math.inf else timeout,
    }


def _oauth(options: Options, output: Output) -> Any:
    from mcpwire import OAuth

    secret = None
    if options.client_secret_env is not None:
        secret = _read_variable("--client-secret-env", options.client_secret_env)
    with flag_errors():
        return OAuth(
            client_id=options.client_id,
            client_secret=secret,
            issuer=options.issuer,
            scopes=" ".join(options.scopes) if options.scopes else None,
            profile=options.profile or "default",
            **_interactive_options(options, output),
        )


def _read_variable(option: str, name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        reason = f" {name}: {name}" if VARIABLE.fullmatch(name) else ": the variable"
        raise UsageError(f"{option}{reason} is not set")
    return value


def advise_login(error: BaseException, options: Options, *, is_connected: bool) -> None:
    """Add a hint on how to log in to an authorization error."""
    from mcpwire import AuthError, AuthRequired, InsufficientScope, ResponseRefused

    # An `InsufficientScope` of a grant has no cause: the server refused our token.
    is_without_login = isinstance(error, InsufficientScope) and error.__cause__

    if isinstance(error, AuthRequired) and error.url is not None:
        import shlex

        # The profile is the only option that selects the login to continue.
        profile = (
            f"--profile {shlex.quote(options.profile)} " if options.profile else ""
        )
        error.add_note(
            f"log in at {error.url} and give the URL of the redirect to "
            f"`mcpwire auth login URL {profile}--callback-url -`"
        )
    elif isinstance(error, ResponseRefused) and error.parameter == "state":
        error.add_note("log in again; each login has its own redirect URL")
    elif isinstance(error, AuthError) and (options.auth_env or not is_without_login):
        return
    elif options.auth_env is not None:
        error.add_note(
            f"the server refused the token of {_safe_name(options.auth_env)}"
        )
    elif is_connected:
        # `auth login` would only connect, which this command has done already.
        error.add_note("--auth logs in; --auth-env VARIABLE sends a token")
    else:
        error.add_note(
            "`mcpwire auth login URL` logs in; --auth-env VARIABLE sends a token"
        )


def _safe_name(name: str) -> str:
    return name if VARIABLE.fullmatch(name) else "the variable"
