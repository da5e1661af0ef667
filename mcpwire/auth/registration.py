"""The identity of this client at an authorization server, and dynamic registration.

In the order of 2026-07-28 basic/authorization/client-registration: the client that the
user gave, the one stored for this very issuer, a metadata document at a URL of ours,
dynamic registration (RFC 7591). Credentials belong to one issuer and are never shown to
another; only a metadata document is good anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth import steps
from mcpwire.auth.errors import RegistrationError
from mcpwire.auth.records import Identity, each_scope_once
from mcpwire.errors import AuthError
from mcpwire.wire.urls import is_loopback, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.auth.config import OAuth
    from mcpwire.auth.records import ClientAuth, ServerMetadata
    from mcpwire.auth.steps import Answer, Steps
    from mcpwire.auth.url_policy import UrlPolicy

__all__ = [
    "check_document_url",
    "identify",
    "read_registration",
    "registration_document",
]

_WHAT: Final = "the registration endpoint"

# The methods of a client of this type, best first.
_WANTED_METHODS: Final[Mapping[str, tuple[ClientAuth, ...]]] = {
    # RFC 8252 section 8.4: an installed program keeps no secret. With HTTP Basic,
    # servers of `mcp` refuse a form without client_id, and Okta and Notion one with it.
    "native": ("none", "client_secret_post", "client_secret_basic"),
    "web": ("client_secret_post", "client_secret_basic", "none"),
}


def check_document_url(url: str) -> str:
    """Return the URL of a client-id metadata document unchanged, or raise `ValueError`.

    It is compared as a string with the one in the document, so it must have a single
    spelling.
    """
    parsed = parse_url(url)
    segments = parsed.path.lower().replace("%2e", ".").split("/")
    for breaks, rule in (
        (parsed.scheme != "https", "it must be https"),
        (parsed.path == "/", "it must have a path"),
        (parsed.query is not None, "it must not hold a query"),
        (parsed.fragment is not None, "it must not hold a fragment"),
        ({".", ".."} & {*segments}, "its path must not hold dot segments"),
    ):
        if breaks:
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
    now = yield steps.Now()
    issuer = metadata.issuer
    if config.client_id is not None:
        return _given(config, config.client_id, metadata, stored)
    usable: Identity | None = None
    known: tuple[str, ...] = ()
    if stored is not None and stored.issuer == issuer:
        known = stored.scopes or ()
        if _is_usable(stored, redirect_uri, now):
            usable = stored
    if usable is not None and (usable.scopes is None or {*scopes} <= {*known}):
        return usable
    url = config.client_metadata_url
    if url is not None and metadata.client_id_metadata_document_supported:
        return Identity(url, kind="document", auth_method="none")
    try:
        return (
            yield from _register(
                config,
                metadata,
                redirect_uri=redirect_uri,
                # All of them: two methods that take turns need one registration.
                scopes=each_scope_once((*known, *scopes)),
                policy=policy,
                is_first=usable is None,
            )
        )
    except AuthError:
        if usable is None:
            raise
        return usable  # its server may give other scopes all the same


def _register(
    config: OAuth,
    metadata: ServerMetadata,
    *,
    redirect_uri: str,
    scopes: Sequence[str],
    policy: UrlPolicy,
    is_first: bool,
) -> Steps[Identity]:
    """Register; where there is none yet and the scopes are refused, without them."""
    now = yield steps.Now()
    issuer, endpoint = metadata.issuer, metadata.registration_endpoint
    if endpoint is None:
        ways = ["client_id= of a client that is registered there"]
        if metadata.client_id_metadata_document_supported:
            ways.append("client_metadata_url= of a document that describes this client")
        raise RegistrationError(
            f"the authorization server '{mask_url(issuer)}' does not register "
            f"clients that ask: pass {', or '.join(ways)}"
            + (
                "; it does not support client_metadata_url="
                if config.client_metadata_url is not None
                else ""
            )
        )
    policy.check(endpoint, _WHAT)
    document = registration_document(
        config, metadata, redirect_uri=redirect_uri, scopes=scopes
    )
    answer = yield steps.Fetch(_WHAT, endpoint, document=document)
    if answer.status == 400 and scopes and is_first:
        # A server with a list of scopes may refuse a client that names others.
        bare = registration_document(
            config, metadata, redirect_uri=redirect_uri, scopes=()
        )
        answer = yield steps.Fetch(_WHAT, endpoint, document=bare)
    return read_registration(answer, issuer, now, asked=document)


def _given(
    config: OAuth, client_id: str, metadata: ServerMetadata, stored: Identity | None
) -> Identity:
    issuer = metadata.issuer
    is_named = config.issuer == issuer
    # "Authorization Server Binding": the issuer of its first use stays the one.
    known = None
    if stored is not None and (stored.kind, stored.client_id) == ("given", client_id):
        known = stored.issuer
    if known not in {None, issuer} and not is_named:
        raise RegistrationError(
            f"the client_id is of the authorization server '{mask_url(str(known))}', "
            f"and the MCP server names '{mask_url(issuer)}': nothing is sent there "
            "unless issuer= names it"
        )
    # Nothing says that there is an authorization server at the MCP server's origin.
    if config.client_secret is not None and metadata.is_assumed and not is_named:
        raise RegistrationError(
            f"nothing says that '{mask_url(issuer)}' is an authorization server: a "
            "client_secret goes there only with issuer= naming it"
        )
    return Identity(client_id, config.client_secret, issuer)


def _is_usable(stored: Identity, redirect_uri: str, now: float) -> bool:
    """Tell whether a stored identity of this issuer is good now, but for its scopes."""
    if stored.kind == "document":
        return False
    if stored.secret_expires_at is not None and stored.secret_expires_at <= now:
        return False
    # Servers compare redirect URIs exactly, and some also the port of a loopback one.
    return stored.redirect_uri in {None, redirect_uri}


# Dynamic registration...


def registration_document(
    config: OAuth,
    metadata: ServerMetadata,
    *,
    redirect_uri: str,
    scopes: Sequence[str],
) -> dict[str, Any]:
    """Return the metadata of this client (RFC 7591 section 2)."""
    # 2026-07-28 basic/authorization/client-registration, "Application Type and Redirect
    # URI Constraints": a redirect to this machine makes a client native.
    is_native = is_loopback(parse_url(redirect_uri).host)
    kind = config.application_type or ("native" if is_native else "web")
    grants = ["authorization_code"]
    supported = metadata.grant_types_supported
    if supported is None or "refresh_token" in supported:
        grants.append("refresh_token")  # 2026-07-28: a client has to ask for them
    document: dict[str, Any] = {
        "client_name": config.client_name,
        "application_type": kind,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": _wanted_method(kind, metadata),
    }
    if scopes:  # some servers refuse a login for others than the registered ones
        document["scope"] = " ".join(scopes)
    return document


def _wanted_method(kind: str, metadata: ServerMetadata) -> ClientAuth:
    supported = metadata.token_endpoint_auth_methods_supported
    if supported is None:
        return "client_secret_basic"  # RFC 8414 section 2: the default
    wanted = _WANTED_METHODS[kind]
    # Lists are not always complete: without a common method the usual one is tried.
    usual: ClientAuth = "none" if kind == "native" else "client_secret_basic"
    return next((method for method in wanted if method in supported), usual)


def read_registration(
    answer: Answer, issuer: str, now: float, *, asked: Mapping[str, Any]
) -> Identity:
    """Return the registered identity (RFC 7591 section 3.2); raises like `identify`."""
    steps.check_available(answer, _WHAT, now)
    document = steps.read_object(answer.body)
    error = steps.read_code((document or {}).get("error"))
    client_id = _text((document or {}).get("client_id"))
    shown = mask_url(issuer)
    if answer.status not in {200, 201}:
        reason = (
            f"the authorization server '{shown}' refused to register this client: "
            f"{error or steps.describe(answer)}; where it is registered there by hand, "
            "pass client_id="
        )
    elif document is None:
        found = steps.describe(answer)
        reason = f"{_WHAT} of '{shown}' answered with no JSON object: {found}"
    elif client_id is None:
        reason = f"{_WHAT} of '{shown}' answered without a client_id"
    else:
        secret = _text(document.get("client_secret"))
        return Identity(
            client_id,
            secret,
            issuer,
            kind="registered",
            auth_method=_settled_method(document, asked, has_secret=secret is not None),
            secret_expires_at=_expiry(document.get("client_secret_expires_at"), secret),
            redirect_uri=asked["redirect_uris"][0],
            scopes=tuple(asked.get("scope", "").split()),
        )
    raise RegistrationError(reason, error=error, status=answer.status)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _expiry(value: object, secret: str | None) -> float | None:
    # RFC 7591 section 3.2.1: 0 means never. A value that is not a time is taken for
    # that too: an expired secret is refused, and then the client registers anew.
    if secret is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if value > 0 else None


def _settled_method(
    document: Mapping[str, Any], asked: Mapping[str, Any], *, has_secret: bool
) -> ClientAuth | None:
    """Return how to authenticate; ``None``: the server's metadata decides."""
    # RFC 7591 section 3.2.1: the server may settle on another than was asked for.
    possible = _WANTED_METHODS["web"] if has_secret else ("none",)
    settled = [each.get("token_endpoint_auth_method") for each in (document, asked)]
    return next((method for method in settled if method in possible), None)
