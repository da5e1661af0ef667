"""The authorization URL, PKCE, and the response that the browser brings back.

Authorization code with PKCE (OAuth 2.1 section 4.1, RFC 7636 with S256 only), resource
indicators (RFC 8707) and issuer identification (RFC 9207). A browser can be made to
bring back anything: a response counts only if it has the state of the request, and none
of it is shown, its error included, unless it comes from the issuer that was asked.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_plus

from mcpwire.auth.errors import ConsentDenied, DiscoveryError, ResponseRefused
from mcpwire.auth.jwt import base64url
from mcpwire.auth.steps import read_code, read_description
from mcpwire.auth.url_policy import parse_named
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.auth.records import Identity, ServerMetadata

__all__ = ["authorization_url", "code_challenge", "code_verifier", "read_response"]

# Bytes: RFC 7636 section 7.1 asks for 32, its section 4.1 for 128 characters at most.
_ENTROPY: Final = range(32, 97)


def code_verifier(entropy: bytes) -> str:
    """Return the secret half of PKCE, made of 32 to 96 random bytes."""
    assert len(entropy) in _ENTROPY, "a code verifier has 43 to 128 characters"
    return base64url(entropy)


def code_challenge(verifier: str) -> str:
    """Return the public half of a verifier (RFC 7636 section 4.2)."""
    return base64url(sha256(verifier.encode("ascii")).digest())


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

    Raises:
        DiscoveryError: The server has no authorization endpoint.
        UrlRefused: The endpoint is not a URL, or holds a fragment.
    """
    parameters = {
        "response_type": "code",
        "client_id": identity.client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": state,
    }
    if scopes:
        parameters["scope"] = " ".join(scopes)
    if "offline_access" in scopes:
        # OpenID Connect Core section 11: without it offline_access is ignored.
        parameters["prompt"] = "consent"
    if resource is not None:
        parameters["resource"] = resource
    endpoint = metadata.authorization_endpoint
    if endpoint is None:
        raise DiscoveryError(
            f"the authorization server '{mask_url(metadata.issuer)}' names no "
            "authorization endpoint: no user can log in there"
        )
    url = parse_named(endpoint, "the authorization endpoint")
    # RFC 6749 section 3.1: an endpoint's own query is kept, and no name stands twice.
    parts = [
        part
        for part in (url.query or "").split("&")
        if part and unquote_plus(part.partition("=")[0]) not in parameters
    ]
    # RFC 3986: every reader knows %20, and only forms know "+".
    parts += [f"{name}={quote(value, safe='')}" for name, value in parameters.items()]
    return f"{url.origin}{url.path}?{'&'.join(parts)}"


def read_response(
    params: Mapping[str, str], *, state: str, metadata: ServerMetadata
) -> str:
    """Return the code of a response.

    Raises:
        ResponseRefused: It does not answer our request, or comes from another issuer.
        ConsentDenied: The authorization server refused.
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
    # response with another state is discarded.
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
    # strings, whether or not the issuer announced to send it.
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
