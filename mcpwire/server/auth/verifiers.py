"""Believing a token: what a verifier is, and the one that just has a list of them.

A verifier is asked who a token is of. It answers with a `Principal`, says that it does
not believe it, or that it cannot tell now; what a token must be for, and which scopes
it needs, is not for it to judge: a `ResourceServer` does.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from mcpwire.errors import AuthError
from mcpwire.server.auth.credentials import is_bearer_token, is_key
from mcpwire.server.auth.principal import Principal
from mcpwire.wire.headers import is_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.transports.http.target import Http

__all__ = [
    "LONGEST_LEEWAY_S",
    "ApiKeys",
    "InvalidToken",
    "OwnTokens",
    "StaticTokens",
    "Verifier",
    "check_leeway",
    "check_place",
]

LONGEST_LEEWAY_S: Final = 300.0
"""By how much clocks may differ where somebody looks after them at all. Past it a token
is over, whatever its verifier says."""


def check_place(place: str | Http, what: str) -> Http:
    """Return where something of an issuer's is.

    Raises:
        ValueError: Whoever is between could say in the issuer's name who comes in.
    """
    from mcpwire.transports.http.target import Http

    found = Http(place) if isinstance(place, str) else place
    if not (found.parsed.is_secure or found.allow_insecure):
        raise ValueError(
            f"{what} at '{found.parsed}' must be asked by https; inside a network of "
            "your own give Http(..., allow_insecure=True)"
        )
    return found


def check_leeway(leeway: float) -> float:
    """Return a leeway.

    Raises:
        ValueError: It is none.
    """
    if not 0 <= leeway <= LONGEST_LEEWAY_S:
        raise ValueError(
            f"leeway must be 0 to {LONGEST_LEEWAY_S:g} seconds, got {leeway!r}"
        )
    return leeway


class InvalidToken(AuthError):
    """A verifier does not believe a token. The reason is for the log alone."""


class Verifier(Protocol):
    """Tells who a token is of."""

    async def verify(self, token: str) -> Principal:
        """Return who the token is of.

        It must be good now. `Principal.audience` must say whom it is for: without the
        server's own name in it nobody is let in.

        Raises:
            InvalidToken: It is not believed; the next verifier is asked.
            AuthError: Nobody can tell now.
        """
        ...


Owner: TypeAlias = "Principal | Mapping[str, Any] | str"
"""Who a token is given to: a principal, its attributes, or its subject alone."""


class OwnTokens:
    """Tokens that are given out by whoever runs the server, for it and nobody else.

    So they need no audience. None of them is kept: only what tells it again, with a key
    that is new in each process, which also makes how long a look takes say nothing.

    Args:
        owners: Whom each token is given to.
    """

    header: str | None = None
    """The field of its own in which a token stands; ``None``: ``Authorization``."""

    def __init__(self, owners: Mapping[str, Owner]) -> None:
        """Take the tokens.

        Raises:
            ValueError: A token could never be sent, or nobody is named.
        """
        self._key = secrets.token_bytes(32)
        is_sendable = is_bearer_token if self.header is None else is_key
        if not all(map(is_sendable, owners)):
            raise ValueError("a token must be short visible ASCII as RFC 6750 has it")
        self._owners = {
            self._digest(token): _principal(owner) for token, owner in owners.items()
        }

    def __repr__(self) -> str:
        """Show nothing of the tokens."""
        return f"<{type(self).__name__}: {len(self._owners)}>"

    async def verify(self, token: str) -> Principal:
        """Return who the token was given to.

        Raises:
            InvalidToken: Nobody.
        """
        owner = self._owners.get(self._digest(token))
        if owner is None:
            raise InvalidToken("it is not in the list")
        return owner

    def _digest(self, token: str) -> bytes:
        text = token.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, "sha256")


class StaticTokens(OwnTokens):
    """A list of tokens, for tests and for what few people use.

    ::

        StaticTokens({"a-long-random-text": "ann"})
        StaticTokens({os.environ["TOKEN"]: {"subject": "ann", "scopes": ["read"]}})
    """


class ApiKeys(OwnTokens):
    """A list of keys, in ``Authorization: Bearer`` or in a field of their own.

    Args:
        owners: Whom each key is given to.
        header: The field in which they stand, such as ``X-API-Key``.
    """

    def __init__(
        self, owners: Mapping[str, Owner], *, header: str | None = None
    ) -> None:
        """Take the keys.

        Raises:
            ValueError: A key could never be sent, or nobody is named.
        """
        if header is not None:
            if not is_token(header) or header.lower() == "authorization":
                raise ValueError(f"no key can stand in a field named {header!r}")
            self.header = header.lower()
        super().__init__(owners)


def _principal(owner: Owner) -> Principal:
    if isinstance(owner, str):
        found = Principal(subject=owner)
    else:
        found = owner if isinstance(owner, Principal) else Principal(**owner)
    if not (found.subject or found.client_id):
        # Two without a name would be one.
        raise ValueError("each token needs a subject or a client id that it is of")
    return found
