"""Who this client is to an authorization server, and how it becomes somebody.

In the order of 2026-07-28 basic/authorization/client-registration: what the user gave,
what is stored for this very issuer, a metadata document at a URL of ours, dynamic
registration (RFC 7591). Credentials are of one issuer and are never shown to another;
only a metadata document is good anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.errors import RegistrationError
from mcpwire.auth.records import Identity
from mcpwire.auth.steps import (
    Fetch,
    Now,
    check_available,
    describe,
    read_code,
    read_object,
)
from mcpwire.auth.url_policy import check_url
from mcpwire.wire.urls import is_loopback, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.auth.config import OAuth
    from mcpwire.auth.records import ClientAuth, ServerMetadata
    from mcpwire.auth.steps import Answer, Steps
    from mcpwire.wire.urls import Url

__all__ = [
    "check_document_url",
    "choose",
    "identify",
    "read_registration",
    "registration_document",
]

_WHAT: Final = "the registration endpoint"

_WANTED_METHODS: Final[Mapping[str, tuple[ClientAuth, ...]]] = {
    # RFC 8252 section 8.4: what is installed with everybody keeps no secret.
    "native": ("none", "client_secret_basic", "client_secret_post"),
    "web": ("client_secret_basic", "client_secret_post", "none"),
}
"""How a client of this type would authenticate, best first."""

_METHODS: Final = frozenset(_WANTED_METHODS["web"])

_DOT_SEGMENTS: Final = frozenset({".", ".."})


def check_document_url(url: str) -> str:
    """Return the URL of a client-id metadata document, as it is.

    It is compared as a string with what stands in the document, so it must be the only
    way to spell itself.

    Raises:
        ValueError: It is no URL that can be a client id; says which rule it breaks.
    """
    parsed = parse_url(url)
    segments = parsed.path.lower().replace("%2e", ".").split("/")
    for breaks, rule in (
        (parsed.scheme != "https", "it must be https"),
        (parsed.path == "/", "it must have a path"),
        (parsed.query is not None, "it must not hold a query"),
        (parsed.fragment is not None, "it must not hold a fragment"),
        (not _DOT_SEGMENTS.isdisjoint(segments), "its path must not hold dot segments"),
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
    server: Url,
    allow_insecure: bool = False,
) -> Steps[Identity]:
    """Find out who this client is to an authorization server; register if need be.

    Raises:
        RegistrationError: It is nobody there; says what to give.
        UrlRefused: The registration endpoint must not be asked.
        AuthTemporarilyUnavailable: The server cannot register it now.
    """
    now = yield Now()
    identity = choose(config, metadata, stored, redirect_uri=redirect_uri, now=now)
    if identity is not None:
        return identity
    endpoint = metadata.registration_endpoint
    assert endpoint is not None, "choose has said so"
    check_url(endpoint, what=_WHAT, server=server, allow_insecure=allow_insecure)
    document = registration_document(config, metadata, redirect_uri=redirect_uri)
    answer = yield Fetch(_WHAT, endpoint, document=document)
    return read_registration(answer, metadata.issuer, now, asked=document)


def choose(
    config: OAuth,
    metadata: ServerMetadata,
    stored: Identity | None,
    *,
    redirect_uri: str,
    now: float,
) -> Identity | None:
    """Return who this client is already; ``None``: it has to register.

    Raises:
        RegistrationError: It is nobody there and cannot register; or it is somebody
            with another authorization server only.
    """
    if config.client_id is not None:
        return _given(config, config.client_id, metadata, stored)
    if stored is not None and _is_usable(stored, metadata.issuer, redirect_uri, now):
        return stored
    url = config.client_metadata_url
    if url is not None and metadata.client_id_metadata_document_supported:
        return Identity(url, kind="document", auth_method="none")
    if metadata.registration_endpoint is None:
        raise _nobody(config, metadata)
    return None


def _given(
    config: OAuth, client_id: str, metadata: ServerMetadata, stored: Identity | None
) -> Identity:
    issuer = metadata.issuer
    is_named = config.issuer == issuer
    if config.issuer not in {None, "discovered", issuer}:
        raise _of_another(config.issuer, issuer)
    # "Authorization Server Binding": whoever was trusted first stays the one.
    known = _issuer_of(stored, client_id)
    if known not in {None, issuer} and not is_named:
        raise _of_another(known, issuer)
    # Nothing says that who answers at the server's origin is an authorization server.
    if config.client_secret is not None and metadata.is_assumed and not is_named:
        raise RegistrationError(
            f"nothing says that '{mask_url(issuer)}' is an authorization server: a "
            "client_secret goes there only with issuer= naming it"
        )
    return Identity(client_id, config.client_secret, issuer)


def _issuer_of(stored: Identity | None, client_id: str) -> str | None:
    """Return where a client that was given has been used before."""
    if stored is None or (stored.kind, stored.client_id) != ("given", client_id):
        return None
    return stored.issuer


def _of_another(known: str | None, named: str) -> RegistrationError:
    return RegistrationError(
        f"the client_id is of the authorization server '{mask_url(str(known))}', and "
        f"the MCP server names '{mask_url(named)}': nothing is sent there unless "
        "issuer= names it"
    )


def _is_usable(stored: Identity, issuer: str, redirect_uri: str, now: float) -> bool:
    """Tell whether a stored identity is good at this issuer, as a string, and now."""
    if stored.kind == "document" or stored.issuer != issuer:
        return False
    if stored.secret_expires_at is not None and stored.secret_expires_at <= now:
        return False
    # Servers compare redirect URIs exactly, and some also the port of a loopback one.
    return stored.redirect_uri in {None, redirect_uri}


def _nobody(config: OAuth, metadata: ServerMetadata) -> RegistrationError:
    ways = ["client_id= of a client that is registered there"]
    if metadata.client_id_metadata_document_supported:
        ways.append("client_metadata_url= of a document that describes this client")
    text = (
        f"the authorization server '{mask_url(metadata.issuer)}' does not register "
        f"clients that ask: pass {', or '.join(ways)}"
    )
    if config.client_metadata_url is not None:
        text += "; it does not support client_metadata_url="
    return RegistrationError(text)


# Dynamic registration...


def registration_document(
    config: OAuth, metadata: ServerMetadata, *, redirect_uri: str
) -> dict[str, Any]:
    """Return what this client says of itself (RFC 7591 section 2)."""
    kind = config.application_type or _application_type(redirect_uri)
    grants = ["authorization_code"]
    supported = metadata.grant_types_supported
    if supported is None or "refresh_token" in supported:
        grants.append("refresh_token")  # 2026-07-28: whoever wants them asks for them
    document: dict[str, Any] = {
        "client_name": config.client_name,
        "application_type": kind,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": _wanted_method(kind, metadata),
    }
    if config.scopes:
        document["scope"] = " ".join(config.scopes)
    return document


def _application_type(redirect_uri: str) -> str:
    # 2026-07-28 basic/authorization/client-registration, "Application Type and Redirect
    # URI Constraints": who comes back to this machine is native.
    return "native" if is_loopback(parse_url(redirect_uri).host) else "web"


def _wanted_method(kind: str, metadata: ServerMetadata) -> ClientAuth:
    supported = metadata.token_endpoint_auth_methods_supported
    if supported is None:
        return "client_secret_basic"  # RFC 8414 section 2: the default
    wanted = _WANTED_METHODS[kind]
    # Lists are not always complete: who supports none of ours is asked all the same.
    return next((method for method in wanted if method in supported), wanted[0])


def read_registration(
    answer: Answer, issuer: str, now: float, *, asked: Mapping[str, Any]
) -> Identity:
    """Return who this client has become (RFC 7591 section 3.2).

    Raises:
        RegistrationError: Nobody; the code says why, where the server did.
        AuthTemporarilyUnavailable: The server cannot register it now.
    """
    check_available(answer, _WHAT, now)
    document = read_object(answer)
    if answer.status not in {200, 201}:
        raise _refusal(answer, document or {}, issuer)
    if document is None:
        raise RegistrationError(
            f"{_WHAT} of '{mask_url(issuer)}' answered with no JSON object: "
            f"{describe(answer)}",
            status=answer.status,
        )
    client_id = _text(document.get("client_id"))
    if client_id is None:
        raise RegistrationError(
            f"{_WHAT} of '{mask_url(issuer)}' answered without a client_id",
            error=read_code(document.get("error")),
            status=answer.status,
        )
    secret = _text(document.get("client_secret"))
    return Identity(
        client_id,
        secret,
        issuer,
        kind="registered",
        auth_method=_settled_method(document, asked, has_secret=secret is not None),
        secret_expires_at=_expiry(document.get("client_secret_expires_at"), secret),
        redirect_uri=asked["redirect_uris"][0],
    )


def _refusal(
    answer: Answer, document: Mapping[str, Any], issuer: str
) -> RegistrationError:
    error = read_code(document.get("error"))
    return RegistrationError(
        f"the authorization server '{mask_url(issuer)}' refused to register this "
        f"client: {error or describe(answer)}; where it is registered there by hand, "
        "pass client_id=",
        error=error,
        status=answer.status,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _expiry(value: object, secret: str | None) -> float | None:
    # RFC 7591 section 3.2.1: 0 means never. What is no time is taken for that too: an
    # expired secret is refused, and then the client registers anew.
    if secret is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if value > 0 else None


def _settled_method(
    document: Mapping[str, Any], asked: Mapping[str, Any], *, has_secret: bool
) -> ClientAuth | None:
    """Return how to authenticate; ``None``: the server's metadata decides."""
    # RFC 7591 section 3.2.1: the server may settle on another than was asked for.
    for source in (document, asked):
        method = source.get("token_endpoint_auth_method")
        for known in _METHODS:
            if method == known and (has_secret or known == "none"):
                return known
    return None
