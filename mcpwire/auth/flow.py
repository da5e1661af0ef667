"""The OAuth flows of a client: obtaining, refreshing and revoking tokens.

::

    stored and good ────────────────────────────────────► use it
    stored, refresh token ──► lease ──► refresh ────────► store, use it
                                          ├─ invalid_grant: forget the tokens, log in
                                          └─ refused for good: log in
    nothing, or more scopes ──► log in ─────────────────► store, use it

    log in: discovery ─► identity ─► user ─► code ─► tokens, in place of earlier ones

Only the process that holds the lease refreshes; others wait and load the record again.
No lease is held during a login. A refresh token is sent once: servers treat a second
use as theft and end the login. Stored tokens stay until new ones replace them, so an
abandoned login loses nothing. A registration is stored before the user is asked, along
with earlier tokens, so that not every attempt registers another client. A server that
has forgotten a client does not redirect the user: a stored client is checked first.

Any page can send a browser to the redirect URI: a response is accepted only with the
state of the request, and its content, such as an error, is shown only if it comes from
the expected issuer.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote, unquote_plus

import attrs

from mcpwire.auth import steps
from mcpwire.auth.config import DISCOVERED, ClientCredentials, OAuth, WorkloadIdentity
from mcpwire.auth.discovery import check_pkce, discover
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    ConsentDenied,
    DiscoveryError,
    InsufficientScope,
    ResponseRefused,
    TokenError,
)
from mcpwire.auth.jwt import base64url
from mcpwire.auth.records import OFFLINE_ACCESS, PendingLogin, Record, unique_scopes
from mcpwire.auth.registration import given_identity, identify
from mcpwire.auth.tokens import (
    JWT_BEARER,
    exchange_token,
    grant_form,
    request_tokens,
    revoke_tokens,
)
from mcpwire.auth.url_policy import UrlPolicy, check_authorization_url, parse_named_url
from mcpwire.errors import AuthError
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.auth.config import EnterpriseManaged, Grant
    from mcpwire.auth.discovery import Denial
    from mcpwire.auth.records import Identity, ResourceMetadata, ServerMetadata, Tokens
    from mcpwire.auth.steps import Answer, Steps
    from mcpwire.auth.tokens import Form
    from mcpwire.wire.urls import Url

    # The renewed record, or the identity of a client that its server has forgotten.
    RefreshResult: TypeAlias = tuple[Record | None, Identity | None]

LEASE_S: Final = 30.0  # the longest time that a crashed process blocks others
POLL_INTERVAL_S: Final = 0.1  # of the store, while another holds the lease
MAX_POLLS: Final = 900  # the leases of three crashed processes
MAX_SAVES: Final = 5  # attempts to save while other processes change the store
PENDING_LOGIN_S: Final = 3_600.0  # the time to finish a pending login
VERIFIER_BYTES: Final = 32  # of a code verifier: RFC 7636 section 7.1 wants 256 bits

# Errors of a refresh that a login would not end. Others, such as a server's own codes,
# mean that the refresh token is not accepted.
_LASTING_ERRORS: Final = frozenset(
    {"invalid_client", "invalid_scope", "invalid_target", "invalid_dpop_proof"}
    | {"use_dpop_nonce", "server_error"}
)
# Without an error code: the token is refused, or the token endpoint has moved.
_REFUSING_STATUSES: Final = frozenset({400, 404, 405, 410})
_REGISTRATION: Final = attrgetter("kind", "issuer", "redirect_uri", "scopes")
_UNKNOWN_CLIENT_ERRORS: Final = frozenset({"invalid_client", "unauthorized_client"})


class TokenRequest(NamedTuple):
    """A request for a token, and its reason."""

    server: Url
    refused_token: str | None = None  # the access token that the server refused
    denial: Denial | None = None  # the refusal
    must_log_in: bool = False  # whether the server refused a refreshed token as well
    allow_insecure: bool = False  # whether tokens may travel unencrypted
    # Whether to ask no user: the token is still valid, or a login has not helped.
    is_unattended: bool = False

    def __repr__(self) -> str:
        return f"<TokenRequest for {self.server}>"

    @property
    def policy(self) -> UrlPolicy:
        """The rules for URLs that the server names."""
        return UrlPolicy(self.server, self.allow_insecure)

    @property
    def required(self) -> tuple[str, ...]:
        """The scopes that the server named."""
        return (self.denial.scopes if self.denial is not None else None) or ()

    @property
    def is_step_up(self) -> bool:
        """Whether the token is valid, but lacks scopes."""
        reason = self.denial and (self.denial.status, self.denial.error)
        return reason == (403, "insufficient_scope")

    def accepts(self, tokens: Tokens) -> bool:
        """Return whether a token is not the refused one and has the needed scopes."""
        if tokens.access_token == self.refused_token:
            return False
        required = {*self.required}
        return not self.is_step_up or (
            bool(required) and required <= {*(tokens.scopes or ())}
        )

    @property
    def sharing_key(self) -> tuple[object, ...]:
        """The key that requests share if one result answers them all."""
        if self.is_step_up:
            return self.required, self.is_unattended
        return self.refused_token, self.must_log_in, self.is_unattended


class TokenResult(NamedTuple):
    """The stored record with its tokens, and how they were obtained."""

    record: Record
    source: Literal["stored", "refreshed", "logged-in"]


def obtain_token(grant: Grant, request: TokenRequest) -> Steps[TokenResult]:
    """Return a token: the stored one, a refreshed one, or one by a login."""
    record = yield steps.Load()
    now = yield steps.ReadClock()
    if (
        record is not None
        and matches_grant(grant, record)
        and _is_usable(record.tokens, request, now)
    ):
        return TokenResult(record, "stored")
    if not isinstance(grant, OAuth):
        record = yield from log_in_unattended(grant, request, record)
        return TokenResult(record, "logged-in")
    unknown_identity = None
    if not (request.is_step_up or request.must_log_in):
        refreshed, unknown_identity = yield from refresh(grant, request)
        if refreshed is not None:
            return TokenResult(refreshed, "refreshed")
    if request.is_unattended:
        raise AuthRequired(
            f"{request.server}: a login is needed, and this request cannot ask the user"
        )
    return TokenResult(
        (yield from log_in(grant, request, unknown_identity)), "logged-in"
    )


def matches_grant(grant: Grant, record: Record) -> bool:
    """Return whether a record matches the configured issuer, client and scopes.

    A user's token need not have all scopes: the user may have granted fewer.
    """
    scopes = () if isinstance(grant, OAuth) else grant.scopes or ()
    return (
        grant.issuer in {None, DISCOVERED, record.issuer}
        and grant.client_id in {None, record.identity.client_id}
        and {*scopes} - {OFFLINE_ACCESS} <= {*record.asked_scopes}
    )


def _is_usable(tokens: Tokens | None, request: TokenRequest, now: float) -> bool:
    """Return whether a stored token may be used: acceptable and not expired."""
    return (
        tokens is not None
        and request.accepts(tokens)
        and (tokens.expires_at is None or tokens.expires_at > now)
    )


def _contention_error(target: object) -> AuthTemporarilyUnavailable:
    return AuthTemporarilyUnavailable(
        f"{target}: other processes keep changing the stored credentials"
    )


def _is_unknown_client(identity: Identity, error: TokenError) -> bool:
    """Return whether a server has forgotten a client that registered itself."""
    # RFC 6749 section 5.2: 401 means invalid_client, with a JSON body or without.
    is_refused = error.error in _UNKNOWN_CLIENT_ERRORS or (
        error.error is None and error.status == 401
    )
    return is_refused and identity.kind == "registered"


# Refresh


def refresh(grant: OAuth, request: TokenRequest) -> Steps[RefreshResult]:
    """Refresh the stored tokens, or wait until another process has refreshed them.

    If the result has no record, the user has to log in. The second value is then the
    identity of this client, if the server has forgotten it.
    """
    for _ in range(MAX_POLLS):
        if (yield steps.AcquireLease(LEASE_S)):
            result = yield from _refresh_leased(grant, request)
            yield steps.ReleaseLease()
            return result
        yield steps.Sleep(POLL_INTERVAL_S)
        record: Record | None = yield steps.Load()
        if record is None or record.tokens is None:
            return None, None
        now = yield steps.ReadClock()
        if matches_grant(grant, record) and _is_usable(record.tokens, request, now):
            return record, None  # refreshed by the holder of the lease
    raise AuthTemporarilyUnavailable(
        f"{request.server}: other processes hold the lock of its tokens"
    )


def _refresh_leased(grant: OAuth, request: TokenRequest) -> Steps[RefreshResult]:
    sent_token = None
    for _ in range(MAX_SAVES):
        record: Record | None = yield steps.Load()
        now = yield steps.ReadClock()
        if record is None or record.tokens is None or not matches_grant(grant, record):
            return None, None
        if _is_usable(record.tokens, request, now):
            return record, None  # stored by another process
        token = record.tokens.refresh_token
        if token is None:
            return None, None
        if token != sent_token:
            sent_token = token
            identity = record.identity
            if identity.kind == "given" and grant.client_secret is not None:
                # The configured secret is newer than the stored one.
                identity = attrs.evolve(identity, client_secret=grant.client_secret)
            form = grant_form(
                "refresh_token", refresh_token=token, resource=record.resource
            )
            try:
                refreshed = yield from request_tokens(
                    attrs.evolve(record, identity=identity), form, request.policy
                )
            except TokenError as error:
                if error.error != "invalid_grant":
                    return None, _unknown_client(identity, error)
                refreshed = attrs.evolve(record, tokens=None)
        new_record = attrs.evolve(
            record, identity=refreshed.identity, tokens=refreshed.tokens
        )
        if (yield steps.Save(new_record)):
            return (None if new_record.tokens is None else new_record), None
    raise _contention_error(request.server)


def _unknown_client(identity: Identity, error: TokenError) -> Identity | None:
    """Return a forgotten client, or ``None`` if only a login helps; else raise."""
    if _is_unknown_client(identity, error):
        return identity
    is_refusal = error.error is not None or error.status in _REFUSING_STATUSES
    if error.error in _LASTING_ERRORS or not is_refusal:
        raise error
    return None


# Login


def _discover(
    grant: Grant, request: TokenRequest, record: Record | None
) -> Steps[tuple[ResourceMetadata, ServerMetadata]]:
    """Discover the authorization server; refuse it if another is configured."""
    issuer = None if grant.issuer == DISCOVERED else grant.issuer
    known_issuer = record.issuer if record is not None else None
    resource, metadata = yield from discover(
        request.policy, request.denial, issuer or known_issuer
    )
    if issuer is not None and metadata.issuer != issuer:
        raise DiscoveryError(
            f"{request.server} names the authorization server "
            f"'{mask_url(metadata.issuer)}', and the credentials are for '{issuer}': "
            "nothing is sent there"
        )
    return resource, metadata


def _save_tokens(record: Record) -> Steps[Record]:
    """Store new tokens, even if other processes have changed the stored record."""
    for _ in range(MAX_SAVES):
        if (yield steps.Save(record)):
            return record
        yield steps.Load()
    raise _contention_error(mask_url(record.issuer))


# Login without a user. A refusal is final: there is no other way to log in (RFC 6749
# section 4.4, RFC 7523, RFC 8693 with ID-JAG).


def log_in_unattended(
    grant: ClientCredentials | WorkloadIdentity | EnterpriseManaged,
    request: TokenRequest,
    record: Record | None,
) -> Steps[Record]:
    """Log in a program, a workload or an employee; raises like `obtain_token`."""
    resource, metadata = yield from _discover(grant, request, record)
    # DISCOVERED trusts the issuers that the server names, not the server's own origin.
    if metadata.is_assumed and grant.issuer == DISCOVERED:
        raise DiscoveryError(
            f"{request.server} names no authorization server: credentials go to "
            f"'{mask_url(metadata.issuer)}' only with issuer= naming it"
        )
    secret = None if isinstance(grant, WorkloadIdentity) else grant.client_secret
    stored = None if record is None else record.identity
    new_record = Record(
        resource.resource,
        metadata,
        # _discover has checked the issuer, unless any issuer is trusted.
        given_identity(grant.client_id, secret, metadata.issuer, stored),
        asked_scopes=initial_scopes(
            request.denial, resource, grant.scopes, metadata, wants_refresh=False
        ),
    )
    form = yield from _unattended_form(grant, request, new_record)
    signer = None
    if isinstance(grant, ClientCredentials) and grant.private_key_pem is not None:
        signer = grant
    new_record = yield from request_tokens(
        new_record, form, request.policy, signer=signer
    )
    return (yield from _save_tokens(new_record))


def _unattended_form(
    grant: ClientCredentials | WorkloadIdentity | EnterpriseManaged,
    request: TokenRequest,
    record: Record,
) -> Steps[Form]:
    resource, scopes = record.resource, record.asked_scopes
    if isinstance(grant, ClientCredentials):
        return grant_form("client_credentials", resource=resource, scopes=scopes)
    if isinstance(grant, WorkloadIdentity):
        assertion = yield from _supply_text(grant.assertion, "the workload's assertion")
    else:
        # The server's issuer accepts no ID token, only an assertion made from it.
        id_token = yield from _supply_text(grant.id_token, "the ID token")
        assertion = yield from exchange_token(
            grant, record, id_token, allow_insecure=request.allow_insecure
        )
    return grant_form(JWT_BEARER, assertion=assertion, resource=resource, scopes=scopes)


def _supply_text(value: Any, what: str) -> Steps[str]:
    text: str = (
        value if isinstance(value, str) else (yield steps.CallFunction(value, what))
    )
    return text


# Login of a user


def log_in(
    grant: OAuth, request: TokenRequest, unknown_identity: Identity | None = None
) -> Steps[Record]:
    """Log a user in; `unknown_identity` is a client that the server has forgotten."""
    record: Record | None = yield steps.Load()
    resource, metadata = yield from _discover(grant, request, record)
    check_pkce(metadata)
    stored = _stored_identity(grant, record, metadata.issuer, unknown_identity)
    newest = (record.registered or record.identity) if record is not None else None
    if record is not None and record.issuer != metadata.issuer:
        record = None  # REG-10: credentials are valid at their own issuer only
    scopes = _select_scopes(grant, request, record, resource, metadata)
    redirect_uri = yield from _redirect_uri(grant, stored)
    key = record.dpop_key if record is not None else None
    if not _must_bind(grant, request, resource, metadata, has_key=key is not None):
        key = None
    elif not key:
        key = yield steps.GenerateKey()

    def resolve_identity(known_identity: Identity | None) -> Steps[Identity]:
        return identify(
            grant,
            metadata,
            known_identity,
            redirect_uri=redirect_uri,
            scopes=scopes,
            policy=request.policy,
        )

    new_record = Record(
        resource.resource,
        metadata,
        (yield from resolve_identity(stored)),
        asked_scopes=scopes,
        dpop_key=key,
    )
    if new_record.identity == stored and (
        yield from _is_client_refused(grant, new_record, redirect_uri)
    ):
        with suppress(AuthError):
            renewed = attrs.evolve(
                new_record, identity=(yield from resolve_identity(None))
            )
            if not (yield from _is_client_refused(grant, renewed, redirect_uri)):
                new_record = renewed
    is_stored = new_record.identity == stored
    if new_record.identity.kind == "registered" and not is_stored:
        new_record = yield from _save_registration(new_record, newest)
    return (
        yield from _authorize_user(
            grant, request, new_record, redirect_uri, is_stored=is_stored
        )
    )


def _stored_identity(
    grant: OAuth, record: Record | None, issuer: str, unknown_identity: Identity | None
) -> Identity | None:
    """Return the stored identity; `registration` decides whether it is usable."""
    if record is None:
        return None
    if grant.client_id is not None:
        return record.identity
    for identity in (record.registered, record.identity):
        if identity not in {None, unknown_identity} and identity.issuer == issuer:
            return identity
    return None


def _is_client_refused(grant: OAuth, record: Record, redirect_uri: str) -> Steps[bool]:
    """Return whether the authorization endpoint refuses a registered client."""
    if record.identity.kind != "registered":
        return False
    # RFC 6749 section 4.1.2.1: a server that has forgotten the client shows the user an
    # error, without a redirect. All other outcomes are left to the browser.
    pending = yield from _new_pending_login(record, redirect_uri)
    url = authorization_url(pending, grant.prompt)
    html = (("accept", "text/html"),)
    try:
        answer: Answer = yield steps.Fetch(
            "the authorization endpoint", url, headers=html
        )
    except AuthError:
        return False
    return answer.status in {400, 401} and "www-authenticate" not in answer.fields


def _save_registration(new_record: Record, newest: Identity | None) -> Steps[Record]:
    """Store a registration beside stored tokens; return the record of the login.

    If another process has replaced the `newest` client by the same registration, that
    is used: the process may have given out a login URL.
    """
    new = new_record.identity
    for _ in range(MAX_SAVES):
        record: Record | None = yield steps.Load()
        stored = (record.registered or record.identity) if record is not None else None
        if stored and stored != newest and _REGISTRATION(stored) == _REGISTRATION(new):
            return attrs.evolve(new_record, identity=stored)
        updated = new_record
        if record is not None and record.tokens is not None:
            updated = attrs.evolve(record, registered=new)
        if (yield steps.Save(updated)):
            break
    return new_record


def _replace_registration(old: Identity, new: Identity | None) -> Steps[None]:
    """Replace or delete a stored registration; one that tokens belong to stays."""
    record: Record | None = yield steps.Load()
    if record is None:
        return
    if record.registered == old:
        yield steps.Save(attrs.evolve(record, registered=new))
    elif record.identity == old and new is not None:
        yield steps.Save(attrs.evolve(record, identity=new))
    elif record.identity == old and record.tokens is None:
        yield steps.Delete()


def _select_scopes(
    grant: OAuth,
    request: TokenRequest,
    record: Record | None,
    resource: ResourceMetadata,
    metadata: ServerMetadata,
) -> tuple[str, ...]:
    """Return the scopes to request."""
    if record is not None and request.is_step_up:
        granted = (record.tokens.scopes if record.tokens else None) or ()
        return step_up_scopes((*record.asked_scopes, *granted), request.required)
    # Without a refresh token, the user would have to log in at each expiry.
    return initial_scopes(
        request.denial, resource, grant.scopes, metadata, wants_refresh=True
    )


def initial_scopes(
    denial: Denial | None,
    resource: ResourceMetadata,
    configured: Sequence[str] | None,
    metadata: ServerMetadata,
    *,
    wants_refresh: bool,
) -> tuple[str, ...]:
    """Return the scopes to request without a token; empty: no ``scope`` parameter.

    They are the configured scopes, else the scopes of the challenge, else all scopes of
    the resource (2026-07-28 basic/authorization, "Scope Selection Strategy").
    """
    candidates: Sequence[str]
    if configured is not None:
        candidates = configured
    elif denial is not None and denial.scopes:
        candidates = denial.scopes
    else:
        candidates = resource.scopes_supported or ()
    scopes = [scope for scope in candidates if scope != OFFLINE_ACCESS]
    supported = metadata.scopes_supported
    # An authorization server without a list may support offline_access, but only the
    # user can know that.
    is_configured = OFFLINE_ACCESS in (configured or ()) and supported is None
    is_offered = wants_refresh and OFFLINE_ACCESS in (supported or ())
    # Alone it would replace the server's default scopes for a request without scopes.
    if is_configured or (is_offered and candidates):
        scopes.append(OFFLINE_ACCESS)
    return unique_scopes(scopes)


def step_up_scopes(
    requested: Sequence[str], required: Sequence[str]
) -> tuple[str, ...]:
    """Return the scopes to request after a denial: all earlier ones and the required.

    ``offline_access`` is not added: no resource needs it.
    """
    # 2026-07-28 basic/authorization, "Step-Up Authorization Flow": the union, because
    # a challenge need not name the granted scopes.
    added = (scope for scope in required if scope != OFFLINE_ACCESS)
    return unique_scopes([*requested, *added])


def _redirect_uri(grant: OAuth, stored: Identity | None) -> Steps[str]:
    """Return the redirect URI; start the local listener if the grant uses one."""
    if grant.redirect_uri is not None:
        return grant.redirect_uri
    if not grant.listens or not grant.interactive:
        # The user's function receives the response, or no user is asked: no listener.
        port = f":{grant.callback_port}" if grant.callback_port is not None else ""
        return f"http://127.0.0.1{port}/callback"
    uri: str = yield steps.Listen(stored.redirect_uri if stored is not None else None)
    return uri


def _must_bind(
    grant: OAuth,
    request: TokenRequest,
    resource: ResourceMetadata,
    metadata: ServerMetadata,
    *,
    has_key: bool,
) -> bool:
    """Return whether to bind the tokens to a key (RFC 9449)."""
    if resource.dpop_bound_access_tokens_required:
        return True
    denial = request.denial
    if denial is not None and denial.has_dpop and not denial.has_bearer:
        return True
    return bool(metadata.dpop_signing_alg_values_supported) and (grant.dpop or has_key)


def _authorize_user(
    grant: OAuth,
    request: TokenRequest,
    record: Record,
    redirect_uri: str,
    *,
    is_stored: bool,
) -> Steps[Record]:
    """Send the user to the login page, and exchange the code for tokens."""
    pending = yield from _new_pending_login(record, redirect_uri)
    # If the response goes elsewhere, the application calls `finish_pending` with it.
    awaits_response = grant.interactive and (grant.listens or grant.ask is not None)
    url = authorization_url(pending, grant.prompt)
    check_authorization_url(url, server=request.server)
    if not awaits_response:
        pending = yield from _store_pending_login(pending)
        url = authorization_url(pending, grant.prompt)
        raise _login_required(request, url, record.asked_scopes)
    try:
        params = yield steps.AuthorizeUser(
            url, pending.state, redirect_uri, record.asked_scopes
        )
    except ConsentDenied as error:
        # RFC 6749 section 4.1.2.1: for an unknown client the server sends no redirect.
        if is_stored and error.error == "timeout":
            yield from _replace_registration(record.identity, None)
        raise
    return (yield from _redeem_code(request, pending, params))


def _new_pending_login(record: Record, redirect_uri: str) -> Steps[PendingLogin]:
    return PendingLogin(
        record=record,
        state=base64url((yield steps.RandomBytes(VERIFIER_BYTES))),
        verifier=base64url((yield steps.RandomBytes(VERIFIER_BYTES))),
        redirect_uri=redirect_uri,
        begun_at=(yield steps.ReadClock()),
    )


def _store_pending_login(pending: PendingLogin) -> Steps[PendingLogin]:
    """Store a pending login, or return the stored one if it can still be used.

    A login at a URL that was given out earlier must still succeed.
    """
    for _ in range(MAX_SAVES):
        stored: PendingLogin | None = yield steps.LoadPending()
        now = yield steps.ReadClock()
        if (
            stored is not None
            and 0 <= now - stored.begun_at < PENDING_LOGIN_S / 2
            and _is_same_login(stored, pending)
        ):
            return stored
        if (yield steps.SavePending(pending)):
            return pending
    raise _contention_error(mask_url(pending.record.issuer))


def _is_same_login(stored: PendingLogin, pending: PendingLogin) -> bool:
    """Return whether the stored login is the same, except for its secrets."""
    stored_record, record = stored.record, pending.record
    return (
        stored.redirect_uri == pending.redirect_uri
        and (stored_record.dpop_key is None) == (record.dpop_key is None)
        and attrs.evolve(stored_record, dpop_key=record.dpop_key) == record
    )


def code_challenge(verifier: str) -> str:
    """Return the code challenge of a verifier (RFC 7636 section 4.2, S256 only)."""
    return base64url(sha256(verifier.encode("ascii")).digest())


def authorization_url(pending: PendingLogin, prompt: str | None) -> str:
    """Return the URL of the login page for a pending login."""
    record, scopes = pending.record, pending.record.asked_scopes
    parameters = {
        "response_type": "code",
        "client_id": record.identity.client_id,
        "redirect_uri": pending.redirect_uri,
        "code_challenge": code_challenge(pending.verifier),
        "code_challenge_method": "S256",
        "state": pending.state,
    }
    if scopes:
        parameters["scope"] = " ".join(scopes)
    # OpenID Connect Core section 11: without consent, servers ignore offline_access.
    if prompt is not None and (prompt != "consent" or OFFLINE_ACCESS in scopes):
        parameters["prompt"] = prompt
    parameters["resource"] = record.resource
    endpoint = record.metadata.authorization_endpoint
    if endpoint is None:
        raise DiscoveryError(
            f"the authorization server '{mask_url(record.issuer)}' names no "
            "authorization endpoint: no user can log in there"
        )
    url = parse_named_url(endpoint, "the authorization endpoint")
    # RFC 6749 section 3.1: keep the endpoint's own query, and repeat no parameter.
    parts = [
        part
        for part in (url.query or "").split("&")
        if part and unquote_plus(part.partition("=")[0]) not in parameters
    ]
    # RFC 3986: %20 is a space everywhere, "+" only in forms.
    parts += [f"{name}={quote(value, safe='')}" for name, value in parameters.items()]
    return f"{url.origin}{url.path}?{'&'.join(parts)}"


def _login_required(
    request: TokenRequest, url: str, scopes: tuple[str, ...]
) -> AuthRequired:
    required = request.required
    if request.is_step_up:
        return InsufficientScope(
            f"{request.server} requires more scopes: {' '.join(required) or 'unnamed'}",
            required=required,
            url=url,
            scopes=scopes,
        )
    return AuthRequired(f"{request.server}: a login is needed", url=url, scopes=scopes)


def finish_pending(
    grant: OAuth, request: TokenRequest, params: Mapping[str, str]
) -> Steps[Record]:
    """Finish a pending login with the parameters of the response."""
    # 2026-07-28 basic/authorization/security-considerations, "Open Redirection":
    # discard the response and keep the login, as any page can send a wrong state.
    pending: PendingLogin | None = yield steps.LoadPending(params.get("state", ""))
    now = yield steps.ReadClock()
    if pending is None or not 0 <= now - pending.begun_at < PENDING_LOGIN_S:
        raise AuthRequired(f"{request.server}: no login was begun within the last hour")
    if not matches_grant(grant, pending.record):
        raise ConsentDenied(
            f"{request.server}: the login was begun with another authorization server",
            error="invalid_request",
        )
    return (yield from _redeem_code(request, pending, params))


def _redeem_code(
    request: TokenRequest, pending: PendingLogin, params: Mapping[str, str]
) -> Steps[Record]:
    """Exchange the code for tokens, and store them."""
    record = pending.record
    try:
        code = read_response(params, state=pending.state, metadata=record.metadata)
    except ConsentDenied as error:
        if error.error == "invalid_scope" and record.identity.kind == "registered":
            # Without scopes, so that the next login registers again.
            without_scopes = attrs.evolve(record.identity, scopes=())
            yield from _replace_registration(record.identity, without_scopes)
        raise
    form = grant_form(
        "authorization_code",
        code=code,
        code_verifier=pending.verifier,
        redirect_uri=pending.redirect_uri,
        resource=record.resource,
    )
    try:
        record = yield from request_tokens(record, form, request.policy)
    except TokenError as error:
        if _is_unknown_client(record.identity, error):
            yield from _replace_registration(record.identity, None)
        raise
    return (yield from _save_tokens(record))


def read_response(
    params: Mapping[str, str], *, state: str, metadata: ServerMetadata
) -> str:
    """Return the code of a response after a check of its state and issuer."""
    # 2026-07-28 basic/authorization/security-considerations, "Open Redirection": a
    # response with another state is discarded.
    received_state = params.get("state", "")
    if not compare_digest(
        received_state.encode("utf-8", "surrogatepass"), state.encode()
    ):
        problem = "another state than the request" if received_state else "no state"
        raise ResponseRefused(
            f"the redirect after the login has {problem}", parameter="state"
        )
    # 2026-07-28 basic/authorization, "Authorization Response Validation": compare as
    # strings, even if the metadata did not announce the parameter.
    issuer = params.get("iss")
    if issuer is not None and issuer != metadata.issuer:
        raise ResponseRefused(
            "the redirect is from another issuer than "
            f"'{mask_url(metadata.issuer)}', where the login began",
            parameter="iss",
        )
    if issuer is None and metadata.authorization_response_iss_parameter_supported:
        raise ResponseRefused(
            f"the issuer '{mask_url(metadata.issuer)}' announces that its responses "
            "name it, and this one does not",
            parameter="iss",
        )
    error = params.get("error")
    if error is not None:
        error_code = steps.read_code(error) or "unknown"
        raise ConsentDenied(
            f"the authorization server gave no code: {error_code}",
            error=error_code,
            description=steps.read_description(params.get("error_description")),
        )
    code = params.get("code")
    if not code:
        raise ResponseRefused(
            "the redirect after the login has neither a code nor an error",
            parameter="code",
        )
    return code


# Logout


def revoke_login(request: TokenRequest) -> Steps[bool]:
    """Delete the stored login and revoke its tokens; return whether it had tokens.

    It is deleted even if the server refuses the revocation (RFC 7009 section 2.2).
    """
    for _ in range(MAX_SAVES):
        record: Record | None = yield steps.Load()
        # Unreadable content is deleted as well: it may contain secrets.
        if (yield steps.Delete()):
            break
    else:
        raise _contention_error(request.server)
    if record is None or record.tokens is None:
        return False
    with suppress(AuthError):
        yield from revoke_tokens(record, request.policy)
    return True
