"""Having tokens forgotten by whoever gave them (RFC 7009)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.auth.exchange.token_endpoint import authenticate
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

    A refresh token takes its access tokens along (RFC 7009 section 2.1). Whatever the
    server answers, there is nothing more to be done.

    Raises:
        UrlRefused: Its endpoint must not be asked.
        AuthTemporarilyUnavailable: No answer came.
    """
    url, tokens = record.metadata.revocation_endpoint, record.tokens
    if url is None or tokens is None:
        return
    check_url(url, what=WHAT, server=server, allow_insecure=allow_insecure)
    form = [("token", tokens.access_token), ("token_type_hint", "access_token")]
    if tokens.refresh_token is not None:
        form = [("token", tokens.refresh_token), ("token_type_hint", "refresh_token")]
    pairs, headers = authenticate(record.identity, record.metadata, form)
    yield Fetch(WHAT, url, form=tuple(pairs), headers=tuple(headers))
