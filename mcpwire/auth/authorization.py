"""The way through the browser: where the user is sent, and what they come back with.

Authorization code with PKCE (OAuth 2.1 section 4.1), resource indicators (RFC 8707) and
issuer identification (RFC 9207). Anybody can make a browser come back with anything: a
response counts only if it has the state of the request, and says nothing, not even what
went wrong, unless it is of the issuer that was asked.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_plus

from mcpwire.auth.errors import (
    ConsentDenied,
    DiscoveryError,
    ResponseRefused,
    UrlRefused,
)
from mcpwire.auth.steps import read_code, read_description
from mcpwire.wire.urls import mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.auth.records import Identity, ServerMetadata

__all__ = ["authorization_url", "code_challenge", "code_verifier", "read_response"]

_METHOD: Final = "S256"

_ENTROPY: Final = range(32, 97)
"""Bytes: RFC 7636 section 7.1 asks for 32, and its section 4.1 for at most 128
characters."""


def code_verifier(entropy: bytes) -> str:
    """Return the secret half, made of 32 to 96 random bytes."""
    assert len(entropy) in _ENTROPY, "a code code_verifier has 43 to 128 characters"
    return _encode(entropy)


def code_challenge(code_verifier: str) -> str:
    """Return the public half of a code_verifier (RFC 7636 section 4.2)."""
    return _encode(sha256(code_verifier.encode("ascii")).digest())


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def authorization_url(
    metadata: ServerMetadata,
    identity: Identity,
    *,
    redirect_uri: str,
    state: str,
    challenge: str,
    scopes: Sequence[str],
    resource: str | None,
) -> str:
    """Return the URL to send the user to.

    Args:
        metadata: Whom to ask.
        identity: Who asks.
        redirect_uri: Where the user comes back to.
        state: By which the response is known.
        challenge: The public half of PKCE.
        scopes: What is asked for; nothing: whatever the server thinks right.
        resource: The MCP server as its metadata spells it, byte for byte.

    Raises:
        DiscoveryError: The server has no authorization endpoint.
        UrlRefused: The endpoint is no URL, or holds a fragment.
    """
    parameters = {
        "response_type": "code",
        "client_id": identity.client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": challenge,
        "code_challenge_method": _METHOD,
        "state": state,
    }
    if scopes:
        parameters["scope"] = " ".join(scopes)
    if "offline_access" in scopes:
        # OpenID Connect Core section 11: without it offline_access is ignored.
        parameters["prompt"] = "consent"
    if resource is not None:
        parameters["resource"] = resource
    base, query = _endpoint(metadata)
    kept = [part for part in query.split("&") if part and _name(part) not in parameters]
    # RFC 3986: every reader knows %20, and only forms know "+".
    ours = [f"{name}={quote(value, safe='')}" for name, value in parameters.items()]
    return f"{base}?{'&'.join(kept + ours)}"


def _endpoint(metadata: ServerMetadata) -> tuple[str, str]:
    """Return the endpoint without its query, and the query."""
    text = metadata.authorization_endpoint
    if text is None:
        raise DiscoveryError(
            f"the authorization server '{mask_url(metadata.issuer)}' names no "
            "authorization endpoint: no user can log in there"
        )
    try:
        url = parse_url(text)
    except ValueError as error:
        rule = str(error).rpartition("': ")[2]
        raise _refused(text, rule) from None
    if url.fragment is not None:  # RFC 6749 section 3.1
        raise _refused(text, "it must not hold a fragment")
    return url.origin + url.path, url.query or ""


def _refused(text: str, rule: str) -> UrlRefused:
    shown = mask_url(text)
    return UrlRefused(
        f"the authorization endpoint '{shown}' is refused: {rule}", url=shown, rule=rule
    )


def _name(part: str) -> str:
    # RFC 6749 section 3.1: an endpoint's own query is kept, and nothing stands twice.
    return unquote_plus(part.partition("=")[0])


def read_response(
    params: Mapping[str, str], *, state: str, metadata: ServerMetadata
) -> str:
    """Return the code that the user came back with.

    Raises:
        ResponseRefused: It is no answer to our request, or not of the issuer asked.
        ConsentDenied: The authorization server says no.
    """
    _check_state(params.get("state"), state)
    _check_issuer(params.get("iss"), metadata)
    error = params.get("error")
    if error is not None:
        code = read_code(error) or "unknown"
        raise ConsentDenied(
            f"the authorization server gave no code: {code}",
            error=code,
            description=read_description(params.get("error_description")),
        )
    granted = params.get("code")
    if not granted:
        raise ResponseRefused(
            "the browser came back without a code and without an error",
            parameter="code",
        )
    return granted


def _check_state(given: str | None, state: str) -> None:
    # 2026-07-28 basic/authorization/security-considerations, "Open Redirection": a
    # response whose state is another is discarded.
    if given is None or not compare_digest(_bytes(given), _bytes(state)):
        raise ResponseRefused(
            "the browser came back with another state than it was sent with"
            if given
            else "the browser came back without a state",
            parameter="state",
        )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _check_issuer(given: str | None, metadata: ServerMetadata) -> None:
    # 2026-07-28 basic/authorization, "Authorization Response Validation": compared as
    # strings, whether or not it was announced; nothing of a response of somebody else
    # is shown, not even its error.
    if given is not None:
        if given != metadata.issuer:
            raise ResponseRefused(
                "the browser came back from another issuer than "
                f"'{mask_url(metadata.issuer)}', which it was sent to",
                parameter="iss",
            )
    elif metadata.authorization_response_iss_parameter_supported:
        raise ResponseRefused(
            f"the issuer '{mask_url(metadata.issuer)}' promises to name itself in its "
            "responses, and this one names nobody",
            parameter="iss",
        )
