"""A good authorization server, an evil one, and a search for stolen secrets."""

import asyncio
import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote_plus

from authorization_server import (
    AuthorizationServer,
    authorization_server,
    oauth,
    protected_server,
)
from joserfc.jwk import ECKey

import mcpwire

BOUND_S: Final = 20.0
GOOD: Final = "SENTINEL-GOOD"
EVIL: Final = "SENTINEL-EVIL"
CLIENT: Final = "client-of-the-good-one"
EMPLOYER: Final = "employer-of-the-good-one"
KEY: Final = ECKey.generate_key("P-256")
PEM: Final = KEY.as_pem(private=True).decode()
PUBLIC_PEM: Final = KEY.as_pem(private=False).decode()
NO_CODE: Final = re.compile(rb"[A-Za-z0-9+/=_-]{12,}")

SECRETS: Final = {
    "oauth": lambda good, **options: oauth(
        client_id=CLIENT, client_secret=f"{GOOD}-configured", **options
    ),
    "secret": lambda good, **options: mcpwire.ClientCredentials(
        client_id=CLIENT, client_secret=f"{GOOD}-configured", **options
    ),
    "key": lambda good, **options: mcpwire.ClientCredentials(
        client_id=CLIENT, private_key_pem=PEM, **options
    ),
    "workload": lambda good, **options: mcpwire.WorkloadIdentity(
        client_id=CLIENT, assertion=f"{GOOD}-assertion", **options
    ),
    "enterprise": lambda good, **options: mcpwire.EnterpriseManaged(
        client_id=CLIENT,
        client_secret=f"{GOOD}-configured",
        idp_client_id=EMPLOYER,
        idp_client_secret=f"{GOOD}-idp-secret",
        idp_token_endpoint=good.issuer + "/token",
        id_token=f"{GOOD}-id-token",
        **options,
    ),
}
"""Grants that hold a secret of the good server."""


def knows_client(good: AuthorizationServer, kind: str) -> None:
    """Register the client of those grants at the good server."""
    if kind == "key":
        good.add_client(CLIENT, key=PUBLIC_PEM)
    elif kind == "workload":
        good.add_client(CLIENT)
    else:
        good.add_client(CLIENT, secret=f"{GOOD}-configured")
        good.add_client(EMPLOYER, secret=f"{GOOD}-idp-secret")


@contextlib.contextmanager
def good_and_evil(**options: Any) -> Iterator[Any]:
    """Serve one of each; `options` are for the good one."""
    good = authorization_server(sentinel=GOOD, **options)
    with good as one, authorization_server(sentinel=EVIL) as other:
        yield one, other


def decoded(data: bytes) -> Iterator[bytes]:
    """Yield bytes as received, and each possible decoding of them."""
    yield data
    yield unquote_plus(data.decode("latin-1")).encode("latin-1", "replace")
    for word in NO_CODE.findall(data):
        padded = word.rstrip(b"=") + b"=" * (-len(word.rstrip(b"=")) % 4)
        with contextlib.suppress(binascii.Error, ValueError):
            yield base64.b64decode(padded, altchars=b"-_")
            yield base64.b64decode(padded)


def secrets_of(good: AuthorizationServer) -> set[bytes]:
    """Return the secrets that only the good server and its client know."""
    forms = [request.form for request in good.token_requests]
    sent = {
        form[name]
        for form in forms
        for name in ("code", "code_verifier", "client_assertion", "assertion")
        if name in form
    }
    sent |= {request.query.get("state", "") for request in good.authorizations}
    return {
        GOOD.encode(),
        b"of-the-good-one",
        *(text.encode() for text in sent if text),
    }


def stolen(good: AuthorizationServer, *others: bytes) -> list[tuple[bytes, bytes]]:
    """Return each secret of the good server found in the data, with its context."""
    secrets = secrets_of(good)
    return [
        (secret, form[:200])
        for data in others
        for form in decoded(data)
        for secret in secrets
        if secret in form
    ]


async def use(url: str, grant: Any, **options: Any) -> Any:
    """Connect and call a tool; return the error in place of a result."""
    target = mcpwire.Http(url, auth=grant, **options)
    try:
        async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
            return await client.call_tool("echo", {"text": "hi"})
    except mcpwire.MCPError as error:
        return error


__all__ = [
    "BOUND_S",
    "GOOD",
    "SECRETS",
    "good_and_evil",
    "knows_client",
    "protected_server",
    "stolen",
    "use",
]
