"""What is decided about tokens for one server; the same for both shells.

::

    request ─► token in use ─► 200 … ──────────────────────────────────► the reply
                  │
                  ├► 401 ─► nonce wanted? once more, with it
                  │    └──► another token, once by refresh, once by logging in
                  └► 403 insufficient_scope ─► more scopes, a few times

Whatever cannot be mended goes on to the reply, which says what it means.
"""

from __future__ import annotations

import os
from math import inf
from time import monotonic
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.config import OAuth
from mcpwire.auth.discovery import read_denial
from mcpwire.auth.errors import InsufficientScope
from mcpwire.auth.flow import TokenRequest, fits
from mcpwire.auth.scopes import widens
from mcpwire.protocol.http.request import Request
from mcpwire.transports.http.destination import misdirected
from mcpwire.transports.http.scopes import insufficient_scope
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.auth.config import Grant
    from mcpwire.auth.discovery import Denial
    from mcpwire.auth.flow import TokenResult
    from mcpwire.auth.records import Record
    from mcpwire.errors import MCPError
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = [
    "Attempt",
    "AuthSession",
    "Credential",
    "Filtered",
    "check_wanted",
    "is_unattended",
]

SKEW_S: Final = 60.0
"""So long before a token expires another is asked for."""

RETRY_S: Final = 10.0
"""How long nobody is asked again who could not answer, while the token is good."""

TRIES: Final = 5
"""How many tokens one request is tried with, whatever happens, beside its step-ups."""

EARLY_S: Final = 1.0
"""How long a request waits for the next token while its own is good."""

FUTILE_MAX: Final = 10
"""How many step-ups in a row may not have helped before nobody is asked any more."""

FUTILE_LOGINS: Final = 3
"""How many logins in a row, likewise."""

DENIED: Final = frozenset({401, 403})

_GIVEN_UP: Final = encode(jsonrpc.notification("notifications/cancelled"))[:-1]


def is_unattended(request: Request) -> bool:
    """Tell whether nobody waits for what comes of a request: no user is asked for it.

    Who gives up a call that waits for a login would be asked to log in, to say so.
    """
    body = request.body
    return request.start.startswith(b"DELETE ") or (
        body is not None and body.startswith(_GIVEN_UP)
    )


def check_wanted(reply: Any) -> None:
    """Go no further with an exchange that was aborted while nothing waited in it.

    Raises:
        MCPError: What it was aborted with.
    """
    error: MCPError | None = getattr(reply, "aborted", None)
    if error is not None:
        raise error


class Credential:
    """A token in use.

    Attributes:
        record: Where it stands.
        token: The access token.
        line: The header line, as long as that is the same for every request.
        renew_at: When another is asked for, on the monotonic clock.
        expires_at: When it is of no use any more, on that clock.
        how: How it was got; see `TokenResult`.
    """

    __slots__ = ("expires_at", "how", "line", "prover", "record", "renew_at", "token")

    def __init__(self, record: Record, how: str) -> None:
        tokens = record.tokens
        assert tokens is not None, "no tokens"
        self.record = record
        self.how = how
        self.token = tokens.access_token
        self.renew_at = self.expires_at = inf
        if tokens.expires_at is not None:
            # Wall clocks jump; what is in use is measured on the other one.
            left = tokens.expires_at - wall_time()
            self.expires_at = monotonic() + left
            # One that lives shorter than that would be renewed for each request.
            self.renew_at = self.expires_at - (
                min(SKEW_S, left / 2) if how != "stored" else SKEW_S
            )
        self.prover: Any = None
        self.line: bytes | None = None
        if tokens.token_type == "DPoP":  # noqa: S105 - a type of token
            from mcpwire.auth.jwt import Prover

            assert record.dpop_key is not None, "bound to no key"
            self.prover = Prover(record.dpop_key)
        else:
            self.line = f"authorization: Bearer {self.token}\r\n".encode("ascii")

    @property
    def can_renew(self) -> bool:
        """Whether it could be renewed without asking anybody."""
        tokens = self.record.tokens
        return tokens is not None and tokens.refresh_token is not None


class Attempt:
    """What was tried for one request so far."""

    __slots__ = (
        "has_logged_in",
        "has_refreshed",
        "nonce",
        "required",
        "step_ups",
        "tries",
    )

    def __init__(self) -> None:
        self.tries = 0
        self.step_ups = 0
        self.has_refreshed = self.has_logged_in = False
        self.nonce: str | None = None
        """The nonce that the server refused the last proof for."""
        self.required: frozenset[str] | None = None
        """The scopes that were asked for last, because the server wants them."""

    def note(self, how: str) -> None:
        """Take note of how the next token came about."""
        self.has_refreshed = self.has_refreshed or how == "refreshed"
        self.has_logged_in = self.has_logged_in or how == "logged-in"


class AuthSession:
    """The tokens for one server, and what may be done with them.

    Attributes:
        grant: How tokens are got.
        current: The token in use.
        is_begun: Whether it was looked for a stored one.
    """

    def __init__(self, grant: Grant, target: Http) -> None:
        self.grant = grant
        self.target = target
        self.current: Credential | None = None
        self.is_begun = False
        self._nonce: str | None = None
        """The newest nonce of the server (RFC 9449 section 9)."""
        self._allowed = {target.parsed.target.encode("ascii")}
        self._futile = 0
        self._stepped_up: Credential | None = None
        """The last one that was not enough."""
        self._in_vain: set[frozenset[str]] = set()
        """Scopes that were asked for, and the server wants them still."""
        self._futile_logins = 0
        self._refused: Credential | None = None
        """What the last login gave that did not help."""

    def wanted(self, **reasons: Any) -> TokenRequest:
        """Return what a token is wanted for."""
        return TokenRequest(
            self.target.parsed, allow_insecure=self.target.allow_insecure, **reasons
        )

    @property
    def is_ready(self) -> bool:
        """Whether a request goes out with what there is: a token, or none."""
        current = self.current
        if current is None:
            return self.is_begun  # most servers that want none never say so
        return monotonic() < current.renew_at

    def can_renew(self) -> bool:
        """Tell whether another token can be had without asking anybody."""
        current = self.current
        if current is None:
            return False
        return current.can_renew or not isinstance(self.grant, OAuth)

    def spare(self) -> Credential | None:
        """Return the token in use where another cannot be had: it is good so far."""
        current = self.current
        if current is not None and monotonic() < current.expires_at:
            return current
        return None

    def put_off(self) -> None:
        """Take note that there is no other token now; ask again in a while."""
        current = self.current
        if current is not None:
            current.renew_at = min(monotonic() + RETRY_S, current.expires_at)

    def begin(self, record: Record | None) -> None:
        """Begin with what is stored, if that is any good."""
        if self.is_begun:  # by another request, which may have got a newer one since
            return
        self.is_begun = True
        if record is None or record.tokens is None:
            return
        if fits(self.grant, record):
            self.current = Credential(record, "stored")

    def meets(self, wanted: TokenRequest) -> Credential | None:
        """Return the token in use, if it is what is wanted by now."""
        current = self.spare()
        if current is None or current.token == wanted.used:
            return None
        if wanted.is_step_up:
            tokens = current.record.tokens
            granted = tokens.scopes if tokens is not None else None
            required = wanted.denial.scopes if wanted.denial is not None else None
            if not required or granted is None or not {*required} <= {*granted}:
                return None
        return current

    def take(self, obtained: TokenResult) -> Credential:
        """Use that from now on."""
        current = self.current
        record = obtained.record
        if current is None or current.record != record:
            current = self.current = Credential(record, obtained.how)
        granted = record.tokens.scopes if record.tokens is not None else None
        known = tuple(self._in_vain)  # at once: other threads may add to it
        self._in_vain = {vain for vain in known if widens(granted, [*vain])}
        return current

    # Requests...

    def allow(self, target: str) -> None:
        """Let the token go to another path of the server: its HTTP+SSE endpoint.

        Each connection has an endpoint of its own; the one before is of no more use.
        """
        both = (self.target.parsed.target, target)
        self._allowed = {each.encode("ascii") for each in both}

    def equip(self, request: Request, credential: Credential | None) -> Request:
        """Return a request with the token, if it may have it.

        Raises:
            UrlRefused: It goes elsewhere than what the token is for.
        """
        # What `Request.target` does, without a call for each request.
        if request.start.split(b" ", 2)[1] not in self._allowed:
            raise misdirected(
                self.target, f"{self.target.parsed.origin}{request.target}"
            )
        if credential is None:
            return request
        line = credential.line
        if line is None:
            url = self.target.parsed.origin + request.target.partition("?")[0]
            proof = credential.prover.proof(
                request.verb,
                url,
                now=wall_time(),
                jti=os.urandom(16).hex(),
                access_token=credential.token,
                nonce=self._nonce,
            )
            line = (
                f"authorization: DPoP {credential.token}\r\ndpop: {proof}\r\n"
            ).encode("ascii")
        return Request(request.start + line, request.body)

    # Answers...

    def note_nonce(self, fields: dict[bytes, bytes]) -> None:
        """Keep the newest nonce for proofs (RFC 9449 section 8.2)."""
        nonce = fields.get(b"dpop-nonce")
        if nonce is not None and len(nonce) <= 1_024 and nonce.isascii():
            self._nonce = nonce.decode("ascii")

    def judge(
        self,
        status: int,
        fields: dict[bytes, bytes],
        credential: Credential | None,
        attempt: Attempt,
    ) -> TokenRequest | None:
        """Say what token the request is to be tried with next; ``None``: no other."""
        attempt.tries += 1
        if attempt.tries >= TRIES + attempt.step_ups:
            return None
        denial = read_denial(
            status,
            {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in fields.items()
            },
        )
        if status == 401:
            if denial.error == "use_dpop_nonce" and self._nonce != attempt.nonce:
                attempt.nonce = self._nonce
                return self.wanted(denial=denial)  # the same token, another proof
            if attempt.has_logged_in:
                self._refuse(credential)
                return None
            used = credential.token if credential is not None else None
            return self.wanted(
                used=used,
                denial=denial,
                must_log_in=attempt.has_refreshed,
                asks_nobody=self._futile_logins >= FUTILE_LOGINS,
            )
        wanted = self.wanted(
            used=credential.token if credential is not None else None, denial=denial
        )
        if credential is None or not wanted.is_step_up:
            return None
        self._check_step_up(denial, credential, attempt)
        return wanted

    def _refuse(self, credential: Credential | None) -> None:
        """Take note that a login did not help, however many requests show it."""
        if credential is not self._refused:
            self._refused = credential
            self._futile_logins += 1

    def _check_step_up(
        self, denial: Denial, credential: Credential, attempt: Attempt
    ) -> None:
        """Check that anybody may be asked for more scopes.

        2026-07-28 basic/authorization, "Step-Up Authorization Flow": a few times, then
        it is a permanent failure.
        """
        grant = self.grant
        required = denial.scopes or ()
        attempt.step_ups += 1
        limit = grant.max_step_ups if isinstance(grant, OAuth) else 0
        scopes = frozenset(required)
        if scopes == attempt.required:
            self._in_vain.add(scopes)
        attempt.required = scopes
        if (
            attempt.step_ups > limit
            or self._futile >= FUTILE_MAX
            or scopes in self._in_vain
        ):
            tokens = credential.record.tokens
            granted = (tokens.scopes if tokens is not None else None) or ()
            raise insufficient_scope(
                self.target,
                required,
                [scope for scope in required if scope not in granted] or required,
                asked=credential.record.asked_scopes,
            )
        # Calls that are made at once have one user between them.
        if credential is not self._stepped_up:
            self._stepped_up = credential
            self._futile += 1

    def accepted(self, attempt: Attempt) -> None:
        """Take note that the server let a request pass."""
        if attempt.step_ups:
            self._futile = 0
        self._futile_logins = 0


class Filtered:
    """Stands before a reply, and keeps back what another token may mend.

    Nothing is kept back of the answer to the last request of all. What is not kept back
    goes to the reply itself, without a call in between.

    Attributes:
        attempt: What was tried for the request; ``None``: nothing was ever denied.
        wanted: What token to try next; ``None``: the reply was fed.
        error: Why there is none, where something said so.
        data: Takes the next bytes of the body.
        end: Takes note that the body is complete.
    """

    __slots__ = (
        "_credential",
        "_is_last",
        "_reply",
        "_session",
        "attempt",
        "data",
        "end",
        "error",
        "wanted",
    )

    def __init__(
        self,
        reply: Fed,
        session: AuthSession,
        credential: Credential | None,
        attempt: Attempt | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        self._reply = reply
        self._session = session
        self._credential = credential
        self.attempt = attempt
        self.data: Callable[[bytes], None] = reply.data
        self.end: Callable[[], None] = reply.end
        self.wanted: TokenRequest | None = None
        self.error: MCPError | None = None
        self._is_last = is_last

    @property
    def aborted(self) -> MCPError | None:
        """What an abort from outside ends it with; engines look before they wait."""
        error: MCPError | None = getattr(self._reply, "aborted", None)
        return error

    @property
    def is_over(self) -> bool:
        """Whether whoever waits can be woken."""
        return self.wanted is not None or self.error is not None or self._reply.is_over

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head, and keep it where another token may help."""
        session = self._session
        if b"dpop-nonce" in fields:
            session.note_nonce(fields)
        attempt = self.attempt
        if status in DENIED and not self._is_last:
            if attempt is None:
                attempt = self.attempt = Attempt()
            try:
                self.wanted = session.judge(status, fields, self._credential, attempt)
            except InsufficientScope as error:
                # Raised where the request was made: whoever feeds this would close
                # the connection.
                self.error = error
            if self.wanted is not None or self.error is not None:
                self.data = self.end = _drop
                return
        elif attempt is not None:
            session.accepted(attempt)
        self._reply.head(status, fields)

    def out_of_time(self, now: float) -> MCPError:
        """Build the error for a deadline that has passed."""
        return self._reply.out_of_time(now)


def _drop(*_: object) -> None:
    """Take nothing of an answer that is kept back."""
