"""Logging in without a user: as a program, as a workload, for an employee.

What is refused here is not tried in another way: whoever runs a program unattended has
said which way is theirs (RFC 6749 section 4.4, RFC 7523, RFC 8693 with ID-JAG).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpwire.auth.config import ClientCredentials, WorkloadIdentity
from mcpwire.auth.exchange.jwt import SigningKey
from mcpwire.auth.exchange.token_endpoint import (
    client_credentials_form,
    exchange_token,
    jwt_bearer_form,
    request_tokens,
    token_exchange_form,
)
from mcpwire.auth.model import Identity, ServerMetadata
from mcpwire.auth.steps import Supply
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from mcpwire.auth.config import EnterpriseManaged
    from mcpwire.auth.exchange.token_endpoint import Form
    from mcpwire.auth.model import Tokens
    from mcpwire.auth.steps import Steps
    from mcpwire.wire.urls import Url

__all__ = ["Errand", "log_in_unattended"]


class Errand(NamedTuple):
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
    grant: ClientCredentials | WorkloadIdentity | EnterpriseManaged, errand: Errand
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


def _workload_form(grant: WorkloadIdentity, errand: Errand) -> Steps[Form]:
    assertion = grant.assertion
    if not isinstance(assertion, str):
        assertion = yield Supply(assertion, "the workload's assertion")
    return jwt_bearer_form(assertion, resource=errand.resource, scopes=errand.scopes)


def _enterprise_form(grant: EnterpriseManaged, errand: Errand) -> Steps[Form]:
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
