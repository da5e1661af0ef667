"""Having tokens forgotten by whoever gave them (RFC 7009)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.auth.exchange.token_endpoint import authenticate, check_bound
from mcpwire.auth.guard import check_url
from mcpwire.auth.steps import Fetch

if TYPE_CHECKING:
    from mcpwire.auth.model import Record
    from mcpwire.auth.steps import Steps
    from mcpwire.wire.urls import Url

__all__ = ["revoke_tokens"]

WHAT: Final = "the revocation endpoint"


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
    check_url(url, what=WHAT, server=server, allow_insecure=allow_insecure)
    for token, hint in (
        (tokens.refresh_token, "refresh_token"),
        (tokens.access_token, "access_token"),
    ):
        if token is not None:
            form = [("token", token), ("token_type_hint", hint)]
            pairs, headers = authenticate(record.identity, record.metadata, form)
            yield Fetch(WHAT, url, form=tuple(pairs), headers=tuple(headers))
