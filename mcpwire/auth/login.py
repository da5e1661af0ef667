"""Logging in: from a server's denial to tokens that are stored.

::

    discovery ─► identity ─► user ─► code ─► tokens, stored in place of those of before

Whatever is stored stays as it was until there are new tokens: a login that is given up
costs nothing. A registration is stored before the user is asked, beside the tokens of
before where there are any, so that not every try registers another client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
    ResponseRefused,
    TokenError,
)
from mcpwire.auth.exchange import authorization, pkce, registration
from mcpwire.auth.exchange.token_endpoint import code_form, request_tokens
from mcpwire.auth.guard import check_authorization_url
from mcpwire.auth.machine import Errand, log_in_unattended
from mcpwire.auth.model import Pending, Record
from mcpwire.auth.steps import (
    Ask,
    Draw,
    Forget,
    Keep,
    Listen,
    Load,
    NewKey,
    Now,
    Recall,
    Save,
)
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.auth.flow import Wanted
    from mcpwire.auth.model import Identity, ResourceMetadata, ServerMetadata
    from mcpwire.auth.steps import Steps

__all__ = [
    "SAVES",
    "changing",
    "finish",
    "fits",
    "is_unknown",
    "log_in",
    "log_in_alone",
]

SAVES: Final = 5
"""How often what somebody else has stored meanwhile is taken into account."""

PENDING_S: Final = 3_600.0
"""How long a login may be finished after it was begun."""

ENTROPY: Final = 32
"""RFC 7636 section 7.1: 256 bits."""

_UNKNOWN: Final = frozenset({"invalid_client", "unauthorized_client"})


def fits(grant: Grant, record: Record) -> bool:
    """Tell whether what is stored is of the server and the client that are configured.

    Who names neither takes what there is.
    """
    return grant.issuer in {None, DISCOVERED, record.issuer} and (
        grant.client_id in {None, record.identity.client_id}
    )


def is_unknown(identity: Identity, error: TokenError) -> bool:
    """Tell whether a server has forgotten a client that has registered itself."""
    # RFC 6749 section 5.2: 401 says invalid_client, with a document or without.
    is_refused = error.error in _UNKNOWN or (
        error.error is None and error.status == 401
    )
    return is_refused and identity.kind == "registered"


def _store(record: Record) -> Steps[Record]:
    """Store what was just given to us, whatever somebody else has stored meanwhile."""
    for _ in range(SAVES):
        if (yield Save(record)):
            return record
        yield Load()
    raise changing(mask_url(record.issuer))


def changing(of: object) -> AuthTemporarilyUnavailable:
    """Build the error for a store in which others are always quicker."""
    return AuthTemporarilyUnavailable(
        f"{of}: what is stored for it changes all the time"
    )


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
            f"{wanted.server} names the authorization server "
            f"'{mask_url(metadata.issuer)}', and the credentials are for '{issuer}': "
            "nothing is sent there"
        )
    return resource, metadata


# Without a user...


def log_in_alone(grant: Grant, wanted: Wanted, record: Record | None) -> Steps[Record]:
    """Log in without a user.

    Raises:
        AuthError: There are no tokens to be had; the class says what to do about it.
    """
    assert not isinstance(grant, OAuth)
    resource, metadata = yield from _found(grant, wanted, record)
    # To trust whomever the server names is not to trust the server: it named nobody.
    if metadata.is_assumed and grant.issuer == DISCOVERED:
        raise DiscoveryError(
            f"{wanted.server} names no authorization server: credentials go to "
            f"'{mask_url(metadata.issuer)}' only with issuer= naming it"
        )
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


# With a user...


def log_in(
    grant: OAuth, wanted: Wanted, forgotten: Identity | None = None
) -> Steps[Record]:
    """Have the user log in.

    Args:
        grant: How.
        wanted: For what.
        forgotten: A registration that its server has said to know no more.

    Raises:
        AuthError: There are no tokens to be had; the class says what to do about it.
    """
    record: Record | None = yield Load()
    resource, metadata = yield from _found(grant, wanted, record)
    check_pkce(metadata)
    stored = _stored_identity(grant, record, metadata, forgotten)
    if record is not None and record.issuer != metadata.issuer:
        record = None  # REG-10: nothing of one server is good at another
    chosen = _chosen(grant, wanted, record, resource, metadata)
    redirect_uri = yield from _way_back(grant, stored)
    key = yield from _key(grant, wanted, record, resource, metadata)
    identity = yield from registration.identify(
        grant,
        metadata,
        stored,
        redirect_uri=redirect_uri,
        server=wanted.server,
        allow_insecure=wanted.allow_insecure,
    )
    fresh = Record(
        issuer=metadata.issuer,
        resource=resource.resource if resource else canonical(wanted.server),
        metadata=metadata,
        identity=identity,
        asked_scopes=chosen,
        dpop_key=key,
    )
    if identity.kind == "registered" and identity != stored:
        yield from _note_registration(fresh)
    return (
        yield from _ask(grant, wanted, fresh, redirect_uri, is_old=identity == stored)
    )


def _stored_identity(
    grant: OAuth,
    record: Record | None,
    metadata: ServerMetadata,
    forgotten: Identity | None,
) -> Identity | None:
    """Return who this client was before; whether it still is, its issuer decides."""
    if record is None:
        return None
    if grant.client_id is not None:
        return record.identity
    known = [
        identity
        for identity in (record.registered, record.identity)
        if identity is not None and identity != forgotten
    ]
    here = (identity for identity in known if identity.issuer == metadata.issuer)
    return next(here, None)


def _note_registration(fresh: Record) -> Steps[None]:
    """Store a registration, beside tokens that are of another."""
    for _ in range(SAVES):
        record: Record | None = yield Load()
        if record is not None and record.tokens is not None:
            record = attrs.evolve(record, registered=fresh.identity)
        if (yield Save(record or fresh)):
            return


def _drop_registration(identity: Identity) -> Steps[None]:
    """Register anew the next time; tokens of before are kept."""
    record: Record | None = yield Load()
    if record is None:
        return
    if record.registered == identity:
        yield Save(attrs.evolve(record, registered=None))
    elif record.identity == identity and record.tokens is None:
        yield Forget()


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


def _way_back(grant: OAuth, stored: Identity | None) -> Steps[str]:
    """Return the redirect URI; from then on somebody listens there."""
    if grant.redirect_uri is not None:
        return grant.redirect_uri
    if not grant.listens or not grant.interactive:
        # Whoever asks in our place catches the way back, whatever listens there.
        port = f":{grant.callback_port}" if grant.callback_port is not None else ""
        return f"http://127.0.0.1{port}/callback"
    uri: str = yield Listen(stored.redirect_uri if stored is not None else None)
    return uri


def _key(
    grant: OAuth,
    wanted: Wanted,
    record: Record | None,
    resource: ResourceMetadata | None,
    metadata: ServerMetadata,
) -> Steps[dict[str, Any] | None]:
    """Return the key that the tokens will be bound to (RFC 9449), if they will."""
    before = record.dpop_key if record is not None else None
    can_bind = bool(metadata.dpop_signing_alg_values_supported)
    if not (
        _must_bind(resource, wanted)
        or (can_bind and (grant.dpop or before is not None))
    ):
        return None
    key: dict[str, Any] = before or (yield NewKey())
    return key


def _must_bind(resource: ResourceMetadata | None, wanted: Wanted) -> bool:
    """Tell whether the server takes no other tokens."""
    denial = wanted.denial
    return (resource is not None and resource.dpop_bound_access_tokens_required) or (
        denial is not None and denial.has_dpop and not denial.has_bearer
    )


def _ask(
    grant: OAuth, wanted: Wanted, record: Record, redirect_uri: str, *, is_old: bool
) -> Steps[Record]:
    """Send the user to log in, and trade what they bring back for tokens.

    Raises:
        AuthRequired: Nobody may be asked; says where to log in.
        ConsentDenied: The user, or the server, did not agree.
    """
    pending = Pending(
        record=record,
        state=pkce.verifier((yield Draw(ENTROPY))),
        verifier=pkce.verifier((yield Draw(ENTROPY))),
        redirect_uri=redirect_uri,
        scopes=record.asked_scopes,
        begun_at=(yield Now()),
    )
    if not grant.interactive:
        # Who was told where to log in may be there by now, and must find the way back.
        pending = yield from _begun_before(pending)
    url = authorization.authorization_url(
        record.metadata,
        record.identity,
        redirect_uri=redirect_uri,
        state=pending.state,
        challenge=pkce.challenge(pending.verifier),
        scopes=pending.scopes,
        resource=record.resource,
    )
    check_authorization_url(url, server=wanted.server)
    if not grant.interactive:
        yield Keep(pending)
        raise _required(wanted, url, pending.scopes)
    try:
        params = yield Ask(url, pending.state, redirect_uri, pending.scopes)
    except ConsentDenied as error:
        # RFC 6749 section 4.1.2.1: whose client is unknown is not sent back.
        if is_old and error.error == "timeout":
            yield from _drop_registration(record.identity)
        raise
    return (yield from _redeem(wanted, pending, params))


def _begun_before(pending: Pending) -> Steps[Pending]:
    """Return the same login as it was begun before, if there is time enough left."""
    before: Pending | None = yield Recall()
    if before is None or not 0 <= pending.begun_at - before.begun_at < PENDING_S / 2:
        return pending
    keys = (before.record.dpop_key, pending.record.dpop_key)
    same = attrs.evolve(
        before,
        record=attrs.evolve(before.record, dpop_key=pending.record.dpop_key),
        state=pending.state,
        verifier=pending.verifier,
        begun_at=pending.begun_at,
    )
    is_same = same == pending and (keys[0] is None) == (keys[1] is None)
    return before if is_same else pending


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
        AuthRequired: None was begun, or too long ago, or it was tried already.
        ResponseRefused: This is no answer to that login; with another ``state`` it is
            nothing at all, and the login can still be finished.
        ConsentDenied: The user, or the server, did not agree.
    """
    pending: Pending | None = yield Recall()
    now = yield Now()
    if pending is None or not 0 <= now - pending.begun_at < PENDING_S:
        raise AuthRequired(f"{wanted.server}: no login was begun within the last hour")
    if not fits(grant, pending.record):
        raise ConsentDenied(
            f"{wanted.server}: the login was begun with another authorization server",
            error="invalid_request",
        )
    try:
        return (yield from _redeem(wanted, pending, params))
    except ResponseRefused as error:
        # 2026-07-28 basic/authorization/security-considerations, "Open Redirection":
        # it is discarded. Anybody can send a browser there with a state of their own.
        if error.parameter == "state":
            yield Keep(pending)
        raise


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
    try:
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
    except TokenError as error:
        if is_unknown(record.identity, error):
            yield from _drop_registration(record.identity)
        raise
    fresh = attrs.evolve(record, tokens=tokens, asked_scopes=pending.scopes)
    return (yield from _store(fresh))
