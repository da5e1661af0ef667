"""The identity of this client at an authorization server, and dynamic registration.

The order is from 2026-07-28 basic/authorization/client-registration: the configured
client, the client stored for this issuer, a client-id metadata document, dynamic
registration (RFC 7591). Credentials belong to one issuer and are never sent to another;
only a metadata document is valid at any issuer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.auth import steps
from mcpwire.auth.errors import RegistrationError
from mcpwire.auth.records import Identity, unique_scopes
from mcpwire.errors import AuthError
from mcpwire.wire.json import loads_object
from mcpwire.wire.urls import is_loopback, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.auth.config import OAuth
    from mcpwire.auth.records import ClientAuth, ServerMetadata
    from mcpwire.auth.steps import Answer, Steps
    from mcpwire.auth.url_policy import UrlPolicy

_WHAT: Final = "the registration endpoint"

# The authentication methods by type of client, best first.
_PREFERRED_METHODS: Final[Mapping[str, tuple[ClientAuth, ...]]] = {
    # RFC 8252 section 8.4: an installed program cannot keep a secret. With HTTP Basic,
    # servers of `mcp` refuse a form without client_id; Okta and Notion one with it.
    "native": ("none", "client_secret_post", "client_secret_basic"),
    "web": ("client_secret_post", "client_secret_basic", "none"),
}


def check_document_url(url: str) -> str:
    """Return the URL of a client-id metadata document unchanged, or raise `ValueError`.

    Servers compare it as a string with the URL in the document, so it must have only
    one spelling.
    """
    parsed = parse_url(url)
    segments = parsed.path.lower().replace("%2e", ".").split("/")
    for is_broken, rule in (
        (parsed.scheme != "https", "it must be https"),
        (parsed.path == "/", "it must have a path"),
        (parsed.query is not None, "it must not hold a query"),
        (parsed.fragment is not None, "it must not hold a fragment"),
        ({".", ".."} & {*segments}, "its path must not hold dot segments"),
    ):
        if is_broken:
            raise ValueError(f"cannot use client_metadata_url '{parsed}': {rule}")
    return url


def identify(
    config: OAuth,
    metadata: ServerMetadata,
    stored: Identity | None,
    *,
    redirect_uri: str,
    scopes: Sequence[str],
    policy: UrlPolicy,
) -> Steps[Identity]:
    """Return this client's identity at an authorization server; register if needed."""
    now = yield steps.ReadClock()
    issuer = metadata.issuer
    if config.client_id is not None:
        return _configured_identity(config, config.client_id, metadata, stored)
    usable: Identity | None = None
    known_scopes: tuple[str, ...] = ()
    if stored is not None and stored.issuer == issuer:
        known_scopes = stored.scopes or ()
        if _is_usable(stored, redirect_uri, now):
            usable = stored
    if usable is not None and (usable.scopes is None or {*scopes} <= {*known_scopes}):
        return usable
    url = config.client_metadata_url
    if url is not None and metadata.client_id_metadata_document_supported:
        return Identity(url, kind="document", auth_method="none")
    # The union: alternating sets of scopes need only one registration.
    scopes = unique_scopes((*known_scopes, *scopes))
    document = registration_document(
        config, metadata, redirect_uri=redirect_uri, scopes=scopes
    )
    is_first = usable is None
    try:
        return (
            yield from _register(config, metadata, document, policy, is_first=is_first)
        )
    except AuthError:
        if usable is None:
            raise
        return usable  # the server may grant scopes beyond the registered ones


def _register(
    config: OAuth,
    metadata: ServerMetadata,
    document: Mapping[str, Any],
    policy: UrlPolicy,
    *,
    is_first: bool,
) -> Steps[Identity]:
    """Register this client; a first registration omits scopes that are refused."""
    now = yield steps.ReadClock()
    issuer, endpoint = metadata.issuer, metadata.registration_endpoint
    if endpoint is None:
        alternatives = ["client_id= of a client that is registered there"]
        if metadata.client_id_metadata_document_supported:
            alternatives.append(
                "client_metadata_url= of a document that describes this client"
            )
        raise RegistrationError(
            f"the authorization server '{mask_url(issuer)}' does not support dynamic "
            f"registration: pass {', or '.join(alternatives)}"
            + (
                "; it does not support client_metadata_url="
                if config.client_metadata_url is not None
                else ""
            )
        )
    policy.check(endpoint, _WHAT)
    answer = yield steps.Fetch(_WHAT, endpoint, document=document)
    error = (loads_object(answer.body) or {}).get("error")
    is_refused = answer.status == 400 or error == "insufficient_scope"
    if is_refused and is_first and "scope" in document:
        # A server with a list of allowed scopes may refuse a client with others;
        # Keycloak then answers 403 with insufficient_scope.
        without_scope = {
            name: value for name, value in document.items() if name != "scope"
        }
        answer = yield steps.Fetch(_WHAT, endpoint, document=without_scope)
    return read_registration(answer, issuer, now, request=document)


def _configured_identity(
    config: OAuth, client_id: str, metadata: ServerMetadata, stored: Identity | None
) -> Identity:
    issuer = metadata.issuer
    is_named = config.issuer == issuer
    # "Authorization Server Binding": the client stays bound to its first issuer.
    bound = None
    if stored is not None and (stored.kind, stored.client_id) == ("given", client_id):
        bound = stored.issuer
    if bound not in {None, issuer} and not is_named:
        raise RegistrationError(
            f"the client_id is of the authorization server '{mask_url(str(bound))}', "
            f"and the MCP server names '{mask_url(issuer)}': nothing is sent there "
            "unless issuer= names it"
        )
    # Assumed metadata: no document confirms an authorization server at this origin.
    if config.client_secret is not None and metadata.is_assumed and not is_named:
        raise RegistrationError(
            f"nothing says that '{mask_url(issuer)}' is an authorization server: a "
            "client_secret goes there only with issuer= naming it"
        )
    return given_identity(client_id, config.client_secret, issuer, stored)


def given_identity(
    client_id: str, secret: str | None, issuer: str, stored: Identity | None
) -> Identity:
    """Return a configured client: if it is stored, with its authentication method."""
    identity = Identity(client_id, secret, issuer)
    if stored is not None and attrs.evolve(stored, auth_method=None) == identity:
        return stored
    return identity


def _is_usable(stored: Identity, redirect_uri: str, now: float) -> bool:
    """Return whether a stored identity of this issuer is usable, scopes aside."""
    if stored.kind == "document":
        return False
    if stored.secret_expires_at is not None and stored.secret_expires_at <= now:
        return False
    # Servers compare redirect URIs exactly, some even the port of a loopback URI.
    return stored.redirect_uri in {None, redirect_uri}


# Dynamic registration


def registration_document(
    config: OAuth, metadata: ServerMetadata, *, redirect_uri: str, scopes: Sequence[str]
) -> dict[str, Any]:
    """Return the client metadata to register (RFC 7591 section 2)."""
    # 2026-07-28 basic/authorization/client-registration, "Application Type and Redirect
    # URI Constraints": a client with a loopback redirect URI is native.
    is_native = is_loopback(parse_url(redirect_uri).host)
    kind = config.application_type or ("native" if is_native else "web")
    grants = ["authorization_code"]
    supported = metadata.grant_types_supported
    if supported is None or "refresh_token" in supported:
        grants.append("refresh_token")  # 2026-07-28: a client must request them
    document: dict[str, Any] = {
        "client_name": config.client_name,
        "application_type": kind,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": _preferred_method(kind, metadata),
    }
    if scopes:  # some servers refuse a login with scopes that are not registered
        document["scope"] = " ".join(scopes)
    return document


def _preferred_method(kind: str, metadata: ServerMetadata) -> ClientAuth:
    supported = metadata.token_endpoint_auth_methods_supported
    if supported is None:
        return "client_secret_basic"  # RFC 8414 section 2: the default
    preferred = _PREFERRED_METHODS[kind]
    # Lists can be incomplete: without a common method, use the usual one.
    usual: ClientAuth = "none" if kind == "native" else "client_secret_basic"
    return next((method for method in preferred if method in supported), usual)


def read_registration(
    answer: Answer, issuer: str, now: float, *, request: Mapping[str, Any]
) -> Identity:
    """Parse the response to a registration (RFC 7591 section 3.2), or raise."""
    steps.check_available(answer, _WHAT, now)
    document = loads_object(answer.body)
    error = steps.read_code((document or {}).get("error"))
    client_id = _text((document or {}).get("client_id"))
    shown = mask_url(issuer)
    if answer.status not in {200, 201}:
        reason = (
            f"the authorization server '{shown}' refused to register this client: "
            f"{error or steps.describe(answer)}; if this client is already registered "
            "there, pass client_id="
        )
    elif document is None:
        received = steps.describe(answer)
        reason = f"{_WHAT} of '{shown}' answered with no JSON object: {received}"
    elif client_id is None:
        reason = f"{_WHAT} of '{shown}' answered without a client_id"
    else:
        secret = _text(document.get("client_secret"))
        # RFC 7591 section 3.2.1: the server may replace the requested method. Without
        # one of the possible methods the server's metadata decides.
        possible = ("none",) if secret is None else _PREFERRED_METHODS["web"]
        name = "token_endpoint_auth_method"
        methods = (document.get(name), request.get(name))
        return Identity(
            client_id,
            secret,
            issuer,
            kind="registered",
            auth_method=next((each for each in methods if each in possible), None),
            secret_expires_at=_expiry(document.get("client_secret_expires_at"), secret),
            redirect_uri=request["redirect_uris"][0],
            scopes=tuple(request.get("scope", "").split()),
        )
    description = steps.read_description((document or {}).get("error_description"))
    raise RegistrationError(
        reason, error=error, description=description, status=answer.status
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _expiry(value: object, secret: str | None) -> float | None:
    # RFC 7591 section 3.2.1: 0 means never. An invalid value counts as never too: the
    # server refuses an expired secret, and then the client registers again.
    if secret is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if value > 0 else None
