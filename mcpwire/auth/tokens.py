"""The token endpoint: what it is asked, how a client proves who it is, what it answers.

RFC 6749 sections 2.3 and 4 to 6, OAuth 2.1, with resource indicators (RFC 8707), JWTs
as grants and as client authentication (RFC 7523), token exchange (RFC 8693) and proofs
of possession (RFC 9449). A request goes out once, and once more only where the server
asks for a nonce in the proof: nothing else says that it may be repeated.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    DiscoveryError,
    RegistrationError,
    TokenError,
)
from mcpwire.auth.jwt import client_assertion
from mcpwire.auth.records import Tokens
from mcpwire.auth.steps import (
    Fetch,
    Now,
    RandomBytes,
    check_available,
    describe,
    read_code,
    read_description,
    read_object,
)
from mcpwire.auth.url_policy import check_url
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.auth.jwt import Prover, SigningKey
    from mcpwire.auth.records import (
        ClientAuth,
        Identity,
        Record,
        ServerMetadata,
    )
    from mcpwire.auth.steps import Answer, Steps
    from mcpwire.wire.urls import Url

__all__ = [
    "ID_JAG",
    "ID_TOKEN",
    "WHAT",
    "Form",
    "authenticate",
    "check_bound",
    "client_credentials_form",
    "code_form",
    "decide_method",
    "exchange_token",
    "jwt_bearer_form",
    "read_exchange",
    "read_tokens",
    "refresh_form",
    "request_tokens",
    "revoke_tokens",
    "token_exchange_form",
]

WHAT: Final = "the token endpoint"

ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
"""An identity assertion for another domain's authorization server."""

_TYPES: Final[Mapping[str, Literal["Bearer", "DPoP"]]] = {
    "bearer": "Bearer",
    "dpop": "DPoP",
}
_VISIBLE: Final = re.compile(r"[!-~]+")
_SECONDS: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?")
_LONGEST_S: Final = 10.0 * 365 * 86_400
"""What is good for longer is as good as for ever, and its expiry stays a date."""


def read_tokens(
    answer: Answer,
    *,
    now: float,
    asked: Sequence[str] = (),
    previous: Tokens | None = None,
    is_bound: bool = False,
    secrets: Iterable[str] = (),
) -> Tokens:
    """Return the tokens that an answer gives.

    Args:
        answer: What came back.
        now: When it was asked, in seconds since 1970.
        asked: The scopes that were asked for.
        previous: What is refreshed: what the answer leaves out stays as it was.
        is_bound: Whether a proof went along, to which the token has to be bound.
        secrets: What was sent and must not come back in a text.

    Raises:
        TokenError: The server refused, or this is no token; never shows one.
        AuthTemporarilyUnavailable: The server cannot answer now.
    """
    document = _read(answer, now, secrets)
    kind = document.get("token_type")
    token_type = _TYPES.get(kind.lower()) if isinstance(kind, str) else None
    # RFC 6749 section 7.1: a token of a type one does not understand is not used.
    if token_type is None:
        raise TokenError(
            f"{WHAT} gave a token of no type"
            if kind is None
            else f"{WHAT} gave a token of an unknown type, {read_code(kind)!r}",
            status=answer.status,
        )
    # RFC 9449 section 5: a token that is not bound although it should be is discarded.
    if (token_type == "DPoP") != is_bound:  # noqa: S105 - a type of token
        raise TokenError(
            f"{WHAT} gave a token of type {token_type!r}, and a proof of possession "
            f"{'went' if is_bound else 'did not go'} along",
            status=answer.status,
        )
    refreshed = document.get("refresh_token")
    if not isinstance(refreshed, str) or not refreshed.strip():
        refreshed = previous.refresh_token if previous is not None else None
    return Tokens(
        _access_token(document, answer.status),
        token_type,
        _expiry(document.get("expires_in"), now),
        refreshed,
        _granted(document.get("scope"), asked, previous),
    )


def read_exchange(answer: Answer, *, now: float, secrets: Iterable[str] = ()) -> str:
    """Return the assertion that an identity provider gives (RFC 8693 section 2.2.1).

    Raises:
        TokenError: It refused, or gave something else.
        AuthTemporarilyUnavailable: It cannot answer now.
    """
    document = _read(answer, now, secrets)
    issued = document.get("issued_token_type")
    if issued != ID_JAG:
        raise TokenError(
            f"the identity provider gave a token of type {read_code(issued)!r} "
            f"instead of {ID_JAG!r}",
            status=answer.status,
        )
    return _access_token(document, answer.status)


def _read(answer: Answer, now: float, secrets: Iterable[str]) -> dict[str, Any]:
    check_available(answer, WHAT, now)
    document = read_object(answer)
    # Some say 200 to a request that they refuse.
    error = document.get("error") if document is not None else None
    if 200 <= answer.status < 300 and error is None:
        if document is None:
            raise TokenError(
                f"{WHAT} answered with no JSON object: {describe(answer)}",
                status=answer.status,
            )
        return document
    code = read_code(error)
    if code == "temporarily_unavailable":
        raise AuthTemporarilyUnavailable(
            f"{WHAT} cannot answer now", status=answer.status
        )
    described = (document or {}).get("error_description")
    raise TokenError(
        f"{WHAT} refused: {code or describe(answer)}",
        error=code,
        description=read_description(described, secrets),
        status=answer.status,
    )


def _access_token(document: Mapping[str, Any], status: int) -> str:
    token = document.get("access_token")
    # It travels in a header: what could end one there is no token.
    if not isinstance(token, str) or not _VISIBLE.fullmatch(token):
        reason = "without an access_token" if token is None else "with no access_token"
        raise TokenError(f"{WHAT} answered {reason} that can be sent", status=status)
    return token


def _expiry(value: object, now: float) -> float | None:
    """Return when a token expires; ``None``: nobody said so in a number."""
    if isinstance(value, str) and _SECONDS.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Zero and less cannot be meant: such a token would never be of use.
    return now + min(float(value), _LONGEST_S) if value > 0 else None


def _granted(
    value: object, asked: Sequence[str], previous: Tokens | None
) -> tuple[str, ...] | None:
    # RFC 6749 section 5.1: left out where it is what was asked for; section 6: and what
    # was granted before where nothing was asked for.
    if isinstance(value, list):
        value = " ".join(item for item in value if isinstance(item, str))
    if isinstance(value, str) and value.strip():
        return tuple(dict.fromkeys(value.split()))
    if asked:
        return tuple(asked)
    return previous.scopes if previous is not None else None


Form = list[tuple[str, str]]

ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - its name

_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"

_NONCE_BYTES: Final = 16  # of a JWT's id: 128 bits

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


# What is asked...


def code_form(
    code: str, *, verifier: str, redirect_uri: str, resource: str | None
) -> Form:
    """Return what exchanges a code for tokens."""
    form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("code_verifier", verifier),
        ("redirect_uri", redirect_uri),
    ]
    return form + _for((), resource)


def refresh_form(
    refresh_token: str, *, resource: str | None, scopes: Sequence[str] = ()
) -> Form:
    """Return what refreshes tokens; without scopes: with those they have."""
    form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)]
    return form + _for(scopes, resource)


def client_credentials_form(*, resource: str | None, scopes: Sequence[str]) -> Form:
    """Return what asks for tokens for the client itself."""
    return [("grant_type", "client_credentials"), *_for(scopes, resource)]


def jwt_bearer_form(
    assertion: str, *, resource: str | None, scopes: Sequence[str]
) -> Form:
    """Return what asks for tokens with a JWT that somebody else signed (RFC 7523)."""
    form = [("grant_type", _JWT_BEARER), ("assertion", assertion)]
    return form + _for(scopes, resource)


def token_exchange_form(
    subject_token: str,
    *,
    audience: str,
    resource: str,
    scopes: Sequence[str],
    subject_token_type: str = ID_TOKEN,
) -> Form:
    """Return what asks an identity provider for an assertion (ID-JAG, RFC 8693).

    Args:
        subject_token: Who it is about.
        audience: The issuer that it is for.
        resource: The MCP server that it is for.
        scopes: What it should allow.
        subject_token_type: What kind of token the first one is.
    """
    form = [
        ("grant_type", _EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", audience),
        ("subject_token", subject_token),
        ("subject_token_type", subject_token_type),
    ]
    return form + _for(scopes, resource)


def _for(scopes: Sequence[str], resource: str | None) -> Form:
    form = [] if resource is None else [("resource", resource)]
    return [*form, ("scope", " ".join(scopes))] if scopes else form


# Who asks...


def decide_method(
    identity: Identity, metadata: ServerMetadata, *, can_sign: bool = False
) -> ClientAuth:
    """Return how the client authenticates: as registered, else as the server can.

    Raises:
        TokenError: There is no way that both know.
    """
    if identity.auth_method is not None:
        return identity.auth_method
    ways: tuple[ClientAuth, ...] = ("none",)
    if can_sign:
        ways = ("private_key_jwt",)
    elif identity.client_secret is not None:
        ways = ("client_secret_basic", "client_secret_post", "none")
    supported = metadata.token_endpoint_auth_methods_supported
    # RFC 8414 section 2: where nothing is said it is client_secret_basic. A client that
    # has one way only has to try it, as lists are not always complete.
    if supported is None or len(ways) == 1:
        return ways[0]
    for way in ways:
        if way in supported:
            return way
    raise TokenError(f"{WHAT} of '{mask_url(metadata.issuer)}' takes no client_secret")


def authenticate(
    identity: Identity,
    metadata: ServerMetadata,
    form: Form,
    *,
    assertion: str | None = None,
) -> tuple[Form, list[tuple[str, str]]]:
    """Return a form and headers that say who asks.

    Args:
        identity: Who.
        metadata: Whom.
        form: What is asked.
        assertion: A JWT signed by the client, where that is how it authenticates.

    Raises:
        TokenError: There is no way that both know, or what it needs is missing.
    """
    method = decide_method(identity, metadata, can_sign=assertion is not None)
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
    # RFC 6749 section 2.3.1: both parts are encoded as in a form first. Some servers
    # (Authlib) decode percent signs and leave a plus; a space as %20 is read by all.
    text = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return form, [("authorization", f"Basic {b64encode(text.encode()).decode()}")]


# Asking...


def request_tokens(
    metadata: ServerMetadata,
    identity: Identity,
    form: Form,
    *,
    server: Url,
    allow_insecure: bool = False,
    asked: Sequence[str] = (),
    previous: Tokens | None = None,
    dpop_key: Mapping[str, Any] | None = None,
    signing_key: SigningKey | None = None,
) -> Steps[Tokens]:
    """Ask an authorization server for tokens.

    Args:
        metadata: Whom.
        identity: Who asks; must be of this very issuer.
        form: What is asked.
        server: The MCP server that the tokens are for.
        allow_insecure: Whether http will do where the server itself is asked by http.
        asked: The scopes that are asked for.
        previous: What is refreshed.
        dpop_key: The private key to bind the token to, as a JWK.
        signing_key: The key to authenticate with in place of a secret.

    Raises:
        TokenError: It refused, or gave what is no token.
        RegistrationError: The client is of another issuer: nothing was sent.
        DiscoveryError: The server has no token endpoint.
        UrlRefused: The token endpoint must not be asked.
        AuthTemporarilyUnavailable: It cannot answer now.
    """
    url = _endpoint(metadata, server, allow_insecure=allow_insecure)
    prover = _prover(dpop_key)
    now, answer = yield from _ask(
        metadata, identity, form, url, prover=prover, signing_key=signing_key
    )
    return read_tokens(
        answer,
        now=now,
        asked=asked,
        previous=previous,
        is_bound=prover is not None,
        secrets=_secrets(identity, form),
    )


def exchange_token(
    metadata: ServerMetadata,
    identity: Identity,
    form: Form,
    *,
    server: Url,
    allow_insecure: bool = False,
) -> Steps[str]:
    """Ask an identity provider for an assertion; the arguments and errors are the same.

    Raises:
        TokenError: It refused, or gave something else.
    """
    url = _endpoint(metadata, server, allow_insecure=allow_insecure)
    now, answer = yield from _ask(metadata, identity, form, url)
    return read_exchange(answer, now=now, secrets=_secrets(identity, form))


def _endpoint(metadata: ServerMetadata, server: Url, *, allow_insecure: bool) -> str:
    url = metadata.token_endpoint
    if url is None:
        raise DiscoveryError(
            f"the authorization server '{mask_url(metadata.issuer)}' names no token "
            "endpoint"
        )
    check_url(url, what=WHAT, server=server, allow_insecure=allow_insecure)
    return url


def _prover(key: Mapping[str, Any] | None) -> Prover | None:
    if key is None:
        return None
    from mcpwire.auth.jwt import Prover

    try:
        return Prover(key)
    except ValueError as error:
        raise TokenError(f"what tokens are bound to cannot be used: {error}") from error


def _ask(
    metadata: ServerMetadata,
    identity: Identity,
    form: Form,
    url: str,
    *,
    prover: Prover | None = None,
    signing_key: SigningKey | None = None,
) -> Steps[tuple[float, Answer]]:
    """Return when it was asked, and what came back."""
    check_bound(identity, metadata)
    may_go_again = prover is not None
    while True:
        now = yield Now()
        assertion = None
        if signing_key is not None:
            assertion = client_assertion(
                signing_key.pem,
                signing_key.algorithm,
                client_id=identity.client_id,
                audience=metadata.issuer,
                now=now,
                jti=(yield from _draw_id()),
            )
        pairs, headers = authenticate(identity, metadata, form, assertion=assertion)
        if prover is not None:
            proof = prover.proof("POST", url, now=now, jti=(yield from _draw_id()))
            headers = [*headers, ("dpop", proof)]
        answer = yield Fetch(WHAT, url, form=tuple(pairs), headers=tuple(headers))
        has_nonce = prover is not None and prover.remember(url, answer.fields)
        if not (may_go_again and has_nonce and _wants_nonce(answer)):
            return now, answer
        may_go_again = False


def check_bound(identity: Identity, metadata: ServerMetadata) -> None:
    """Check that a client is known to this very authorization server.

    Raises:
        RegistrationError: It is of another one.
    """
    # 2026-07-28 basic/authorization/client-registration, "Authorization Server
    # Binding".
    if identity.kind != "document" and identity.issuer != metadata.issuer:
        known = mask_url(identity.issuer or "nobody known")
        raise RegistrationError(
            f"the client is of the authorization server '{known}': nothing of it is "
            f"sent to '{mask_url(metadata.issuer)}'"
        )


def _draw_id() -> Steps[str]:
    entropy = yield RandomBytes(_NONCE_BYTES)
    return urlsafe_b64encode(entropy).rstrip(b"=").decode("ascii")


def _wants_nonce(answer: Answer) -> bool:
    """Tell whether the server refused for want of a nonce (RFC 9449 section 8)."""
    return (
        answer.status in {400, 401}
        and (read_object(answer) or {}).get("error") == "use_dpop_nonce"
    )


def _secrets(identity: Identity, form: Form) -> list[str]:
    found = [value for name, value in form if name in _SECRET_FIELDS]
    return found if identity.client_secret is None else [*found, identity.client_secret]


_REVOCATION: Final = "the revocation endpoint"


def revoke_tokens(record: Record, server: Url, *, allow_insecure: bool) -> Steps[None]:
    """Ask the authorization server to forget the tokens, where it can be asked.

    A refresh token should take its access tokens along (RFC 7009 section 2.1), and not
    every server does that. Whatever it answers, there is nothing more to be done.

    Raises:
        RegistrationError: The client is of another issuer: nothing was sent.
        UrlRefused: Its endpoint must not be asked.
        TokenError: It takes nothing that this client can say who it is by.
        AuthTemporarilyUnavailable: No answer came.
    """
    url, tokens = record.metadata.revocation_endpoint, record.tokens
    if url is None or tokens is None:
        return
    check_bound(record.identity, record.metadata)
    check_url(url, what=_REVOCATION, server=server, allow_insecure=allow_insecure)
    for token, hint in (
        (tokens.refresh_token, "refresh_token"),
        (tokens.access_token, "access_token"),
    ):
        if token is not None:
            form = [("token", token), ("token_type_hint", hint)]
            pairs, headers = authenticate(record.identity, record.metadata, form)
            yield Fetch(_REVOCATION, url, form=tuple(pairs), headers=tuple(headers))
