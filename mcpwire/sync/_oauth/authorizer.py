"""Gets tokens for blocking clients: one operation at a time, for all who wait.

The operation runs in a thread of its own, which nobody has but while a token is got:
so each call still ends when its time is over, or when somebody interrupts it.
"""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.auth.flow import finish, obtain, revoke
from mcpwire.errors import CallCancelled, LocalProtocolError
from mcpwire.sync._bell import Bell
from mcpwire.sync._oauth.fetching import BlockingFetcher
from mcpwire.transports.oauth.patience import Patience
from mcpwire.transports.oauth.performing import (
    QUICK,
    Desk,
    Vault,
    quick,
    returned_parameters,
    supplied,
    too_late,
)
from mcpwire.transports.oauth.session import AuthSession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.auth.config import Grant
    from mcpwire.auth.flow import Wanted
    from mcpwire.auth.model import Record
    from mcpwire.auth.steps import Steps
    from mcpwire.limits import Limits
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.session import Credential

__all__ = ["BlockingAuthorizer"]

SLICE_S: Final = 0.1
"""How often one who waits looks whether its call is over."""


class _Operation:
    """One operation that is under way.

    Attributes:
        wanted: What for.
        waiters: How many wait for it.
        over: Rings when it is over.
        credential: What came of it.
        error: Why nothing did.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.waiters = 0
        self.over = Bell()
        self.credential: Credential | None = None
        self.error: BaseException | None = None
        self.is_over = False
        self.is_deserted = False
        self.desk: Desk | None = None

    def check(self) -> None:
        """Go no further when nobody wants it any more.

        Raises:
            CallCancelled: Nobody does.
        """
        if self.is_deserted:
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

    def first(self, check: Callable[[], None]) -> Credential | None:
        """Return a token to begin with: none where none is stored.

        Args:
            check: Raises where whoever waits need not wait any longer.

        Raises:
            AuthError: One is stored, and it cannot be refreshed now.
        """
        session = self.session
        if not session.is_begun:
            vault = Vault(self._grant, self._target)
            session.begin(vault.perform(steps.Load()))
        current = session.current
        if session.is_ready or current is None:
            return current
        if not session.can_renew():
            return session.spare()
        try:
            return self.obtain(session.wanted(used=current.token), check)
        except AuthTemporarilyUnavailable:
            spare = session.spare()
            if spare is None:
                raise
            session.put_off()
            return spare

    def obtain(self, wanted: Wanted, check: Callable[[], None]) -> Credential:
        """Return another token than the one that was not good enough.

        Raises:
            AuthError: There is none to be had.
        """
        while True:
            with self._mutex:
                good = self.session.meets(wanted)
                if good is not None:
                    return good
                operation = self._running
                if operation is None or operation.is_over or operation.is_deserted:
                    operation = self._begin(wanted)
                operation.waiters += 1
            try:
                while not operation.over.wait(SLICE_S):
                    check()
            finally:
                self._leave(operation)
            if not operation.wanted.asks_like(wanted):
                continue  # it was about something else: look what there is by now
            if operation.error is not None:
                raise copy.copy(operation.error) from operation.error
            assert operation.credential is not None, "nothing came of it"
            return operation.credential

    def _begin(self, wanted: Wanted) -> _Operation:
        operation = self._running = _Operation(wanted)
        threading.Thread(
            target=self._obtain, args=(operation,), name="mcpwire-oauth", daemon=True
        ).start()
        return operation

    def _leave(self, operation: _Operation) -> None:
        with self._mutex:
            operation.waiters -= 1
            if operation.waiters or operation.is_over:
                return
            operation.is_deserted = True
        desk = operation.desk
        if desk is not None:
            desk.close()

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
        record: Record = self._drive(steps, _Operation(wanted))
        return record

    def revoke(self) -> bool:
        """Forget what is stored; see `mcpwire.auth.flow.revoke`."""
        wanted = self.session.wanted()
        steps = revoke(wanted)
        was_there: bool = self._drive(steps, _Operation(wanted))
        self.session.current = None
        return was_there

    # Steps...

    def _drive(self, work: Steps[Any], operation: _Operation) -> Any:
        grant, target = self._grant, self._target
        vault = Vault(grant, target)
        if isinstance(grant, OAuth):
            operation.desk = Desk(grant)
        fetcher = BlockingFetcher(target, self._limits)
        try:
            outcome: Any = None
            error: Exception | None = None
            while True:
                operation.check()
                try:
                    step = work.throw(error) if error else work.send(outcome)
                except StopIteration as done:
                    return done.value
                outcome = error = None
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
            return supplied(_plain(step.function(), step.what), step.what)
        if type(step) is steps.Ask:
            assert desk is not None
            return self._ask(step, desk)
        if type(step) in QUICK:
            return quick(step, desk)
        return vault.perform(step)

    def _ask(self, step: steps.Ask, desk: Desk) -> dict[str, str]:
        grant = self._grant
        assert isinstance(grant, OAuth)
        self.patience.begin()
        try:
            if grant.ask is not None:
                return returned_parameters(_plain(grant.ask(step.url), "ask"))
            desk.show(step.url, self._target.parsed)
            assert desk.receiver is not None
            return desk.receiver.wait(step.state, grant.timeout)
        except TimeoutError as error:
            raise too_late(grant.timeout) from error
        finally:
            self.patience.end()


def _plain(value: Any, what: str) -> Any:
    """Return what a function of the user's gave; nothing here can await it.

    Raises:
        LocalProtocolError: It would have to be awaited.
    """
    if hasattr(value, "__await__"):
        close = getattr(value, "close", None)
        if close is not None:
            close()
        raise LocalProtocolError(
            f"{what}: a blocking client cannot await; give a plain function"
        )
    return value
