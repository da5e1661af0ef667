"""From "no token" to a token, and from one token to the next.

::

    stored and good ────────────────────────────────────► use it
    stored, refresh token ──► lease ──► refresh ────────► store, use it
                                          └─ invalid_grant: forget the tokens
    nothing, or more scopes ─► discovery ─► identity ─► user ─► code ─► store, use it

Only the one that holds the lease asks for a refresh; whoever had to wait looks at what
is stored by then. No lease is held while a user thinks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import attrs

from mcpwire.auth.config import DISCOVERED, OAuth
from mcpwire.auth.discovery import scopes
from mcpwire.auth.discovery.resources import canonical
from mcpwire.auth.discovery.servers import check_pkce, discover
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    ConsentDenied,
    DiscoveryError,
    InsufficientScope,
    TokenError,
)
from mcpwire.auth.exchange import authorization, pkce, registration
from mcpwire.auth.exchange.revocation import revoke_tokens
from mcpwire.auth.exchange.token_endpoint import code_form, refresh_form, request_tokens
from mcpwire.auth.guard import check_authorization_url
from mcpwire.auth.machine import Errand, log_in_unattended
from mcpwire.auth.model import Pending, Record
from mcpwire.auth.steps import (
    Ask,
    Draw,
    Forget,
    Keep,
    Lease,
    Listen,
    Load,
    NewKey,
    Now,
    Recall,
    Release,
    Save,
    Sleep,
)
from mcpwire.errors import AuthError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.auth.discovery.challenges import Denial
    from mcpwire.auth.model import (
        ResourceMetadata,
        ServerMetadata,
        Tokens,
    )
    from mcpwire.auth.steps import Steps
    from mcpwire.wire.urls import Url

__all__ = ["Obtained", "Wanted", "finish", "obtain", "renew", "revoke"]

LEASE_S: Final = 30.0
"""How long asking for tokens may take; who dies meanwhile blocks nobody for longer."""

LOOK_S: Final = 0.1
"""How often one who waits for the lease looks at what is stored."""

SAVES: Final = 5
"""How often what somebody else has stored meanwhile is taken into account."""

PENDING_S: Final = 3_600.0
"""How long a login may be finished after it was begun."""

ENTROPY: Final = 32
"""RFC 7636 section 7.1: 256 bits."""


class Wanted(NamedTuple):
    """What a token is wanted for.

    Attributes:
        server: The URL it is sent to.
        used: The access token that was not good enough, where there was one.
        denial: How the server said so.
        must_log_in: Whether a refreshed one was not good enough, either.
        allow_insecure: Whether tokens may travel unencrypted.
    """

    server: Url
    used: str | None = None
    denial: Denial | None = None
    must_log_in: bool = False
    allow_insecure: bool = False

    @property
    def is_step_up(self) -> bool:
        """Whether the token is good, and more scopes are wanted."""
        denial = self.denial
        return (
            denial is not None
            and denial.status == 403
            and denial.error == "insufficient_scope"
        )

    def asks_like(self, other: Wanted) -> bool:
        """Tell whether what comes of this is an answer to the other as well."""
        if self.is_step_up or other.is_step_up:
            mine = self.denial.scopes if self.denial is not None else None
            theirs = other.denial.scopes if other.denial is not None else None
            return self.is_step_up == other.is_step_up and mine == theirs
        return self.used == other.used and self.must_log_in == other.must_log_in


class Obtained(NamedTuple):
    """What came of it.

    Attributes:
        record: What is stored now; its tokens are there.
        how: ``"stored"``, ``"refreshed"`` or ``"logged-in"``.
    """

    record: Record
    how: Literal["stored", "refreshed", "logged-in"]


def _is_good(tokens: Tokens | None, used: str | None, now: float) -> bool:
    """Tell whether a stored token is worth a request."""
    return (
        tokens is not None
        and tokens.access_token != used
        and (tokens.expires_at is None or tokens.expires_at > now)
    )


def obtain(grant: Grant, wanted: Wanted) -> Steps[Obtained]:
    """Get a token to go on with: a stored one, a refreshed one, or one by logging in.

    Raises:
        AuthError: There is none to be had; the class says what to do about it.
    """
    record = yield Load()
    now = yield Now()
    if (
        record is not None
        and _fits(grant, record)
        and _is_good(record.tokens, wanted.used, now)
        and not (wanted.is_step_up and not _has(record, wanted.denial))
    ):
        return Obtained(record, "stored")
    if not isinstance(grant, OAuth):
        return Obtained((yield from _alone(grant, wanted, record)), "logged-in")
    if not (wanted.is_step_up or wanted.must_log_in):
        renewed = yield from renew(grant, wanted)
        if renewed is not None:
            return Obtained(renewed, "refreshed")
    return Obtained((yield from _log_in(grant, wanted)), "logged-in")


def _fits(grant: Grant, record: Record) -> bool:
    """Tell whether what is stored is of the authorization server that is configured."""
    return grant.issuer in {None, DISCOVERED, record.issuer}


def _has(record: Record, denial: Denial | None) -> bool:
    granted = record.tokens.scopes if record.tokens is not None else None
    required = denial.scopes if denial is not None else None
    return bool(required) and granted is not None and set(required or ()) <= {*granted}


# Refreshing...


def renew(grant: Grant, wanted: Wanted) -> Steps[Record | None]:
    """Trade the stored refresh token in; ``None``: there is none that is any good.

    Raises:
        AuthTemporarilyUnavailable: The server cannot say now; everything is kept.
        TokenError: It refused for another reason than the refresh token.
    """
    record: Record | None
    while not (yield Lease(LEASE_S)):
        yield Sleep(LOOK_S)
        record = yield Load()
        if record is None or record.tokens is None:
            return None
        now = yield Now()
        if _fits(grant, record) and _is_good(record.tokens, wanted.used, now):
            return record  # whoever has the lease was quicker
    renewed = yield from _renew(grant, wanted)
    yield Release()
    return renewed


def _renew(grant: Grant, wanted: Wanted) -> Steps[Record | None]:
    for _ in range(SAVES):
        record: Record | None = yield Load()
        now = yield Now()
        if record is None or record.tokens is None or not _fits(grant, record):
            return None
        if _is_good(record.tokens, wanted.used, now):
            return record
        tokens = record.tokens
        if tokens.refresh_token is None:
            return None
        try:
            renewed = yield from request_tokens(
                record.metadata,
                record.identity,
                refresh_form(tokens.refresh_token, resource=record.resource),
                asked=tokens.scopes or record.asked_scopes,
                previous=tokens,
                server=wanted.server,
                allow_insecure=wanted.allow_insecure,
                dpop_key=record.dpop_key,
            )
        except TokenError as error:
            if error.error != "invalid_grant":
                raise
            # Whoever was quicker has stored the next one already.
            renewed = None
        if (yield Save(attrs.evolve(record, tokens=renewed))):
            return None if renewed is None else attrs.evolve(record, tokens=renewed)
    raise _changing(wanted.server)


def _store(record: Record) -> Steps[Record]:
    """Store what was just given to us, whatever somebody else has stored meanwhile."""
    for _ in range(SAVES):
        if (yield Save(record)):
            return record
        yield Load()
    raise _changing(record.issuer)


def _changing(of: object) -> AuthTemporarilyUnavailable:
    return AuthTemporarilyUnavailable(
        f"{of}: what is stored for it changes all the time"
    )


# Logging in...


def _found(
    grant: Grant, wanted: Wanted, record: Record | None
) -> Steps[tuple[ResourceMetadata | None, ServerMetadata]]:
    """Find out who gives tokens for the server, and refuse whom the user did not mean.

    Raises:
        DiscoveryError: Nobody can be found, or not the one that is configured.
    """
    issuer = None if grant.issuer == DISCOVERED else grant.issuer
    known = record.issuer if record is not None else None
    resource, metadata = yield from discover(
        wanted.server,
        wanted.denial,
        issuer or known,
        allow_insecure=wanted.allow_insecure,
    )
    if issuer is not None and metadata.issuer != issuer:
        raise DiscoveryError(
            f"{wanted.server} names the authorization server {metadata.issuer!r}, and "
            f"the credentials are for {issuer!r}: nothing is sent there"
        )
    return resource, metadata


def _alone(grant: Grant, wanted: Wanted, record: Record | None) -> Steps[Record]:
    """Log in without a user."""
    assert not isinstance(grant, OAuth)
    resource, metadata = yield from _found(grant, wanted, record)
    identifier = resource.resource if resource else canonical(wanted.server)
    chosen = scopes.initial(
        wanted.denial, resource, grant.scopes, metadata, wants_refresh=False
    )
    errand = Errand(wanted.server, wanted.allow_insecure, metadata, identifier, chosen)
    identity, tokens = yield from log_in_unattended(grant, errand)
    fresh = Record(
        issuer=metadata.issuer,
        resource=identifier,
        metadata=metadata,
        identity=identity,
        tokens=tokens,
        asked_scopes=chosen,
    )
    return (yield from _store(fresh))


def _log_in(grant: OAuth, wanted: Wanted) -> Steps[Record]:
    """Have the user log in."""
    record: Record | None = yield Load()
    resource, metadata = yield from _found(grant, wanted, record)
    check_pkce(metadata)
    stored = record.identity if record is not None else None  # its issuer is compared
    if record is not None and record.issuer != metadata.issuer:
        record = None  # REG-10: nothing of one server is good at another
    chosen = _chosen(grant, wanted, record, resource, metadata)
    redirect_uri = yield from _way_back(grant, record)
    identity = yield from registration.identify(
        grant,
        metadata,
        stored,
        redirect_uri=redirect_uri,
        server=wanted.server,
        allow_insecure=wanted.allow_insecure,
    )
    key = record.dpop_key if record is not None else None
    if key is None and _binds(grant, resource, metadata, wanted.denial):
        key = yield NewKey()
    fresh = Record(
        issuer=metadata.issuer,
        resource=resource.resource if resource else canonical(wanted.server),
        metadata=metadata,
        identity=identity,
        tokens=record.tokens if record is not None else None,
        asked_scopes=chosen,
        dpop_key=key,
    )
    if record is None or record.identity != identity:
        yield from _store(fresh)  # a registration outlives a login that is given up
    return (yield from _ask(grant, wanted, fresh, redirect_uri, chosen))


def _chosen(
    grant: OAuth,
    wanted: Wanted,
    record: Record | None,
    resource: ResourceMetadata | None,
    metadata: ServerMetadata,
) -> tuple[str, ...]:
    """Return the scopes to ask for."""
    denial = wanted.denial
    if record is not None and denial is not None and wanted.is_step_up:
        granted = record.tokens.scopes if record.tokens is not None else None
        return scopes.step_up((*record.asked_scopes, *(granted or ())), denial)
    # With a browser nobody wants to log in each hour.
    return scopes.initial(denial, resource, grant.scopes, metadata, wants_refresh=True)


def _way_back(grant: OAuth, record: Record | None) -> Steps[str]:
    """Return the redirect URI; from then on somebody listens there."""
    if grant.redirect_uri is not None:
        return grant.redirect_uri
    if not grant.listens or not grant.interactive:
        # Whoever asks in our place catches the way back, whatever listens there.
        port = f":{grant.callback_port}" if grant.callback_port is not None else ""
        return f"http://127.0.0.1{port}/callback"
    before = record.identity.redirect_uri if record is not None else None
    uri: str = yield Listen(before)
    return uri


def _binds(
    grant: OAuth,
    resource: ResourceMetadata | None,
    metadata: ServerMetadata,
    denial: Denial | None,
) -> bool:
    """Tell whether the tokens are to be bound to a key of ours (RFC 9449)."""
    if resource is not None and resource.dpop_bound_access_tokens_required:
        return True
    if denial is not None and denial.has_dpop and not denial.has_bearer:
        return True
    return grant.dpop and bool(metadata.dpop_signing_alg_values_supported)


def _ask(
    grant: OAuth,
    wanted: Wanted,
    record: Record,
    redirect_uri: str,
    chosen: tuple[str, ...],
) -> Steps[Record]:
    """Send the user to log in, and trade what they bring back for tokens.

    Raises:
        AuthRequired: Nobody may be asked; says where to log in.
        ConsentDenied: The user, or the server, did not agree.
    """
    verifier = pkce.verifier((yield Draw(ENTROPY)))
    state = pkce.verifier((yield Draw(ENTROPY)))
    begun_at = yield Now()
    url = authorization.authorization_url(
        record.metadata,
        record.identity,
        redirect_uri=redirect_uri,
        state=state,
        challenge=pkce.challenge(verifier),
        scopes=chosen,
        resource=record.resource,
    )
    check_authorization_url(url, server=wanted.server)
    pending = Pending(
        record=record,
        state=state,
        verifier=verifier,
        redirect_uri=redirect_uri,
        scopes=chosen,
        begun_at=begun_at,
    )
    if not grant.interactive:
        yield Keep(pending)
        raise _required(wanted, url, chosen)
    params = yield Ask(url, state, redirect_uri, chosen)
    return (yield from _redeem(wanted, pending, params))


def _required(wanted: Wanted, url: str, chosen: tuple[str, ...]) -> AuthRequired:
    denial = wanted.denial
    if denial is not None and wanted.is_step_up:
        required = denial.scopes or ()
        return InsufficientScope(
            f"{wanted.server} wants more scopes: {' '.join(required) or 'unnamed'}",
            required=required,
            url=url,
            scopes=chosen,
        )
    return AuthRequired(
        f"{wanted.server}: somebody has to log in", url=url, scopes=chosen
    )


def finish(grant: OAuth, wanted: Wanted, params: Mapping[str, str]) -> Steps[Record]:
    """Finish a login that was begun, with what the user came back with.

    Raises:
        AuthRequired: None was begun, or too long ago.
        ConsentDenied: The user, or the server, did not agree.
    """
    pending: Pending | None = yield Recall()
    now = yield Now()
    if pending is None or not 0 <= now - pending.begun_at < PENDING_S:
        raise AuthRequired(f"{wanted.server}: no login was begun within the last hour")
    if not _fits(grant, pending.record):
        raise ConsentDenied(
            f"{wanted.server}: the login was begun with another authorization server",
            error="invalid_request",
        )
    return (yield from _redeem(wanted, pending, params))


def _redeem(
    wanted: Wanted, pending: Pending, params: Mapping[str, str]
) -> Steps[Record]:
    """Trade the code for tokens, and store them."""
    record = pending.record
    code = authorization.read_response(
        params, state=pending.state, metadata=record.metadata
    )
    form = code_form(
        code,
        redirect_uri=pending.redirect_uri,
        verifier=pending.verifier,
        resource=record.resource,
    )
    tokens = yield from request_tokens(
        record.metadata,
        record.identity,
        form,
        asked=pending.scopes,
        previous=None,
        server=wanted.server,
        allow_insecure=wanted.allow_insecure,
        dpop_key=record.dpop_key,
    )
    fresh = attrs.evolve(record, tokens=tokens, asked_scopes=pending.scopes)
    return (yield from _store(fresh))


def revoke(wanted: Wanted) -> Steps[bool]:
    """Forget what is stored, and have the server forget it; tell whether there was any.

    It is forgotten here whatever the server says (RFC 7009 section 2.2).
    """
    for _ in range(SAVES):
        record: Record | None = yield Load()
        # Also what cannot be read: it may hold secrets all the same.
        if (yield Forget()):
            break
    else:
        raise _changing(wanted.server)
    if record is None or record.tokens is None:
        return False
    with suppress(AuthError):
        yield from revoke_tokens(
            record, wanted.server, allow_insecure=wanted.allow_insecure
        )
    return True
