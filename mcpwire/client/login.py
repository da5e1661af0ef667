"""OAuth login and logout without an MCP call, for command lines and web hosts."""

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
from mcpwire.transports.oauth.storage import CredentialStore, storage_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.auth.records import Record
    from mcpwire.limits import Limits


async def login(
    target: str | Http, *, limits: Limits = DEFAULT_LIMITS
) -> LoginStatus | None:
    """Log in now, if the server requires it, instead of with the first call.

    Cancelling it ends the login; credentials stored before stay.

    Args:
        target: The server's URL, or an `Http` with an ``auth`` that can log in.
        limits: Limits on the resources that a peer can consume.

    Returns:
        The status of the stored login; ``None`` if the server requires no login.

    Raises:
        AuthError: The login failed; its class documents the remedy.
        MCPError: The server is unreachable.
        ValueError: The target is not a URL, or its ``auth`` needs no login.
    """
    http = _as_http(target)
    _grant(http)
    async with Client(http, limits=limits) as client:
        await _probe_login(client)
    return login_status(http)


async def begin_login(
    target: str | Http, *, limits: Limits = DEFAULT_LIMITS
) -> Login | None:
    """Begin a login that `finish_login` completes, possibly in another process.

    Both need the same ``auth``, with a storage that both can access.

    Returns:
        The URL to send the user to; ``None`` if no login is required.

    Raises:
        AuthError: The login cannot begin.
        MCPError: The server is unreachable.
        ValueError: The target is not a URL, or its ``auth`` involves no user.
    """
    http = _as_http(target)
    grant = _oauth_grant(http)
    # Both share one storage, even if `grant` names none.
    unattended = attrs.evolve(grant, interactive=False, storage=storage_for(grant))
    unattended_http = attrs.evolve(http, auth=unattended)
    try:
        async with Client(unattended_http, limits=limits) as client:
            await _probe_login(client)
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
    """Complete a login that `begin_login` began; return its status.

    Args:
        target: The same target as for `begin_login`.
        returned: The full URL of the redirect back to the client, or its parameters.
        limits: Limits on the resources that a peer can consume.

    Raises:
        AuthRequired: No login was begun, or it has expired or was already used.
        ConsentDenied: The user or the server refused.
        ResponseRefused: The parameters belong to another login, which stays begun.
        AuthError: The server issued no tokens.
    """
    http = _as_http(target)
    authorizer = Authorizer(_oauth_grant(http), http, limits)
    record = await authorizer.finish(returned_parameters(returned))
    return _make_status(http, record)


async def logout(target: str | Http, *, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Delete the stored tokens for a server, and revoke them there (RFC 7009).

    Returns whether tokens were stored. They are deleted even if the revocation fails.

    Raises:
        StorageError: The tokens cannot be deleted.
        ValueError: The target is not a URL, or its ``auth`` needs no login.
    """
    http = _as_http(target)
    return await Authorizer(_grant(http), http, limits).revoke()


def login_status(target: str | Http) -> LoginStatus | None:
    """Return the status of the stored login to a server; ``None``: not logged in.

    Raises:
        ValueError: The target is not a URL, or its ``auth`` needs no login.
    """
    http = _as_http(target)
    record = CredentialStore(_grant(http), http, DEFAULT_LIMITS).perform(steps.Load())
    return (
        None if record is None or record.tokens is None else _make_status(http, record)
    )


async def _probe_login(client: Client) -> None:
    """Send a list request: some servers require a token only after the handshake."""
    declared = client.capabilities
    if declared is None:
        return
    with suppress(RPCError):  # an error reply also shows that no login is required
        if declared.tools is not None:
            await client.list_tools_page()
        elif declared.resources is not None:
            await client.list_resources_page()
        elif declared.prompts is not None:
            await client.list_prompts_page()


def _as_http(target: Any) -> Http:
    if isinstance(target, str):
        return Http(target, auth="oauth")
    if not isinstance(target, Http):
        raise ValueError(f"only a URL can be logged in to, got {target!r}")
    return target if target.auth is not None else attrs.evolve(target, auth="oauth")


def _grant(http: Http) -> Grant:
    if http.grant is None:
        raise ValueError("auth is a token: there is nothing to log in for")
    return http.grant


def _oauth_grant(http: Http) -> OAuth:
    grant = _grant(http)
    if not isinstance(grant, OAuth):
        raise ValueError(f"auth is {type(grant).__name__}: it needs no user")
    return grant


def _make_status(http: Http, record: Record) -> LoginStatus:
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
