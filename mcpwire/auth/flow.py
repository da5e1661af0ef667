"""From "no token" to a token, and from one token to the next.

::

    stored and good ────────────────────────────────────► use it
    stored, refresh token ──► lease ──► refresh ────────► store, use it
                                          ├─ invalid_grant: forget the tokens, log in
                                          └─ never at all: log in
    nothing, or more scopes ──► `mcpwire.auth.flow` ───► store, use it

Only the one that holds the lease asks for a refresh; whoever had to wait looks at what
is stored by then. No lease is held while a user thinks. A refresh token is sent once:
to send it again is what a thief would do, and ends the login.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import attrs

from mcpwire.auth import authorization, registration
from mcpwire.auth.config import DISCOVERED, ClientCredentials, OAuth, WorkloadIdentity
from mcpwire.auth.discovery import canonical_uri, check_pkce, discover
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    ConsentDenied,
    DiscoveryError,
    InsufficientScope,
    ResponseRefused,
    TokenError,
)
from mcpwire.auth.jwt import SigningKey
from mcpwire.auth.records import Identity, Pending, Record, ServerMetadata
from mcpwire.auth.scopes import initial_scopes, step_up_scopes
from mcpwire.auth.steps import (
    Ask,
    Forget,
    Lease,
    Listen,
    Load,
    LoadPending,
    NewKey,
    Now,
    RandomBytes,
    Release,
    Save,
    SavePending,
    Sleep,
    Supply,
)
from mcpwire.auth.tokens import (
    client_credentials_form,
    code_form,
    exchange_token,
    jwt_bearer_form,
    refresh_form,
    request_tokens,
    revoke_tokens,
    token_exchange_form,
)
from mcpwire.auth.url_policy import check_authorization_url
from mcpwire.errors import AuthError
from mcpwire.wire.urls import mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.auth.config import EnterpriseManaged, Grant
    from mcpwire.auth.discovery import Denial
    from mcpwire.auth.records import (
        ResourceMetadata,
        Tokens,
    )
    from mcpwire.auth.steps import Steps
    from mcpwire.auth.tokens import Form
    from mcpwire.wire.urls import Url

__all__ = [
    "SAVES",
    "Renewal",
    "TokenRequest",
    "TokenResult",
    "UnattendedGrant",
    "changing",
    "finish",
    "fits",
    "is_unknown",
    "log_in",
    "log_in_alone",
    "log_in_unattended",
    "obtain",
    "renew",
    "revoke",
]


class UnattendedGrant(NamedTuple):
    """What tokens are wanted for.

    Attributes:
        server: The MCP server.
        allow_insecure: Whether http will do where it is asked by http itself.
        metadata: Its authorization server.
        resource: How the server calls itself.
        scopes: What the tokens should allow.
    """

    server: Url
    allow_insecure: bool
    metadata: ServerMetadata
    resource: str
    scopes: tuple[str, ...]


def log_in_unattended(
    grant: ClientCredentials | WorkloadIdentity | EnterpriseManaged,
    errand: UnattendedGrant,
) -> Steps[tuple[Identity, Tokens]]:
    """Get tokens in the way that was configured.

    Raises:
        TokenError: It was refused.
        AuthTemporarilyUnavailable: Nobody can say now.
        UrlRefused: A token endpoint must not be asked.
    """
    key = None
    if isinstance(grant, ClientCredentials):
        identity = _identity(grant.client_id, grant.client_secret, errand.metadata)
        form = client_credentials_form(resource=errand.resource, scopes=errand.scopes)
        if grant.private_key_pem is not None:
            key = SigningKey(grant.private_key_pem, grant.signing_algorithm)
    elif isinstance(grant, WorkloadIdentity):
        identity = _identity(grant.client_id, None, errand.metadata)
        form = yield from _workload_form(grant, errand)
    else:
        identity = _identity(grant.client_id, grant.client_secret, errand.metadata)
        form = yield from _enterprise_form(grant, errand)
    tokens = yield from request_tokens(
        errand.metadata,
        identity,
        form,
        server=errand.server,
        allow_insecure=errand.allow_insecure,
        asked=errand.scopes,
        signing_key=key,
    )
    return identity, tokens


def _identity(client_id: str, secret: str | None, metadata: ServerMetadata) -> Identity:
    # Whoever configured it has named this issuer, or trusts whichever is named.
    return Identity(client_id, secret, issuer=metadata.issuer)


def _workload_form(grant: WorkloadIdentity, errand: UnattendedGrant) -> Steps[Form]:
    assertion = grant.assertion
    if not isinstance(assertion, str):
        assertion = yield Supply(assertion, "the workload's assertion")
    return jwt_bearer_form(assertion, resource=errand.resource, scopes=errand.scopes)


def _enterprise_form(grant: EnterpriseManaged, errand: UnattendedGrant) -> Steps[Form]:
    """Trade the ID token for an assertion that the server's issuer takes."""
    id_token = grant.id_token
    if not isinstance(id_token, str):
        id_token = yield Supply(id_token, "the ID token")
    issuer = grant.idp_issuer or grant.idp_token_endpoint
    provider = ServerMetadata(issuer, token_endpoint=grant.idp_token_endpoint)
    identity = Identity(grant.idp_client_id, grant.idp_client_secret, issuer=issuer)
    exchange = token_exchange_form(
        id_token,
        audience=errand.metadata.issuer,
        resource=errand.resource,
        scopes=errand.scopes,
    )
    assertion = yield from exchange_token(
        provider,
        identity,
        exchange,
        # The user named it: it may be in a network where the server is not.
        server=parse_url(grant.idp_token_endpoint),
        allow_insecure=errand.allow_insecure,
    )
    return jwt_bearer_form(assertion, resource=errand.resource, scopes=errand.scopes)


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
    grant: Grant, wanted: TokenRequest, record: Record | None
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


def log_in_alone(
    grant: Grant, wanted: TokenRequest, record: Record | None
) -> Steps[Record]:
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
    identifier = resource.resource if resource else canonical_uri(wanted.server)
    chosen = initial_scopes(
        wanted.denial, resource, grant.scopes, metadata, wants_refresh=False
    )
    errand = UnattendedGrant(
        wanted.server, wanted.allow_insecure, metadata, identifier, chosen
    )
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
    grant: OAuth, wanted: TokenRequest, forgotten: Identity | None = None
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
        resource=resource.resource if resource else canonical_uri(wanted.server),
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
    wanted: TokenRequest,
    record: Record | None,
    resource: ResourceMetadata | None,
    metadata: ServerMetadata,
) -> tuple[str, ...]:
    """Return the scopes to ask for."""
    denial = wanted.denial
    if record is not None and denial is not None and wanted.is_step_up:
        granted = record.tokens.scopes if record.tokens is not None else None
        return step_up_scopes((*record.asked_scopes, *(granted or ())), denial)
    # With a browser nobody wants to log in each hour.
    return initial_scopes(denial, resource, grant.scopes, metadata, wants_refresh=True)


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
    wanted: TokenRequest,
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


def _must_bind(resource: ResourceMetadata | None, wanted: TokenRequest) -> bool:
    """Tell whether the server takes no other tokens."""
    denial = wanted.denial
    return (resource is not None and resource.dpop_bound_access_tokens_required) or (
        denial is not None and denial.has_dpop and not denial.has_bearer
    )


def _ask(
    grant: OAuth,
    wanted: TokenRequest,
    record: Record,
    redirect_uri: str,
    *,
    is_old: bool,
) -> Steps[Record]:
    """Send the user to log in, and trade what they bring back for tokens.

    Raises:
        AuthRequired: Nobody may be asked; says where to log in.
        ConsentDenied: The user, or the server, did not agree.
    """
    pending = Pending(
        record=record,
        state=authorization.code_verifier((yield RandomBytes(ENTROPY))),
        verifier=authorization.code_verifier((yield RandomBytes(ENTROPY))),
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
        challenge=authorization.code_challenge(pending.verifier),
        scopes=pending.scopes,
        resource=record.resource,
    )
    check_authorization_url(url, server=wanted.server)
    if not grant.interactive:
        yield SavePending(pending)
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
    before: Pending | None = yield LoadPending()
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


def _required(wanted: TokenRequest, url: str, chosen: tuple[str, ...]) -> AuthRequired:
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


def finish(
    grant: OAuth, wanted: TokenRequest, params: Mapping[str, str]
) -> Steps[Record]:
    """Finish a login that was begun, with what the user came back with.

    Raises:
        AuthRequired: None was begun, or too long ago, or it was tried already.
        ResponseRefused: This is no answer to that login; with another ``state`` it is
            nothing at all, and the login can still be finished.
        ConsentDenied: The user, or the server, did not agree.
    """
    pending: Pending | None = yield LoadPending()
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
            yield SavePending(pending)
        raise


def _redeem(
    wanted: TokenRequest, pending: Pending, params: Mapping[str, str]
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


LEASE_S: Final = 30.0
"""How long asking for tokens may take; who dies meanwhile blocks nobody for longer."""

LOOK_S: Final = 0.1
"""How often one who waits for the lease looks at what is stored."""

LOOKS: Final = 900
"""How often at most: three who die one after the other are waited for."""

_NEVER: Final = frozenset({"unauthorized_client", "unsupported_grant_type"})
"""Refusals that are no reason to try it again with this server (RFC 6749 section 5.2).
"""

_NOT_THERE: Final = frozenset({404, 405, 410})
"""Statuses without a reason that say: the token endpoint is elsewhere by now."""


class TokenRequest(NamedTuple):
    """What a token is wanted for.

    Attributes:
        server: The URL it is sent to.
        used: The access token that was not good enough, where there was one.
        denial: How the server said so.
        must_log_in: Whether a refreshed one was not good enough, either.
        allow_insecure: Whether tokens may travel unencrypted.
        asks_nobody: Whether no user is to be asked: the token in use is good so far,
            or logging in has not helped.
    """

    server: Url
    used: str | None = None
    denial: Denial | None = None
    must_log_in: bool = False
    allow_insecure: bool = False
    asks_nobody: bool = False

    def __repr__(self) -> str:
        """Show no token."""
        return f"<TokenRequest for {self.server}>"

    @property
    def is_step_up(self) -> bool:
        """Whether the token is good, and more scopes are wanted."""
        denial = self.denial
        return (
            denial is not None
            and denial.status == 403
            and denial.error == "insufficient_scope"
        )

    def asks_like(self, other: TokenRequest) -> bool:
        """Tell whether what comes of this is an answer to the other as well."""
        if self.is_step_up or other.is_step_up:
            mine = self.denial.scopes if self.denial is not None else None
            theirs = other.denial.scopes if other.denial is not None else None
            return self.is_step_up == other.is_step_up and mine == theirs
        ours = (self.used, self.must_log_in, self.asks_nobody)
        return ours == (other.used, other.must_log_in, other.asks_nobody)


class TokenResult(NamedTuple):
    """What came of it.

    Attributes:
        record: What is stored now; its tokens are there.
        how: ``"stored"``, ``"refreshed"`` or ``"logged-in"``.
    """

    record: Record
    how: Literal["stored", "refreshed", "logged-in"]


class Renewal(NamedTuple):
    """What came of a refresh.

    Attributes:
        record: What is stored now; ``None``: somebody has to log in.
        forgotten: Who this client was, where the server says that it knows it no more.
    """

    record: Record | None = None
    forgotten: Identity | None = None


def _is_good(tokens: Tokens | None, used: str | None, now: float) -> bool:
    """Tell whether a stored token is worth a request."""
    return (
        tokens is not None
        and tokens.access_token != used
        and (tokens.expires_at is None or tokens.expires_at > now)
    )


def obtain(grant: Grant, wanted: TokenRequest) -> Steps[TokenResult]:
    """Get a token to go on with: a stored one, a refreshed one, or one by logging in.

    Raises:
        AuthError: There is none to be had; the class says what to do about it.
    """
    record = yield Load()
    now = yield Now()
    if (
        record is not None
        and fits(grant, record)
        and _is_good(record.tokens, wanted.used, now)
        and not (wanted.is_step_up and not _has(record, wanted.denial))
    ):
        return TokenResult(record, "stored")
    if not isinstance(grant, OAuth):
        return TokenResult(
            (yield from log_in_alone(grant, wanted, record)), "logged-in"
        )
    forgotten = None
    if not (wanted.is_step_up or wanted.must_log_in):
        renewed, forgotten = yield from renew(grant, wanted)
        if renewed is not None:
            return TokenResult(renewed, "refreshed")
    if wanted.asks_nobody:
        raise AuthRequired(
            f"{wanted.server}: somebody has to log in, which was not begun by itself"
        )
    return TokenResult((yield from log_in(grant, wanted, forgotten)), "logged-in")


def _has(record: Record, denial: Denial | None) -> bool:
    granted = record.tokens.scopes if record.tokens is not None else None
    required = denial.scopes if denial is not None else None
    return bool(required) and granted is not None and set(required or ()) <= {*granted}


# Refreshing...


def renew(grant: OAuth, wanted: TokenRequest) -> Steps[Renewal]:
    """Trade the stored refresh token in, or have somebody else do it.

    Raises:
        AuthTemporarilyUnavailable: The server cannot say now; everything is kept.
        TokenError: It refused for another reason than the refresh token.
    """
    for _ in range(LOOKS):
        if (yield Lease(LEASE_S)):
            renewal = yield from _renew(grant, wanted)
            yield Release()
            return renewal
        yield Sleep(LOOK_S)
        record: Record | None = yield Load()
        if record is None or record.tokens is None:
            return Renewal()
        now = yield Now()
        if fits(grant, record) and _is_good(record.tokens, wanted.used, now):
            return Renewal(record)  # whoever has the lease was quicker
    raise AuthTemporarilyUnavailable(
        f"{wanted.server}: others ask for tokens for it, and come to no end"
    )


def _renew(grant: OAuth, wanted: TokenRequest) -> Steps[Renewal]:
    traded = renewed = None
    for _ in range(SAVES):
        record: Record | None = yield Load()
        now = yield Now()
        if record is None or record.tokens is None or not fits(grant, record):
            return Renewal()
        if _is_good(record.tokens, wanted.used, now):
            return Renewal(record)  # whoever was quicker has stored it
        token = record.tokens.refresh_token
        if token is None:
            return Renewal()
        if token != traded:
            traded = token
            try:
                renewed = yield from _refresh(grant, wanted, record, record.tokens)
            except TokenError as error:
                if error.error != "invalid_grant":
                    return _without(record, error)
                renewed = None
        fresh = attrs.evolve(record, tokens=renewed)
        if (yield Save(fresh)):
            return Renewal(None if renewed is None else fresh)
    raise changing(wanted.server)


def _refresh(
    grant: OAuth, wanted: TokenRequest, record: Record, tokens: Tokens
) -> Steps[Tokens]:
    assert tokens.refresh_token is not None
    identity = record.identity
    if identity.kind == "given" and grant.client_secret is not None:
        # What is configured is newer than what is stored, and of the same client.
        identity = attrs.evolve(identity, client_secret=grant.client_secret)
    return (
        yield from request_tokens(
            record.metadata,
            identity,
            refresh_form(tokens.refresh_token, resource=record.resource),
            asked=tokens.scopes or record.asked_scopes,
            previous=tokens,
            server=wanted.server,
            allow_insecure=wanted.allow_insecure,
            dpop_key=record.dpop_key,
        )
    )


def _without(record: Record, error: TokenError) -> Renewal:
    """Say how to go on without a refresh that was refused; the tokens are kept.

    Raises:
        TokenError: What it says is for the user, or may be over soon.
    """
    if is_unknown(record.identity, error):
        return Renewal(None, record.identity)
    is_elsewhere = error.error is None and error.status in _NOT_THERE
    if error.error in _NEVER or is_elsewhere:
        return Renewal()
    raise error


# Logging out...


def revoke(wanted: TokenRequest) -> Steps[bool]:
    """Forget what is stored, and have the server forget it; tell whether there was any.

    It is forgotten here whatever the server says (RFC 7009 section 2.2).

    Raises:
        AuthTemporarilyUnavailable: Somebody else stores something all the time.
    """
    for _ in range(SAVES):
        record: Record | None = yield Load()
        # Also what cannot be read: it may hold secrets all the same.
        if (yield Forget()):
            break
    else:
        raise changing(wanted.server)
    if record is None or record.tokens is None:
        return False
    with suppress(AuthError):
        yield from revoke_tokens(
            record, wanted.server, allow_insecure=wanted.allow_insecure
        )
    return True
