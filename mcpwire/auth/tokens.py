"""The token endpoint: requests, client authentication and answers; and revocation.

RFC 6749 sections 2.3 and 4 to 6, OAuth 2.1, with resource indicators (RFC 8707), JWTs
as grants and as client authentication (RFC 7523), token exchange (RFC 8693), proofs of
possession (RFC 9449) and revocation (RFC 7009). A request is repeated only if the
server demands a nonce in the proof, or refuses the secret in HTTP Basic or in the form
and supports the other: in both cases it has not processed the grant.

Accepted in an answer: an expiry as a string or a fraction, scopes as a list or with
commas, a blank refresh token. Refused: a token without a type, of an unknown or not
requested type, or with characters that a header cannot contain.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import attrs

from mcpwire.auth import steps
from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    RegistrationError,
    TokenError,
)
from mcpwire.auth.jwt import Prover, base64url, client_assertion, read_nonce
from mcpwire.auth.records import Identity, ServerMetadata, Tokens
from mcpwire.auth.url_policy import UrlPolicy
from mcpwire.wire.headers import is_visible_ascii
from mcpwire.wire.json import loads_object
from mcpwire.wire.urls import mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.auth.config import ClientCredentials, EnterpriseManaged
    from mcpwire.auth.records import ClientAuth, Record
    from mcpwire.auth.steps import Answer, Steps

Form = list[tuple[str, str]]

# The type of an identity assertion for the authorization server of another domain.
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"

_WHAT: Final = "the token endpoint"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_JTI_BYTES: Final = 16
_SECRET_FIELDS: Final = frozenset(
    {
        "assertion",
        "client_assertion",
        "client_secret",
        "code",
        "code_verifier",
        "refresh_token",
        "subject_token",
    }
)
_TOKEN_TYPES: Final[Mapping[str, Literal["Bearer", "DPoP"]]] = {
    "bearer": "Bearer",
    "dpop": "DPoP",
}
_OTHER_METHOD: Final[Mapping[str, ClientAuth]] = {
    "client_secret_basic": "client_secret_post",
    "client_secret_post": "client_secret_basic",
}
_SECONDS: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?")
# The limit of lifetimes, so that each expiry is a valid date.
_MAX_LIFETIME_S: Final = 10.0 * 365 * 86_400


def grant_form(
    grant_type: str, *, resource: str, scopes: Sequence[str] = (), **fields: str
) -> Form:
    """Return the form of a token request; without scopes the server chooses them."""
    form = [("grant_type", grant_type), *fields.items(), ("resource", resource)]
    return [*form, ("scope", " ".join(scopes))] if scopes else form


# Client authentication


def select_auth_method(
    identity: Identity, metadata: ServerMetadata, *, can_sign: bool = False
) -> ClientAuth:
    """Return the method of authentication: as registered, else one of both sides."""
    if identity.auth_method is not None:
        return identity.auth_method
    methods: tuple[ClientAuth, ...] = ("none",)
    if can_sign:
        methods = ("private_key_jwt",)
    elif identity.client_secret is not None:
        methods = ("client_secret_basic", "client_secret_post", "none")
    supported = metadata.token_endpoint_auth_methods_supported
    # RFC 8414 section 2: the default is client_secret_basic. A client with only one
    # method tries it even if the list omits it, because lists can be incomplete.
    if supported is None or len(methods) == 1:
        return methods[0]
    for method in methods:
        if method in supported:
            return method
    raise TokenError(f"{_WHAT} of '{mask_url(metadata.issuer)}' takes no client_secret")


def authenticate(
    identity: Identity,
    metadata: ServerMetadata,
    form: Form,
    *,
    assertion: str | None = None,
) -> tuple[Form, list[tuple[str, str]]]:
    """Return the form and the headers with the client's authentication."""
    method = select_auth_method(identity, metadata, can_sign=assertion is not None)
    client_id, secret = identity.client_id, identity.client_secret
    if method == "none":
        return [*form, ("client_id", client_id)], []
    if method == "private_key_jwt":
        if assertion is None:
            raise TokenError(f"the client {client_id!r} needs a key to authenticate")
        # RFC 7523 section 2.2: the client_id is the subject of the assertion.
        pairs = [
            ("client_assertion_type", _ASSERTION_TYPE),
            ("client_assertion", assertion),
        ]
        return form + pairs, []
    if secret is None:
        raise TokenError(f"the client {client_id!r} needs a secret to authenticate")
    if method == "client_secret_post":
        return [*form, ("client_id", client_id), ("client_secret", secret)], []
    # RFC 6749 section 2.3.1: both parts are form-encoded first. Some servers (Authlib)
    # decode %20 but not a plus, so a space is sent as %20.
    text = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return form, [("authorization", f"Basic {b64encode(text.encode()).decode()}")]


def check_issuer_binding(identity: Identity, metadata: ServerMetadata) -> None:
    """Raise `RegistrationError` if a client belongs to another authorization server."""
    # 2026-07-28 basic/authorization/client-registration, "Authorization Server
    # Binding".
    if identity.kind != "document" and identity.issuer != metadata.issuer:
        owner = "the authorization server of the client is unknown"
        if identity.issuer is not None:
            issuer = mask_url(identity.issuer)
            owner = f"the client belongs to the authorization server '{issuer}'"
        raise RegistrationError(
            f"{owner}: its credentials are not sent to '{mask_url(metadata.issuer)}'"
        )


# Requests


def request_tokens(
    record: Record,
    form: Form,
    policy: UrlPolicy,
    *,
    signer: ClientCredentials | None = None,
) -> Steps[Record]:
    """Request tokens; return the record with them. A signer has a private key."""
    metadata, identity = record.metadata, record.identity
    url = metadata.token_endpoint
    policy.check(url, _WHAT)
    check_issuer_binding(identity, metadata)
    prover = None
    if record.dpop_key is not None:
        try:
            prover = Prover(record.dpop_key)
        except ValueError as error:
            raise TokenError(f"the stored proof key cannot be used: {error}") from error
    nonce: str | None = None
    while True:
        now = yield steps.ReadClock()
        assertion = None
        if signer is not None:
            assertion = client_assertion(
                signer,
                audience=metadata.issuer,
                now=now,
                jti=base64url((yield steps.RandomBytes(_JTI_BYTES))),
            )
        pairs, headers = authenticate(identity, metadata, form, assertion=assertion)
        if prover is not None:
            jti = base64url((yield steps.RandomBytes(_JTI_BYTES)))
            proof = prover.proof("POST", url, now=now, jti=jti, nonce=nonce)
            headers = [*headers, ("dpop", proof)]
        answer = yield steps.Fetch(
            _WHAT, url, form=tuple(pairs), headers=tuple(headers)
        )
        if prover is not None and nonce is None:
            nonce = _required_nonce(answer)
            if nonce is not None:
                continue
        other_identity = _switch_method(record, identity, answer)
        if other_identity is None:
            break
        identity = other_identity
    tokens = read_tokens(answer, record, now=now, secrets=_secrets(identity, form))
    return attrs.evolve(record, identity=identity, tokens=tokens)


def exchange_token(
    grant: EnterpriseManaged, record: Record, id_token: str, *, allow_insecure: bool
) -> Steps[str]:
    """Exchange an ID token for an assertion that the server's issuer accepts."""
    url = grant.idp_token_endpoint
    metadata = ServerMetadata(grant.idp_issuer or url, token_endpoint=url)
    identity = Identity(
        grant.idp_client_id, grant.idp_client_secret, issuer=metadata.issuer
    )
    # The URL is configured, so it may be in another network than the MCP server.
    UrlPolicy(parse_url(url), allow_insecure).check(url, _WHAT)
    form = grant_form(
        "urn:ietf:params:oauth:grant-type:token-exchange",
        requested_token_type=ID_JAG,
        audience=record.issuer,
        subject_token=id_token,
        subject_token_type="urn:ietf:params:oauth:token-type:id_token",  # noqa: S106 - a name
        resource=record.resource,
        scopes=record.asked_scopes,
    )
    now = yield steps.ReadClock()
    pairs, headers = authenticate(identity, metadata, form)
    answer = yield steps.Fetch(_WHAT, url, form=tuple(pairs), headers=tuple(headers))
    return read_exchange(answer, now=now, secrets=_secrets(identity, form))


def _switch_method(
    record: Record, identity: Identity, answer: Answer
) -> Identity | None:
    """Return the identity with the other method for its secret, if one was refused."""
    # Metadata lists all methods of a server, but a client may be registered for one.
    metadata = record.metadata
    error = (loads_object(answer.body) or {}).get("error")
    possible_errors = (None, "unauthorized_client")  # the official SDK's
    if (
        identity is not record.identity  # both were refused
        or identity.client_secret is None
        or (identity.kind == "registered" and identity.auth_method is not None)
        or not (
            error == "invalid_client"
            or (answer.status == 401 and error in possible_errors)
        )
    ):
        return None
    other = _OTHER_METHOD.get(select_auth_method(identity, metadata))
    # RFC 8414 section 2: without a list only HTTP Basic.
    methods = metadata.token_endpoint_auth_methods_supported
    if other not in (("client_secret_basic",) if methods is None else methods):
        return None
    return attrs.evolve(identity, auth_method=other)


def _required_nonce(answer: Answer) -> str | None:
    """Return the nonce that the server demands in the proof (RFC 9449 section 8)."""
    error = (loads_object(answer.body) or {}).get("error")
    if answer.status not in {400, 401} or error != "use_dpop_nonce":
        return None
    return read_nonce(answer.fields.get("dpop-nonce"))


def _secrets(identity: Identity, form: Form) -> list[str]:
    secrets = [value for name, value in form if name in _SECRET_FIELDS]
    return [*secrets, identity.client_secret or ""]


# Responses (RFC 6749 section 5, RFC 8693 section 2.2)


def read_tokens(
    answer: Answer, record: Record, *, now: float, secrets: Iterable[str] = ()
) -> Tokens:
    """Return the tokens of a token response; errors mask `secrets` in server texts.

    Missing members are taken from the record. If the record has a proof key, the token
    must be bound to it.
    """
    document = _read_document(answer, now, secrets)
    kind = document.get("token_type")
    token_type = _TOKEN_TYPES.get(kind.lower()) if isinstance(kind, str) else None
    # RFC 6749 section 7.1: a token of an unknown type is not used.
    if token_type is None:
        raise TokenError(
            f"{_WHAT} gave a token without token_type"
            if kind is None
            else f"{_WHAT} gave a token of an unknown type, {steps.read_code(kind)!r}",
            status=answer.status,
        )
    # RFC 9449 section 5: discard an unbound token if a bound one was requested.
    is_bound = record.dpop_key is not None
    if (token_type == "DPoP") != is_bound:  # noqa: S105 - a type of token
        raise TokenError(
            f"{_WHAT} gave a token of type {token_type!r}, and a proof of possession "
            f"{'went' if is_bound else 'did not go'} along",
            status=answer.status,
        )
    previous = record.tokens
    refresh_token = document.get("refresh_token")
    if not isinstance(refresh_token, str) or not refresh_token.strip():
        refresh_token = previous.refresh_token if previous is not None else None
    return Tokens(
        _access_token(document, answer.status),
        token_type,
        _expiry(document.get("expires_in"), now),
        refresh_token,
        _read_scopes(document.get("scope"), record.asked_scopes)
        # RFC 6749: no scope means unchanged (section 6) or as requested (5.1).
        or (previous.scopes if previous is not None else None)
        or record.asked_scopes
        or None,
    )


def read_exchange(answer: Answer, *, now: float, secrets: Iterable[str] = ()) -> str:
    """Return the assertion in a token exchange response (RFC 8693 section 2.2.1)."""
    document = _read_document(answer, now, secrets)
    issued = document.get("issued_token_type")
    if issued != ID_JAG:
        raise TokenError(
            f"the identity provider gave a token of type {steps.read_code(issued)!r} "
            f"instead of {ID_JAG!r}",
            status=answer.status,
        )
    return _access_token(document, answer.status)


def _read_document(
    answer: Answer, now: float, secrets: Iterable[str]
) -> dict[str, Any]:
    steps.check_available(answer, _WHAT, now)
    document = loads_object(answer.body)
    # Some servers send errors with status 200.
    error = document.get("error") if document is not None else None
    if 200 <= answer.status < 300 and error is None:
        if document is None:
            raise TokenError(
                f"{_WHAT} answered with no JSON object: {steps.describe(answer)}",
                status=answer.status,
            )
        return document
    code = steps.read_code(error)
    if code == "temporarily_unavailable":
        raise AuthTemporarilyUnavailable(
            f"{_WHAT} cannot answer now", status=answer.status
        )
    description = (document or {}).get("error_description")
    raise TokenError(
        f"{_WHAT} refused: {code or steps.describe(answer)}",
        error=code,
        description=steps.read_description(description, secrets),
        status=answer.status,
    )


def _access_token(document: Mapping[str, Any], status: int) -> str:
    token = document.get("access_token")
    # The token is sent in a header and must not contain characters that end it.
    if not isinstance(token, str) or not is_visible_ascii(token):
        reason = "without an access_token" if token is None else "with no access_token"
        raise TokenError(f"{_WHAT} answered {reason} that can be sent", status=status)
    return token


def _expiry(value: object, now: float) -> float | None:
    if isinstance(value, str) and _SECONDS.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Zero or less counts as unknown: such a token would never be valid.
    return now + min(float(value), _MAX_LIFETIME_S) if value > 0 else None


def _read_scopes(value: object, asked: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, list):
        value = " ".join(item for item in value if isinstance(item, str))
    if not isinstance(value, str):
        return ()
    # GitHub separates scopes by commas, which a scope of another server may contain.
    if not any("," in scope for scope in asked):
        value = value.replace(",", " ")
    return tuple(dict.fromkeys(value.split()))


# Revocation (RFC 7009)

_REVOCATION_ENDPOINT: Final = "the revocation endpoint"


def revoke_tokens(record: Record, policy: UrlPolicy) -> Steps[None]:
    """Revoke the tokens at the authorization server, and ignore the response.

    The revocation of a refresh token should include its access tokens (RFC 7009 section
    2.1), but not every server implements that.
    """
    url, tokens = record.metadata.revocation_endpoint, record.tokens
    if url is None or tokens is None:
        return
    identity = record.identity
    check_issuer_binding(identity, record.metadata)
    policy.check(url, _REVOCATION_ENDPOINT)
    for token, hint in (
        (tokens.refresh_token, "refresh_token"),
        (tokens.access_token, "access_token"),
    ):
        next_identity = identity if token is not None else None
        while next_identity is not None:
            identity = next_identity
            form = [("token", token or ""), ("token_type_hint", hint)]
            pairs, headers = authenticate(identity, record.metadata, form)
            answer: Answer = yield steps.Fetch(
                _REVOCATION_ENDPOINT, url, form=tuple(pairs), headers=tuple(headers)
            )
            next_identity = _switch_method(record, identity, answer)
