"""Tokens for one server, and requests with tokens: one operation for all that wait.

::

    request ─► token in use ─► 200 … ──────────────────────────────────► the reply
                  │
                  ├► 401 ─► nonce required? once more, with it
                  │    └──► another token, once by refresh, once by logging in
                  └► 403 insufficient_scope ─► more scopes, a few times

Such a denial is withheld from the reply; any other one is passed on. No lock is held
during a request: a request that needs a token joins the running operation, or starts
one. If no request waits any more, the operation is cancelled, unless it has sent a code
or a refresh token, which are valid only once: then it continues until the answer is
stored.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from contextlib import contextmanager
from functools import partial
from math import inf
from time import monotonic
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.discovery import read_denial
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    InsufficientScope,
)
from mcpwire.auth.flow import (
    TokenRequest,
    finish_pending,
    matches_grant,
    obtain_token,
    revoke_login,
)
from mcpwire.auth.jwt import read_nonce
from mcpwire.errors import MCPError
from mcpwire.protocol.http_reply import Request, decode_fields
from mcpwire.transports.http.credentials import (
    insufficient_scope_error,
    wrong_url_error,
)
from mcpwire.transports.oauth.fetch import Fetcher
from mcpwire.transports.oauth.interactive_login import InteractiveLogin, call_user
from mcpwire.transports.oauth.storage import CredentialStore
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.auth.discovery import Denial
    from mcpwire.auth.flow import TokenResult
    from mcpwire.auth.records import Record
    from mcpwire.auth.steps import Steps
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http_reply import Reply
    from mcpwire.transports.http.sender import Sender
    from mcpwire.transports.http.target import Http

logger = logging.getLogger("mcpwire.oauth")

SETTLE_TIMEOUT_S: Final = 2.0  # wait at closing for an operation that has sent a POST
RENEWAL_LEAD_S: Final = 60.0  # time before its expiry at which a token is renewed
RENEWAL_RETRY_S: Final = 10.0  # pause after a failed renewal while the token is valid
EARLY_RENEWAL_TIMEOUT_S: Final = 1.0  # longest wait while the token is valid
MAX_TRIES: Final = 5  # maximum for one request, in addition to its step-ups
# Consecutive step-ups and logins without success, after which no user is asked.
MAX_FUTILE_STEP_UPS: Final = 10
MAX_FUTILE_LOGINS: Final = 3

_CANCELLABLE_STEPS: Final = (
    steps.AuthorizeUser,
    steps.AcquireLease,
    steps.Listen,
    steps.Sleep,
    steps.CallFunction,
)


DENIAL_STATUSES: Final = frozenset({401, 403})

_CANCELLED: Final = encode(jsonrpc.notification("notifications/cancelled"))[:-1]


class Authorizer:
    """The tokens for one server, for all connections of one client."""

    def __init__(self, grant: Grant, target: Http, limits: Limits) -> None:
        self.session = AuthSession(grant, target)
        self.pauser = DeadlinePauser()
        self._grant = grant
        self._target = target
        self._limits = limits
        self._running: _Operation | None = None
        self._next_login: asyncio.Future[None] | None = None

    async def exchange(
        self,
        sender: Sender,
        request: Request,
        reply: Reply,
        rearm: Callable[[float], object],
    ) -> None:
        """Send a request with a token, and again with another one after a denial."""
        session, attempt = self.session, Attempt()
        credential = session.current
        work: Callable[[], Coroutine[Any, Any, Credential | None]] | None = None
        if not session.is_ready:
            is_unattended = _is_unattended(request)
            work = partial(self.initial_token, is_unattended=is_unattended)
        while True:
            if work is not None:
                if request.is_background:
                    work = partial(self._wait_for_login, work)
                with self.pauser.register(reply.deadline, rearm=rearm):
                    async with sender.abort_scope(reply):
                        credential = await work()
            if attempt.tries and credential is not None:
                attempt.sources |= {credential.source}
            sink = _FilteringSink(request, reply, session, credential, attempt)
            authorized = session.authorize(request, credential)
            sender.sinks[reply] = sink
            try:
                await sender.engine.exchange(authorized, sink)
            finally:
                del sender.sinks[reply]
            if sink.error is not None:
                raise sink.error
            token_request = sink.token_request
            if token_request is None:
                return
            if _is_unattended(request):
                token_request = token_request._replace(is_unattended=True)
            work = partial(self.obtain, token_request)

    async def initial_token(self, *, is_unattended: bool = False) -> Credential | None:
        """Return a token for the first try, or None if none is stored."""
        session = self.session
        if not session.is_loaded:
            store = CredentialStore(self._grant, self._target, self._limits)
            session.load(await _perform_stored(store, steps.Load()))
        current = session.current
        if session.is_ready or current is None:
            return current
        if not current.tokens.refresh_token and isinstance(self._grant, OAuth):
            return session.usable_credential()  # only a user could renew it
        is_usable = session.usable_credential() is not None
        token_request = session.token_request(
            refused_token=current.token, is_unattended=is_unattended or is_usable
        )
        if not is_usable:
            return await self.obtain(token_request)
        try:
            async with asyncio.timeout(EARLY_RENEWAL_TIMEOUT_S):
                return await self.obtain(token_request)
        except Exception:  # of a user's function, too; the token is still valid
            logger.debug("the early renewal of a token failed", exc_info=True)
            current.renew_at = min(monotonic() + RENEWAL_RETRY_S, current.expires_at)
            return session.usable_credential()

    async def obtain(self, token_request: TokenRequest) -> Credential:
        """Return a token that satisfies the request; join or start an operation."""
        while True:
            credential = self.session.find(token_request)
            if credential is not None:
                return credential
            operation = self._active_operation()
            if operation is None:
                operation = self._start(token_request)
            else:
                operation.waiters += 1
            # The result of an operation for another question does not count.
            is_answer = operation.token_request.sharing_key == token_request.sharing_key
            try:
                await asyncio.wait([operation.task])
                # If the last earlier request cancelled the operation, start another.
                if is_answer and not operation.task.cancelled():
                    return operation.task.result()
            except Exception as error:  # noqa: BLE001 - raised again as a copy
                _reraise_copy(error)
            finally:
                operation.leave()

    async def _wait_for_login(
        self, work: Callable[[], Coroutine[Any, Any, Credential | None]]
    ) -> Credential | None:
        """Return the token of `work`, which is tried again after each new token."""
        loop = asyncio.get_running_loop()
        level = logging.WARNING
        while True:
            try:
                return await work()
            except AuthRequired as error:
                text = "the server's stream stays closed until a login: %s"
                logger.log(level, text, error)
            level = logging.DEBUG
            login = self._next_login
            if login is None or login.get_loop() is not loop:
                login = self._next_login = loop.create_future()
            await asyncio.shield(login)

    @property
    def is_running(self) -> bool:
        """Whether an operation runs."""
        return self._active_operation() is not None

    async def settle(self) -> None:
        """Wait for an operation without waiters; cancel it after `SETTLE_TIMEOUT_S`."""
        operation = self._active_operation()
        if operation is None or operation.waiters:
            return
        task = operation.task
        await asyncio.wait([task], timeout=SETTLE_TIMEOUT_S)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def finish(self, params: Mapping[str, str]) -> Record:
        """Finish a pending login; see `mcpwire.auth.flow.finish_pending`."""
        assert isinstance(self._grant, OAuth)
        token_request = self.session.token_request()
        record: Record = await self._drive(
            finish_pending(self._grant, token_request, params)
        )
        return record

    async def revoke(self) -> bool:
        """Delete and revoke the stored login; see `mcpwire.auth.flow.revoke_login`."""
        return bool(await self._drive(revoke_login(self.session.token_request())))

    def _active_operation(self) -> _Operation | None:
        """Return the running operation unless it belongs to another event loop."""
        operation = self._running
        if operation is None or operation.task.done():
            return None
        is_here = operation.task.get_loop() is asyncio.get_running_loop()
        return operation if is_here else None

    def _start(self, token_request: TokenRequest) -> _Operation:
        operation = self._running = _Operation(token_request)
        operation.task = asyncio.get_running_loop().create_task(
            self._obtain(operation), name="mcpwire-oauth"
        )
        # Marks the error as retrieved, because no request may wait any more.
        operation.task.add_done_callback(
            lambda task: task.cancelled() or task.exception()
        )
        return operation

    async def _obtain(self, operation: _Operation) -> Credential:
        flow = obtain_token(self._grant, operation.token_request)
        credential = self.session.use(await self._drive(flow, operation))
        login, self._next_login = self._next_login, None
        if login is not None and login.get_loop() is asyncio.get_running_loop():
            login.set_result(None)
        return credential

    async def _drive(
        self, flow: Steps[Any], operation: _Operation | None = None
    ) -> Any:
        """Perform the steps of an operation and return its result."""
        target, grant = self._target, self._grant
        store = CredentialStore(grant, target, self._limits)
        login = None
        if isinstance(grant, OAuth):
            login = InteractiveLogin(grant, target.parsed)
        fetcher = Fetcher(target, self._limits)
        try:
            outcome: Any = None
            error: Exception | None = None
            while True:
                try:
                    if error is not None:
                        step = flow.throw(error)
                    else:
                        step = flow.send(outcome)
                except StopIteration as done:
                    return done.value
                outcome = error = None
                if operation is not None:
                    operation.begin_step(step)
                try:
                    outcome = await self._perform(step, store, login, fetcher)
                except Exception as raised:  # noqa: BLE001 - the operation decides
                    error = raised
        finally:
            flow.close()
            if login is not None:
                login.close()
            if store.is_quick:
                store.close()
            else:
                await asyncio.shield(asyncio.to_thread(store.close))

    async def _perform(
        self,
        step: steps.Step,
        store: CredentialStore,
        login: InteractiveLogin | None,
        fetcher: Fetcher,
    ) -> Any:
        outcome: Any = None
        match step:
            case steps.Fetch():
                outcome = await fetcher.fetch(step)
            case steps.Sleep():
                await asyncio.sleep(step.seconds)
            case steps.CallFunction():
                outcome = _check_supplied(await call_user(step.function), step.what)
            case steps.Listen():
                assert login is not None, "a grant without a user"
                with self.pauser.pause():
                    outcome = await login.listen(step.preferred)
            case steps.AuthorizeUser():
                assert login is not None, "a grant without a user"
                with self.pauser.pause():
                    outcome = await login.ask(step)
            case steps.ReadClock():
                outcome = wall_time()
            case steps.RandomBytes():
                outcome = os.urandom(step.count)
            case steps.GenerateKey():
                from mcpwire.auth.jwt import generate_proof_key

                outcome = generate_proof_key()
            case _:
                outcome = await _perform_stored(store, step)
        return outcome


async def _perform_stored(store: CredentialStore, step: steps.Step) -> Any:
    if store.is_quick:
        return store.perform(step)
    return await asyncio.to_thread(store.perform, step)


def _check_supplied(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise AuthTemporarilyUnavailable(
            f"{what}: the function gave {type(value).__name__}, not a text"
        )
    return value.strip()


class _Operation:
    """A running operation and the number of requests that wait for it."""

    task: asyncio.Task[Credential]

    def __init__(self, token_request: TokenRequest) -> None:
        self.token_request = token_request
        self.waiters = 1  # the request that starts it
        self.is_cancellable = False  # whether the current step may be cancelled

    def leave(self) -> None:
        """Count a request that stops waiting; the last one cancels the operation."""
        self.waiters -= 1
        if not self.waiters and self.is_cancellable:
            self.task.cancel()

    def begin_step(self, step: steps.Step) -> None:
        """Record the next step; raise `CancelledError` if no request waits for it.

        A POST consumes a rotating refresh token, a code or a registration. It is
        completed, and its answer stored, even if no request waits any more.
        """
        is_get = isinstance(step, steps.Fetch) and not step.is_post
        self.is_cancellable = is_get or isinstance(step, _CANCELLABLE_STEPS)
        if self.is_cancellable and not self.waiters:
            raise asyncio.CancelledError


def _reraise_copy(error: Exception) -> NoReturn:
    """Raise an operation's error in one of several waiters; copy an `MCPError`."""
    if isinstance(error, MCPError):
        raise copy.copy(error) from error
    raise error  # a user's class may not support copying


class Credential:
    """A token in use; its times are monotonic, because the wall clock may be set."""

    def __init__(self, record: Record, source: str) -> None:
        tokens = record.tokens
        assert tokens is not None, "no tokens"
        self.record = record
        self.tokens = tokens
        self.token = tokens.access_token
        self.source = source  # the way it was obtained; see `TokenResult`
        self.renew_at = self.expires_at = inf
        if tokens.expires_at is not None:
            left = tokens.expires_at - wall_time()
            self.expires_at = monotonic() + left
            # Half its time at most: a short token would be renewed for each request.
            self.renew_at = self.expires_at - (
                min(RENEWAL_LEAD_S, left / 2) if source != "stored" else RENEWAL_LEAD_S
            )
        self.prover: Any = None
        self.line = b""  # the header line, if it is the same for every request
        if tokens.token_type == "DPoP":  # noqa: S105 - a type of token
            from mcpwire.auth.jwt import Prover

            assert record.dpop_key is not None, "bound to no key"
            self.prover = Prover(record.dpop_key)
        else:
            self.line = f"authorization: Bearer {self.token}\r\n".encode()


class Attempt:
    """The state of the tries of one request."""

    tries = step_ups = 0
    sources: frozenset[str] = frozenset()  # the ways in which its tokens were obtained
    nonce: str | None = None  # the nonce that the server required last
    required: frozenset[str] | None = None  # the scopes it required last


class AuthSession:
    """The token in use for one server, and the rules for replacing it."""

    def __init__(self, grant: Grant, target: Http) -> None:
        self.grant = grant
        self.target = target
        self.current: Credential | None = None  # the token in use
        self.is_loaded = False  # whether the store was read
        self._nonce: str | None = None  # the newest nonce (RFC 9449 section 9)
        self._allowed = {target.parsed.target.encode("ascii")}
        self._futile_step_ups = 0
        self._stepped_up: Credential | None = None  # the last one with too few scopes
        # Scopes that the server still required after they had been requested.
        self._futile_scopes: set[frozenset[str]] = set()
        self._futile_logins = 0
        self._last_refused: Credential | None = None  # of the last futile login

    def token_request(self, **reasons: Any) -> TokenRequest:
        """Return a request for a token for this server."""
        return TokenRequest(
            self.target.parsed, allow_insecure=self.target.allow_insecure, **reasons
        )

    @property
    def is_ready(self) -> bool:
        """Whether a request can be sent now, with the token in use or without one."""
        current = self.current
        if current is None:
            return self.is_loaded  # without a token, as the server may need none
        return monotonic() < current.renew_at

    def usable_credential(self) -> Credential | None:
        """Return the token in use if it has not expired."""
        current = self.current
        if current is not None and monotonic() < current.expires_at:
            return current
        return None

    def load(self, record: Record | None) -> None:
        """Use the token of the stored record if the record fits the grant."""
        if self.is_loaded:  # by another request, and the token may be newer
            return
        self.is_loaded = True
        if record is not None and record.tokens and matches_grant(self.grant, record):
            self.current = Credential(record, "stored")

    def find(self, token_request: TokenRequest) -> Credential | None:
        """Return the token in use if it satisfies the request."""
        current = self.usable_credential()
        if current is None or not token_request.accepts(current.tokens):
            return None
        return current

    def use(self, obtained: TokenResult) -> Credential:
        """Replace the token in use by a new one and return it."""
        current = self.current
        record = obtained.record
        if current is None or current.record != record:
            current = self.current = Credential(record, obtained.source)
        granted = {*(current.tokens.scopes or ())}
        self._futile_scopes = {
            scopes for scopes in self._futile_scopes if not scopes <= granted
        }
        return current

    def allow(self, target: str) -> None:
        """Allow the token for this HTTP+SSE endpoint instead of an earlier one."""
        targets = (self.target.parsed.target, target)
        self._allowed = {path.encode("ascii") for path in targets}

    def authorize(self, request: Request, credential: Credential | None) -> Request:
        """Return the request with the token, or raise `UrlRefused` for another path."""
        # Like `Request.target`, but without a function call per request.
        if request.start.split(b" ", 2)[1] not in self._allowed:
            raise wrong_url_error(
                self.target, f"{self.target.parsed.origin}{request.target}"
            )
        if credential is None:
            return request
        line = credential.line
        if credential.prover is not None:
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
                f"authorization: DPoP {credential.token}\r\ndpop: {proof}\r\n".encode()
            )
        return Request(request.start + line, request.body)

    def store_nonce(self, fields: dict[bytes, bytes]) -> None:
        """Store the newest nonce for proofs (RFC 9449 section 8.2)."""
        nonce = read_nonce(fields[b"dpop-nonce"].decode("latin-1"))
        self._nonce = nonce or self._nonce

    def handle_denial(
        self,
        status: int,
        fields: dict[bytes, bytes],
        credential: Credential | None,
        attempt: Attempt,
    ) -> TokenRequest | None:
        """Return the request for the token of the next try, or None to give up."""
        attempt.tries += 1
        if attempt.tries >= MAX_TRIES + attempt.step_ups:
            return None
        denial = read_denial(status, decode_fields(fields))
        used = credential.token if credential is not None else None
        if status == 401:
            if denial.error == "use_dpop_nonce" and self._nonce != attempt.nonce:
                attempt.nonce = self._nonce
                return self.token_request(denial=denial)  # same token, another proof
            if "logged-in" in attempt.sources:
                if credential is not self._last_refused:  # count once for all requests
                    self._last_refused = credential
                    self._futile_logins += 1
                return None
            return self.token_request(
                refused_token=used,
                denial=denial,
                must_log_in="refreshed" in attempt.sources,
                is_unattended=self._futile_logins >= MAX_FUTILE_LOGINS,
            )
        token_request = self.token_request(refused_token=used, denial=denial)
        if credential is None or not token_request.is_step_up:
            return None
        self._check_step_up(denial, credential, attempt)
        return token_request

    def _check_step_up(
        self, denial: Denial, credential: Credential, attempt: Attempt
    ) -> None:
        """Raise `InsufficientScope` if no more scopes may be requested.

        2026-07-28 basic/authorization, "Step-Up Authorization Flow": after a few times
        the failure is permanent.
        """
        grant = self.grant
        required = denial.scopes or ()
        attempt.step_ups += 1
        limit = grant.max_step_ups if isinstance(grant, OAuth) else 0
        scopes = frozenset(required)
        if scopes == attempt.required:
            self._futile_scopes.add(scopes)
        attempt.required = scopes
        if (
            attempt.step_ups > limit
            or self._futile_step_ups >= MAX_FUTILE_STEP_UPS
            or scopes in self._futile_scopes
        ):
            granted = credential.tokens.scopes or ()
            raise insufficient_scope_error(
                self.target,
                required,
                [scope for scope in required if scope not in granted] or required,
                requested=credential.record.asked_scopes,
            )
        # Simultaneous requests count as one.
        if credential is not self._stepped_up:
            self._stepped_up = credential
            self._futile_step_ups += 1

    def record_success(self, attempt: Attempt) -> None:
        """Reset the counts of failures after an accepted request."""
        if attempt.step_ups:
            self._futile_step_ups = 0
        self._futile_logins = 0


class _FilteringSink:
    """A sink that withholds a denial if another token may help; else it passes it on.

    For the DELETE of a session, all responses are passed on. The engine passes the body
    directly to the reply, without a call of this class.
    """

    def __init__(
        self,
        request: Request,
        reply: Reply,
        session: AuthSession,
        credential: Credential | None,
        attempt: Attempt,
    ) -> None:
        self._reply = reply
        self._session = session
        self._credential = credential
        self._attempt = attempt
        self._is_last = request.start.startswith(b"DELETE ")
        self.data: Callable[[bytes], None] = reply.data
        self.end: Callable[[], None] = reply.end
        self.token_request: TokenRequest | None = None  # for the token of the next try
        self.error: MCPError | None = None  # to be raised by `exchange`

    @property
    def is_over(self) -> bool:
        """Whether the rest of the response is not needed."""
        return (
            self.token_request is not None
            or self.error is not None
            or self._reply.is_over
        )

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Process the final head; withhold it if another token may help."""
        session, attempt = self._session, self._attempt
        if b"dpop-nonce" in fields:
            session.store_nonce(fields)
        if status in DENIAL_STATUSES and not self._is_last:
            try:
                self.token_request = session.handle_denial(
                    status, fields, self._credential, attempt
                )
            except InsufficientScope as error:
                # `exchange` raises it: an error raised here closes the connection.
                self.error = error
            if self.token_request is not None or self.error is not None:
                self.data = self.end = _ignore
                return
        elif attempt.tries:
            session.record_success(attempt)
        self._reply.head(status, fields)


def _is_unattended(request: Request) -> bool:
    """Return whether a request must not start a login, because no call waits for it.

    Cancelling a call that waits for a login must not start another login.
    """
    body = request.body
    return (
        request.is_background
        or request.is_unattended
        or request.start.startswith(b"DELETE ")
        or (body is not None and body.startswith(_CANCELLED))
    )


def _ignore(*_: object) -> None:
    """Ignore all arguments."""


# Pauses of deadlines during a login


class DeadlinePauser:
    """The deadlines and timeouts of calls that are paused while a user logs in."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all limits and logins, because their event loop is closed."""
        self._limits: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._logins: list[None] = []

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Yield with all limits paused."""
        limits, logins = self._limits, self._logins
        logins.append(None)
        if len(logins) == 1:
            for pause, _ in limits:
                pause()
        try:
            yield
        finally:
            logins.pop()
            if not logins and logins is self._logins:  # not after `reset`
                for _, resume in limits:
                    resume()

    @contextmanager
    def register(
        self,
        deadline: Deadline | None,
        scope: asyncio.Timeout | None = None,
        *,
        rearm: Callable[[float], object] = _ignore,
    ) -> Iterator[None]:
        """Yield; logins pause a deadline, with `rearm`, and an `asyncio.timeout`."""
        time = asyncio.get_running_loop().time
        left: float | None = None  # of the timeout

        def pause() -> None:
            nonlocal left
            if deadline is not None:
                deadline.pause(time())
            when = None if scope is None or scope.expired() else scope.when()
            left = None if when is None else when - time()
            if scope is not None and left is not None:
                scope.reschedule(None)

        def resume() -> None:
            if deadline is not None:
                deadline.resume(time())
                rearm(deadline.at)
            if scope is not None and left is not None:
                scope.reschedule(time() + left)

        limits, logins = self._limits, self._logins
        limits.append((pause, resume))
        if logins:
            pause()
        try:
            yield
        finally:
            if limits is self._limits:  # not after `reset`
                limits.remove((pause, resume))
                if logins:
                    resume()
