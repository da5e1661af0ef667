"""From "no token" to a token, and from one token to the next.

::

    stored and good ────────────────────────────────────► use it
    stored, refresh token ──► lease ──► refresh ────────► store, use it
                                          ├─ invalid_grant: forget the tokens, log in
                                          └─ never at all: log in
    nothing, or more scopes ──► `mcpwire.auth.login` ───► store, use it

Only the one that holds the lease asks for a refresh; whoever had to wait looks at what
is stored by then. No lease is held while a user thinks. A refresh token is sent once:
to send it again is what a thief would do, and ends the login.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import attrs

from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    TokenError,
)
from mcpwire.auth.exchange.revocation import revoke_tokens
from mcpwire.auth.exchange.token_endpoint import refresh_form, request_tokens
from mcpwire.auth.login import (
    SAVES,
    changing,
    finish,
    fits,
    is_unknown,
    log_in,
    log_in_alone,
)
from mcpwire.auth.steps import Forget, Lease, Load, Now, Release, Save, Sleep
from mcpwire.errors import AuthError

if TYPE_CHECKING:
    from mcpwire.auth.config import Grant
    from mcpwire.auth.discovery.challenges import Denial
    from mcpwire.auth.model import Identity, Record, Tokens
    from mcpwire.auth.steps import Steps
    from mcpwire.wire.urls import Url

__all__ = [
    "Obtained",
    "Renewal",
    "Wanted",
    "finish",
    "fits",
    "obtain",
    "renew",
    "revoke",
]

LEASE_S: Final = 30.0
"""How long asking for tokens may take; who dies meanwhile blocks nobody for longer."""

LOOK_S: Final = 0.1
"""How often one who waits for the lease looks at what is stored."""

LOOKS: Final = 900
"""How often at most: three who die one after the other are waited for."""

_NEVER: Final = frozenset({"unauthorized_client", "unsupported_grant_type"})
"""Refusals that are no reason to try it again with this server (RFC 6749 section 5.2).
"""

_NOT_THERE: Final = frozenset({404, 405, 410})
"""Statuses without a reason that say: the token endpoint is elsewhere by now."""


class Wanted(NamedTuple):
    """What a token is wanted for.

    Attributes:
        server: The URL it is sent to.
        used: The access token that was not good enough, where there was one.
        denial: How the server said so.
        must_log_in: Whether a refreshed one was not good enough, either.
        allow_insecure: Whether tokens may travel unencrypted.
        asks_nobody: Whether no user is to be asked: the token in use is good so far,
            or logging in has not helped.
    """

    server: Url
    used: str | None = None
    denial: Denial | None = None
    must_log_in: bool = False
    allow_insecure: bool = False
    asks_nobody: bool = False

    def __repr__(self) -> str:
        """Show no token."""
        return f"<Wanted for {self.server}>"

    @property
    def is_step_up(self) -> bool:
        """Whether the token is good, and more scopes are wanted."""
        denial = self.denial
        return (
            denial is not None
            and denial.status == 403
            and denial.error == "insufficient_scope"
        )

    def asks_like(self, other: Wanted) -> bool:
        """Tell whether what comes of this is an answer to the other as well."""
        if self.is_step_up or other.is_step_up:
            mine = self.denial.scopes if self.denial is not None else None
            theirs = other.denial.scopes if other.denial is not None else None
            return self.is_step_up == other.is_step_up and mine == theirs
        ours = (self.used, self.must_log_in, self.asks_nobody)
        return ours == (other.used, other.must_log_in, other.asks_nobody)


class Obtained(NamedTuple):
    """What came of it.

    Attributes:
        record: What is stored now; its tokens are there.
        how: ``"stored"``, ``"refreshed"`` or ``"logged-in"``.
    """

    record: Record
    how: Literal["stored", "refreshed", "logged-in"]


class Renewal(NamedTuple):
    """What came of a refresh.

    Attributes:
        record: What is stored now; ``None``: somebody has to log in.
        forgotten: Who this client was, where the server says that it knows it no more.
    """

    record: Record | None = None
    forgotten: Identity | None = None


def _is_good(tokens: Tokens | None, used: str | None, now: float) -> bool:
    """Tell whether a stored token is worth a request."""
    return (
        tokens is not None
        and tokens.access_token != used
        and (tokens.expires_at is None or tokens.expires_at > now)
    )


def obtain(grant: Grant, wanted: Wanted) -> Steps[Obtained]:
    """Get a token to go on with: a stored one, a refreshed one, or one by logging in.

    Raises:
        AuthError: There is none to be had; the class says what to do about it.
    """
    record = yield Load()
    now = yield Now()
    if (
        record is not None
        and fits(grant, record)
        and _is_good(record.tokens, wanted.used, now)
        and not (wanted.is_step_up and not _has(record, wanted.denial))
    ):
        return Obtained(record, "stored")
    if not isinstance(grant, OAuth):
        return Obtained((yield from log_in_alone(grant, wanted, record)), "logged-in")
    forgotten = None
    if not (wanted.is_step_up or wanted.must_log_in):
        renewed, forgotten = yield from renew(grant, wanted)
        if renewed is not None:
            return Obtained(renewed, "refreshed")
    if wanted.asks_nobody:
        raise AuthRequired(
            f"{wanted.server}: somebody has to log in, which was not begun by itself"
        )
    return Obtained((yield from log_in(grant, wanted, forgotten)), "logged-in")


def _has(record: Record, denial: Denial | None) -> bool:
    granted = record.tokens.scopes if record.tokens is not None else None
    required = denial.scopes if denial is not None else None
    return bool(required) and granted is not None and set(required or ()) <= {*granted}


# Refreshing...


def renew(grant: OAuth, wanted: Wanted) -> Steps[Renewal]:
    """Trade the stored refresh token in, or have somebody else do it.

    Raises:
        AuthTemporarilyUnavailable: The server cannot say now; everything is kept.
        TokenError: It refused for another reason than the refresh token.
    """
    for _ in range(LOOKS):
        if (yield Lease(LEASE_S)):
            renewal = yield from _renew(grant, wanted)
            yield Release()
            return renewal
        yield Sleep(LOOK_S)
        record: Record | None = yield Load()
        if record is None or record.tokens is None:
            return Renewal()
        now = yield Now()
        if fits(grant, record) and _is_good(record.tokens, wanted.used, now):
            return Renewal(record)  # whoever has the lease was quicker
    raise AuthTemporarilyUnavailable(
        f"{wanted.server}: others ask for tokens for it, and come to no end"
    )


def _renew(grant: OAuth, wanted: Wanted) -> Steps[Renewal]:
    traded = renewed = None
    for _ in range(SAVES):
        record: Record | None = yield Load()
        now = yield Now()
        if record is None or record.tokens is None or not fits(grant, record):
            return Renewal()
        if _is_good(record.tokens, wanted.used, now):
            return Renewal(record)  # whoever was quicker has stored it
        token = record.tokens.refresh_token
        if token is None:
            return Renewal()
        if token != traded:
            traded = token
            try:
                renewed = yield from _refresh(grant, wanted, record, record.tokens)
            except TokenError as error:
                if error.error != "invalid_grant":
                    return _without(record, error)
                renewed = None
        fresh = attrs.evolve(record, tokens=renewed)
        if (yield Save(fresh)):
            return Renewal(None if renewed is None else fresh)
    raise changing(wanted.server)


def _refresh(
    grant: OAuth, wanted: Wanted, record: Record, tokens: Tokens
) -> Steps[Tokens]:
    assert tokens.refresh_token is not None
    identity = record.identity
    if identity.kind == "given" and grant.client_secret is not None:
        # What is configured is newer than what is stored, and of the same client.
        identity = attrs.evolve(identity, client_secret=grant.client_secret)
    return (
        yield from request_tokens(
            record.metadata,
            identity,
            refresh_form(tokens.refresh_token, resource=record.resource),
            asked=tokens.scopes or record.asked_scopes,
            previous=tokens,
            server=wanted.server,
            allow_insecure=wanted.allow_insecure,
            dpop_key=record.dpop_key,
        )
    )


def _without(record: Record, error: TokenError) -> Renewal:
    """Say how to go on without a refresh that was refused; the tokens are kept.

    Raises:
        TokenError: What it says is for the user, or may be over soon.
    """
    if is_unknown(record.identity, error):
        return Renewal(None, record.identity)
    is_elsewhere = error.error is None and error.status in _NOT_THERE
    if error.error in _NEVER or is_elsewhere:
        return Renewal()
    raise error


# Logging out...


def revoke(wanted: Wanted) -> Steps[bool]:
    """Forget what is stored, and have the server forget it; tell whether there was any.

    It is forgotten here whatever the server says (RFC 7009 section 2.2).

    Raises:
        AuthTemporarilyUnavailable: Somebody else stores something all the time.
    """
    for _ in range(SAVES):
        record: Record | None = yield Load()
        # Also what cannot be read: it may hold secrets all the same.
        if (yield Forget()):
            break
    else:
        raise changing(wanted.server)
    if record is None or record.tokens is None:
        return False
    with suppress(AuthError):
        yield from revoke_tokens(
            record, wanted.server, allow_insecure=wanted.allow_insecure
        )
    return True
