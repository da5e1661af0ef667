"""Gets tokens on asyncio: one operation at a time for one server, for all who wait.

Nothing is locked while a request runs. Whoever needs a token joins the operation that
is under way, or begins one. When the last of them has gone it is cancelled, unless a
server was asked for what it gives only once: then it goes on until that is stored.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth import steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.flow import finish, obtain, revoke
from mcpwire.errors import AuthError
from mcpwire.transports.handlers import invoke
from mcpwire.transports.oauth.fetching import Fetcher
from mcpwire.transports.oauth.patience import Patience
from mcpwire.transports.oauth.performing import (
    QUICK,
    Desk,
    Vault,
    keeps_on,
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

__all__ = ["Authorizer"]

SETTLE_S: Final = 2.0
"""How long closing waits for what a server is giving."""


def _always(step: steps.Step) -> bool:
    del step
    return True


class Authorizer:
    """The tokens for one server, for all connections of one client.

    Attributes:
        session: What is known and decided.
        patience: Whose clocks stand still while a user is asked.
    """

    def __init__(
        self,
        grant: Grant,
        target: Http,
        limits: Limits,
        patience: Patience | None = None,
    ) -> None:
        self.session = AuthSession(grant, target)
        self.patience = patience or Patience()
        self._grant = grant
        self._target = target
        self._limits = limits
        self._running: _Operation | None = None

    async def first(self, *, asks_nobody: bool = False) -> Credential | None:
        """Return a token to begin with: none where none is stored.

        Args:
            asks_nobody: Whether no user is to be asked, even where none is good.

        Raises:
            AuthError: The one that is stored is of no more use, and there is no other.
        """
        session = self.session
        if not session.is_begun:
            vault = Vault(self._grant, self._target, self._limits)
            session.begin(await self._stored(vault, steps.Load()))
        current = session.current
        if session.is_ready or current is None:
            return current
        if not session.can_renew():
            return session.spare()
        if session.spare() is None:
            return await self.obtain(
                session.wanted(used=current.token, asks_nobody=asks_nobody)
            )
        try:
            async with asyncio.timeout(EARLY_S):
                return await self.obtain(
                    session.wanted(used=current.token, asks_nobody=True)
                )
        except (AuthError, TimeoutError):
            session.put_off()
            return session.spare()

    async def obtain(self, wanted: TokenRequest) -> Credential:
        """Return another token than the one that was not good enough.

        Raises:
            AuthError: There is none to be had.
        """
        while True:
            good = self.session.meets(wanted)
            if good is not None:
                return good
            running = self._under_way() or self._begin(wanted)
            # What was begun for something else says nothing of this.
            is_answer = running.wanted.asks_like(wanted)
            try:
                credential = await running.join()
            except asyncio.CancelledError:
                if not running.task.cancelled() or _is_cancelled():
                    raise
                # By those who waited before, and have all gone.
            except Exception as error:  # noqa: BLE001 - raised again where it is an answer
                if is_answer:
                    raise_again(error)
            else:
                if is_answer:
                    return credential

    async def settle(self) -> None:
        """Wait a moment for an operation that nobody waits for, and then end it."""
        running = self._under_way()
        if running is None or running.waiters:
            return
        task = running.task
        await asyncio.wait([task], timeout=SETTLE_S)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])

    def _under_way(self) -> _Operation | None:
        """Return the operation that runs: none of a loop that was closed."""
        running = self._running
        if running is None or running.task.done():
            return None
        here = running.task.get_loop() is asyncio.get_running_loop()
        return running if here else None

    def _begin(self, wanted: TokenRequest) -> _Operation:
        running = self._running = _Operation(wanted)
        running.task = asyncio.get_running_loop().create_task(
            self._obtain(running), name="mcpwire-oauth"
        )
        running.task.add_done_callback(_looked_at)
        return running

    async def _obtain(self, running: _Operation) -> Credential:
        operation = obtain(self._grant, running.wanted)
        try:
            obtained = await self._drive(operation, running.is_wanted)
        finally:
            running.keeps_on = False
        return self.session.take(obtained)

    async def finish(self, params: Mapping[str, str]) -> Record:
        """Finish a login that was begun; see `mcpwire.auth.flow.finish`."""
        assert isinstance(self._grant, OAuth)
        wanted = self.session.wanted()
        record: Record = await self._drive(finish(self._grant, wanted, params))
        return record

    async def revoke(self) -> bool:
        """Forget what is stored; see `mcpwire.auth.flow.revoke`."""
        was_there: bool = await self._drive(revoke(self.session.wanted()))
        self.session.current = None
        return was_there

    # Steps...

    async def _drive(
        self,
        operation: Steps[Any],
        is_wanted: Callable[[steps.Step], bool] = _always,
    ) -> Any:
        target = self._target
        vault = Vault(self._grant, target, self._limits)
        grant = self._grant
        desk = Desk(grant) if isinstance(grant, OAuth) else None
        fetcher = Fetcher(target, self._limits)
        try:
            outcome: Any = None
            error: Exception | None = None
            while True:
                try:
                    if error is not None:
                        step = operation.throw(error)
                    else:
                        step = operation.send(outcome)
                except StopIteration as done:
                    return done.value
                outcome = error = None
                if not is_wanted(step):
                    raise asyncio.CancelledError
                try:
                    outcome = await self._perform(step, vault, desk, fetcher)
                except Exception as raised:  # noqa: BLE001 - the operation decides
                    error = raised
        finally:
            operation.close()
            if desk is not None:
                desk.close()
            await _finally(fetcher, vault)

    async def _perform(
        self, step: steps.Step, vault: Vault, desk: Desk | None, fetcher: Fetcher
    ) -> Any:
        if type(step) is steps.Fetch:
            return await fetcher.fetch(step)
        if type(step) is steps.Sleep:
            return await asyncio.sleep(step.seconds)
        if type(step) is steps.Supply:
            return supplied(await self._told(step.function), step.what)
        if type(step) is steps.Ask:
            assert desk is not None
            return await self._ask(step, desk)
        if type(step) in QUICK:
            return quick(step, desk)
        return await self._stored(vault, step)

    async def _told(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the user's and return its result."""
        value = invoke(function, *args)
        return await value if hasattr(value, "__await__") else value

    async def _stored(self, vault: Vault, step: steps.Step) -> Any:
        if vault.is_quick:
            return vault.perform(step)
        return await asyncio.to_thread(vault.perform, step)

    async def _ask(self, step: steps.Ask, desk: Desk) -> dict[str, str]:
        grant = self._grant
        assert isinstance(grant, OAuth)
        begun = self.patience.begin()
        try:
            async with asyncio.timeout(grant.timeout):
                if grant.ask is not None:
                    return returned_parameters(await self._told(grant.ask, step.url))
                await asyncio.to_thread(desk.show, step.url, self._target.parsed)
                assert desk.receiver is not None
                return await desk.receiver.wait(step.state)
        except TimeoutError as error:
            raise too_late(grant.timeout) from error
        finally:
            self.patience.end(begun)


class _Operation:
    """One operation that is under way.

    Attributes:
        wanted: What for.
        task: Runs it.
        waiters: How many wait for it.
        keeps_on: Whether it must not be broken off now.
    """

    __slots__ = ("keeps_on", "task", "waiters", "wanted")

    task: asyncio.Task[Credential]

    def __init__(self, wanted: TokenRequest) -> None:
        self.wanted = wanted
        self.waiters = 0
        self.keeps_on = False

    async def join(self) -> Credential:
        """Wait for it; it ends with the last who does."""
        self.waiters += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self.waiters -= 1
            if not self.waiters and not self.keeps_on:
                self.task.cancel()

    def is_wanted(self, step: steps.Step) -> bool:
        """Tell whether to perform that step, of what perhaps nobody waits for."""
        before, self.keeps_on = self.keeps_on, keeps_on(step, self.keeps_on)
        return self.waiters > 0 or (before and self.keeps_on)


def _is_cancelled() -> bool:
    ours = asyncio.current_task()
    return ours is not None and ours.cancelling() > 0


def _looked_at(task: asyncio.Task[Any]) -> None:
    # Everybody who waited may have gone: then nobody misses the error.
    if not task.cancelled():
        task.exception()


async def _finally(fetcher: Fetcher, vault: Vault) -> None:
    """Let go of what an operation held, also when it is cancelled."""
    try:
        await fetcher.aclose()
    finally:
        if vault.is_quick:
            vault.release()
        else:
            await asyncio.shield(asyncio.to_thread(vault.release))
