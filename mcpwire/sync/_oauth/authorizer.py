"""Gets tokens for blocking clients: one operation at a time, for all who wait.

The operation runs in a thread of its own, which nobody has but while a token is got:
so each call still ends when its time is over, or when somebody interrupts it.
"""

from __future__ import annotations

import threading
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.flow import finish, obtain, revoke
from mcpwire.errors import AuthError, CallCancelled
from mcpwire.sync._bell import Bell
from mcpwire.sync._oauth.fetching import BlockingFetcher
from mcpwire.transports.oauth.patience import Patience
from mcpwire.transports.oauth.performing import (
    QUICK,
    Desk,
    Vault,
    keeps_on,
    plain,
    quick,
    raise_again,
    returned_parameters,
    supplied,
    too_late,
)
from mcpwire.transports.oauth.session import EARLY_S, AuthSession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.auth.flow import TokenRequest
    from mcpwire.auth.records import Record
    from mcpwire.auth.steps import Steps
    from mcpwire.limits import Limits
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.session import Credential

__all__ = ["BlockingAuthorizer"]

SLICE_S: Final = 0.1
"""How often one who waits looks whether its call is over."""

SETTLE_S: Final = 2.0
"""How long closing waits for what a server is giving."""


class _TooLong(Exception):
    """The next token is not waited for any longer."""


class _Operation:
    """One operation that is under way.

    Attributes:
        wanted: What for.
        waiters: Who waits for it.
        over: Rings when it is over.
        credential: What came of it.
        error: Why nothing did.
        is_deserted: Whether it goes no further.
        keeps_on: Whether it must not be broken off now.
    """

    def __init__(self, wanted: TokenRequest, *waiters: object) -> None:
        self.wanted = wanted
        self.waiters = set(waiters)
        self.over = Bell()
        self.credential: Credential | None = None
        self.error: BaseException | None = None
        self.is_over = False
        self.is_deserted = False
        self.keeps_on = False
        self.desk: Desk | None = None
        self.fetcher: BlockingFetcher | None = None
        self._mutex = threading.Lock()

    def join(self, waiter: object) -> bool:
        """Wait for it from now on; return whether anything will come of it."""
        with self._mutex:
            if self.is_over or self.is_deserted:
                return False
            self.waiters.add(waiter)
            return True

    def leave(self, waiter: object) -> None:
        """Wait for it no more; the last one ends it, if it may end."""
        with self._mutex:
            self.waiters.discard(waiter)
            if self.waiters or self.is_over or self.keeps_on:
                return
            self.is_deserted = True
        self.break_off()

    def break_off(self) -> None:
        """End what it waits for."""
        self.is_deserted = True
        for held in (self.desk, self.fetcher):
            if held is not None:
                held.close()

    def check(self, step: steps.Step | None = None) -> None:
        """Go no further when nobody wants it any more.

        Raises:
            CallCancelled: Nobody does.
        """
        with self._mutex:
            before = self.keeps_on
            if step is not None:
                self.keeps_on = keeps_on(step, before)
            if not self.waiters and not (before and self.keeps_on):
                self.is_deserted = True
            if self.is_deserted:
                self.keeps_on = False
                raise CallCancelled("authorization", reason="nobody waits for it")


class BlockingAuthorizer:
    """The tokens for one server, for all connections of one client.

    Attributes:
        session: What is known and decided.
        patience: Whose clocks stand still while a user is asked.
    """

    def __init__(self, grant: Grant, target: Http, limits: Limits) -> None:
        self.session = AuthSession(grant, target)
        self.patience = Patience()
        self._grant = grant
        self._target = target
        self._limits = limits
        self._mutex = threading.Lock()
        self._running: _Operation | None = None

    def first(
        self, check: Callable[[], None], *, asks_nobody: bool = False
    ) -> Credential | None:
        """Return a token to begin with: none where none is stored.

        Args:
            check: Raises where whoever waits need not wait any longer.
            asks_nobody: Whether no user is to be asked, even where none is good.

        Raises:
            AuthError: The one that is stored is of no more use, and there is no other.
        """
        session = self.session
        if not session.is_begun:
            vault = Vault(self._grant, self._target, self._limits)
            session.begin(vault.perform(steps.Load()))
        current = session.current
        if session.is_ready or current is None:
            return current
        if not session.can_renew():
            return session.spare()
        if session.spare() is None:
            return self.obtain(
                session.wanted(used=current.token, asks_nobody=asks_nobody), check
            )
        ends_at = monotonic() + EARLY_S

        def check_early() -> None:
            check()
            if monotonic() >= ends_at:
                raise _TooLong

        try:
            return self.obtain(
                session.wanted(used=current.token, asks_nobody=True), check_early
            )
        except (AuthError, _TooLong):
            session.put_off()
            return session.spare()

    def obtain(self, wanted: TokenRequest, check: Callable[[], None]) -> Credential:
        """Return another token than the one that was not good enough.

        Raises:
            AuthError: There is none to be had.
        """
        waiter = object()
        while True:
            operation: _Operation | None = None
            try:
                with self._mutex:
                    good = self.session.meets(wanted)
                    if good is not None:
                        return good
                    operation = self._running
                    if operation is None or not operation.join(waiter):
                        operation = _Operation(wanted, waiter)
                        self._begin(operation)
                while not operation.over.wait(SLICE_S):
                    check()
            finally:
                if operation is not None:
                    operation.leave(waiter)
            if not operation.wanted.asks_like(wanted):
                continue  # it was about something else: look what there is by now
            if operation.error is not None:
                raise_again(operation.error)
            assert operation.credential is not None, "nothing came of it"
            return operation.credential

    def _begin(self, operation: _Operation) -> None:
        threading.Thread(
            target=self._obtain, args=(operation,), name="mcpwire-oauth", daemon=True
        ).start()
        # Not before: who is interrupted up there must leave nothing to wait for.
        self._running = operation

    def settle(self) -> None:
        """Wait a moment for an operation that nobody waits for, and then end it."""
        operation = self._running
        if operation is None:
            return
        if not operation.over.wait(SETTLE_S):
            operation.break_off()

    def _obtain(self, operation: _Operation) -> None:
        try:
            steps = obtain(self._grant, operation.wanted)
            operation.credential = self.session.take(self._drive(steps, operation))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            operation.error = error
        finally:
            operation.is_over = True
            operation.over.ring()

    def finish(self, params: Mapping[str, str]) -> Record:
        """Finish a login that was begun; see `mcpwire.auth.flow.finish`."""
        assert isinstance(self._grant, OAuth)
        wanted = self.session.wanted()
        steps = finish(self._grant, wanted, params)
        record: Record = self._drive(steps, _Operation(wanted, self))
        return record

    def revoke(self) -> bool:
        """Forget what is stored; see `mcpwire.auth.flow.revoke`."""
        wanted = self.session.wanted()
        steps = revoke(wanted)
        was_there: bool = self._drive(steps, _Operation(wanted, self))
        self.session.current = None
        return was_there

    # Steps...

    def _drive(self, work: Steps[Any], operation: _Operation) -> Any:
        grant, target = self._grant, self._target
        vault = Vault(grant, target, self._limits)
        if isinstance(grant, OAuth):
            operation.desk = Desk(grant)
        fetcher = operation.fetcher = BlockingFetcher(target, self._limits)
        try:
            outcome: Any = None
            error: Exception | None = None
            while True:
                try:
                    step = work.throw(error) if error else work.send(outcome)
                except StopIteration as done:
                    return done.value
                outcome = error = None
                operation.check(step)
                try:
                    outcome = self._perform(step, vault, operation, fetcher)
                except Exception as raised:  # noqa: BLE001 - the operation decides
                    error = raised
        finally:
            work.close()
            if operation.desk is not None:
                operation.desk.close()
            fetcher.close()
            vault.release()

    def _perform(
        self,
        step: steps.Step,
        vault: Vault,
        operation: _Operation,
        fetcher: BlockingFetcher,
    ) -> Any:
        desk = operation.desk
        if type(step) is steps.Fetch:
            return fetcher.fetch(step)
        if type(step) is steps.Sleep:
            return operation.over.wait(step.seconds)
        if type(step) is steps.Supply:
            return supplied(plain(step.function(), step.what), step.what)
        if type(step) is steps.Ask:
            assert desk is not None
            return self._ask(step, desk, operation)
        if type(step) in QUICK:
            return quick(step, desk)
        return vault.perform(step)

    def _ask(
        self, step: steps.Ask, desk: Desk, operation: _Operation
    ) -> dict[str, str]:
        grant = self._grant
        assert isinstance(grant, OAuth)
        begun = self.patience.begin()
        try:
            if grant.ask is not None:
                question = _Question(grant.ask, step.url)
                return returned_parameters(question.wait(grant.timeout, operation))
            desk.show(step.url, self._target.parsed)
            assert desk.receiver is not None
            return desk.receiver.wait(step.state, grant.timeout)
        except TimeoutError as error:
            raise too_late(grant.timeout) from error
        finally:
            self.patience.end(begun)


class _Question:
    """A question to a function of the user's, which may take as long as it likes."""

    def __init__(self, ask: Callable[[str], Any], url: str) -> None:
        self._ask = ask
        self._url = url
        self._answer: Any = None
        self._error: BaseException | None = None
        self._over = Bell()
        threading.Thread(
            target=self._run, name="mcpwire-oauth-ask", daemon=True
        ).start()

    def _run(self) -> None:
        try:
            self._answer = plain(self._ask(self._url), "ask")
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._over.ring()

    def wait(self, timeout: float | None, operation: _Operation) -> Any:
        """Return the answer.

        Raises:
            CallCancelled: Nobody waits for it any more.
            TimeoutError: It does not come in that time.
        """
        ends_at = inf if timeout is None else monotonic() + timeout
        while not self._over.wait(min(SLICE_S, ends_at - monotonic())):
            operation.check()
            if monotonic() >= ends_at:
                raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._answer
