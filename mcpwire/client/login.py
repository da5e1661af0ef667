"""Logging in and out apart from any call: for command lines and for web hosts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import AuthRequired
from mcpwire.auth.records import Login, LoginStatus
from mcpwire.client import Client
from mcpwire.errors import RPCError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.transports.http.target import Http
from mcpwire.transports.oauth.authorizer import Authorizer
from mcpwire.transports.oauth.interactive_login import returned_parameters
from mcpwire.transports.oauth.storage import CredentialStore, storage_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.auth.records import Record
    from mcpwire.limits import Limits

__all__ = [
    "begin_login",
    "finish_login",
    "login",
    "login_status",
    "logout",
]


async def login(
    target: str | Http, *, limits: Limits = DEFAULT_LIMITS
) -> LoginStatus | None:
    """Log in now, where the server wants that, instead of with the first call.

    Cancelling it ends the login; what was stored before stays.

    Args:
        target: The server's URL, or an `Http` with an ``auth`` that can log in.
        limits: What a peer may cost.

    Returns:
        What is stored by now; ``None`` where the server wants no login.

    Raises:
        AuthError: The login failed; the class says what to do about it.
        MCPError: The server cannot be reached.
        ValueError: The target is no URL, or its ``auth`` needs no login.
    """
    http = _http(target)
    _grant(http)
    async with Client(http, limits=limits) as client:
        await _knock(client)
    return login_status(http)


async def begin_login(
    target: str | Http, *, limits: Limits = DEFAULT_LIMITS
) -> Login | None:
    """Begin a login that `finish_login` finishes, perhaps in another process.

    Both must be given the same ``auth``, with a storage that both can use.

    Returns:
        Where to send the user; ``None`` where nobody has to log in.

    Raises:
        AuthError: No login can be begun.
        MCPError: The server cannot be reached.
        ValueError: The target is no URL, or its ``auth`` asks no user.
    """
    http = _http(target)
    grant = _asking(http)
    # The same one, also where none was given.
    quiet = attrs.evolve(grant, interactive=False, storage=storage_of(grant))
    alone = attrs.evolve(http, auth=quiet)
    try:
        async with Client(alone, limits=limits) as client:
            await _knock(client)
            return None
    except AuthRequired as required:
        if required.url is None:
            raise
        return Login(required.url, required.scopes)


async def finish_login(
    target: str | Http,
    returned: str | Mapping[str, str],
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> LoginStatus:
    """Finish a login that `begin_login` began.

    Args:
        target: The same as then.
        returned: The whole URL that the user came back to, or its parameters.
        limits: What a peer may cost.

    Raises:
        AuthRequired: None was begun, or too long ago, or it was tried already.
        ConsentDenied: The user, or the server, did not agree; or this is the answer to
            another login.
        AuthError: The server gave no tokens.
    """
    http = _http(target)
    authorizer = Authorizer(_asking(http), http, limits)
    record = await authorizer.finish(returned_parameters(returned))
    return _status(http, record)


async def logout(target: str | Http, *, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Forget the tokens for a server, and ask it to forget them (RFC 7009).

    Returns whether there were any. They are forgotten here whatever the server says.

    Raises:
        StorageError: They cannot be removed.
        ValueError: The target is no URL, or its ``auth`` needs no login.
    """
    http = _http(target)
    return await Authorizer(_grant(http), http, limits).revoke()


def login_status(target: str | Http) -> LoginStatus | None:
    """Return what is stored of the login to a server; ``None``: nothing.

    Raises:
        ValueError: The target is no URL, or its ``auth`` needs no login.
    """
    http = _http(target)
    record = CredentialStore(_grant(http), http, DEFAULT_LIMITS).perform(steps.Load())
    return None if record is None or record.tokens is None else _status(http, record)


async def _knock(client: Client) -> None:
    """Ask for something: some servers let everybody in, and want a token after that."""
    declared = client.capabilities
    if declared is None:
        return
    with suppress(RPCError):  # another answer than to turn us away is good enough
        if declared.tools is not None:
            await client.list_tools_page()
        elif declared.resources is not None:
            await client.list_resources_page()
        elif declared.prompts is not None:
            await client.list_prompts_page()


def _http(target: Any) -> Http:
    if isinstance(target, str):
        return Http(target, auth="oauth")
    if not isinstance(target, Http):
        raise ValueError(f"only a URL can be logged in to, got {target!r}")
    return target if target.auth is not None else attrs.evolve(target, auth="oauth")


def _grant(http: Http) -> Grant:
    if http.grant is None:
        raise ValueError("auth is a token: there is nothing to log in for")
    return http.grant


def _asking(http: Http) -> OAuth:
    grant = _grant(http)
    if not isinstance(grant, OAuth):
        raise ValueError(f"auth is {type(grant).__name__}: it asks no user")
    return grant


def _status(http: Http, record: Record) -> LoginStatus:
    tokens = record.tokens
    assert tokens is not None
    return LoginStatus(
        server=str(http),
        profile=_grant(http).profile,
        issuer=record.issuer,
        client_id=record.identity.client_id,
        scopes=tokens.scopes,
        expires_at=tokens.expires_at,
        can_refresh=tokens.refresh_token is not None,
    )
