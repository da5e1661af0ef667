"""Opens a lost connection again: once for all waiting calls, as often as it may.

When to try again is decided in `mcpwire.protocol.retry`; here is the one task that
does it, shared like the opening itself: it ends when the last waiting call has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from mcpwire.errors import (
    ConnectionClosed,
    HTTPError,
    MCPError,
    NegotiationError,
    RequestTimeout,
    TransportError,
)
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.retry import Restarts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.client.connection import Connection
    from mcpwire.transports.targets import OpenChannel

__all__ = ["Reconnector", "keep_alive"]

logger = logging.getLogger("mcpwire")


class Reconnector:
    """Brings one `Connection` back."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._recovery = connection.settings.recovery
        self._restarts = Restarts(self._recovery)
        self._task: asyncio.Task[None] | None = None
        self._waiters = 0
        self._failure: MCPError | None = None
        self._gave_up_at: float | None = None

    # What the connection tells...

    def reset(self) -> None:
        """Begin anew: somebody wants it open now, whatever was before."""
        self._restarts.reset()
        self._gave_up_at = None

    def opened(self, channel: OpenChannel) -> None:
        """It is open."""
        channel.stats.before_open = channel.requests_sent
        self._restarts.opened(self._connection.time())

    def lost(self, channel: OpenChannel) -> None:
        """It is gone."""
        # What a server says unasked does not prove that it works.
        counted = channel.stats
        if channel.requests_sent - counted.unanswered > counted.before_open:
            self._restarts.answered()
        self._restarts.lost(self._connection.time())

    def close(self) -> list[asyncio.Task[None]]:
        """Stop trying; return the task that has yet to end."""
        self.reset()
        task = self._task
        if task is None or task is asyncio.current_task():
            return []
        task.cancel()
        return [task]

    def forget(self) -> None:
        """Let go of what belongs to a loop that is closed."""
        self._task = None
        self._waiters = 0

    # Bringing it back...

    def start(self) -> asyncio.Task[None]:
        """Try, though nobody waits; what comes of it is logged."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._revive(), name="mcpwire-revive")
            self._task.add_done_callback(self._done)
        return self._task

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.warning("%s could not be opened again: %s", self._connection, error)
            self._connection.inbound.wake()

    async def revive(self, method: str, deadline: Deadline | None) -> None:
        """Wait until it is open again, within the deadline of a call."""
        left = self._connection.left(deadline)
        try:
            async with asyncio.timeout(left) as scope:
                with self._patient(scope, deadline):
                    await self._given_up()
                    await self._share(self.start())
        except TimeoutError as error:
            if isinstance(error, MCPError) or not scope.expired():
                raise
            assert deadline is not None
            assert deadline.timeout is not None
            raise RequestTimeout(
                method=method,
                timeout=deadline.timeout,
                elapsed=deadline.elapsed(self._connection.time()),
                detail="the connection was lost and is being opened again",
            ) from None

    @contextlib.contextmanager
    def _patient(
        self, scope: asyncio.Timeout, deadline: Deadline | None
    ) -> Iterator[None]:
        """Let no time pass for a call in there while a user logs in."""
        pauser = self._connection.pauser
        if pauser is None or deadline is None:
            yield
            return
        from mcpwire.client.handshake import ScopeClock
        from mcpwire.transports.oauth.authorizer import PausableDeadline

        loop = asyncio.get_running_loop()
        with (
            pauser.applied(ScopeClock(scope, loop)),
            pauser.applied(PausableDeadline(deadline, self._connection.time)),
        ):
            yield

    async def _given_up(self) -> None:
        """Wait for the end of a task that its last caller gave up, if there is one."""
        connection = self._connection
        while self._task is not None and self._task.cancelling():
            await asyncio.wait([self._task])
        if not connection.is_wanted:
            raise connection.not_connected()

    async def _share(self, task: asyncio.Task[None]) -> None:
        self._waiters += 1
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise ConnectionClosed(
                    "closed while it was being opened again", sent=False
                ) from None
            if self._waiters == 1 and not self._connection.is_needed():
                task.cancel()
                await asyncio.wait([task])
            raise
        finally:
            self._waiters -= 1

    async def _revive(self) -> None:
        from random import random

        connection = self._connection
        self._check_pause()
        while not connection.is_open:
            delay = self._restarts.delay(connection.time(), random())  # noqa: S311 - jitter
            if delay is None:
                self._gave_up_at = connection.time()
                raise self._failure_of(connection)
            await asyncio.sleep(delay)
            try:
                await connection.open()
            except (NegotiationError, RequestTimeout, TransportError) as error:
                self._failure = error
                self._restarts.failed(connection.time())

    def _check_pause(self) -> None:
        """Refuse while too little time has passed since all attempts failed."""
        if self._gave_up_at is None:
            return
        since = self._connection.time() - self._gave_up_at
        if since < self._recovery.backoff_max:
            raise self._failure_of(self._connection)
        self.reset()

    def _failure_of(self, connection: Connection) -> MCPError:
        failure = self._failure
        if failure is None:
            return connection.not_connected()
        # It may be raised often, and each time would add to its traceback.
        return failure.with_traceback(None)


async def keep_alive(channel: OpenChannel, seconds: float) -> None:
    """Ping a quiet server so often; one that does not answer is given up.

    2025-11-25 basic/utilities/ping: pings should go out periodically, and an answer
    that stays out is a failure of the connection. It ends with the channel.
    """
    loop = asyncio.get_running_loop()
    while True:
        before = channel.stats.messages
        await asyncio.sleep(seconds)
        if channel.lost is not None:
            return
        if channel.stats.messages != before:
            continue
        try:
            await channel.call("ping", None, deadline=Deadline(loop.time(), seconds))
        except RequestTimeout:
            channel.give_up(
                TransportError(
                    f"the server did not answer a ping within {seconds:g} s",
                    target=channel.target,
                )
            )
        except HTTPError:
            continue  # it declines, and lives
        except TransportError as error:
            if channel.lost is None:  # it does not even read
                channel.give_up(error)
        except MCPError:
            continue  # an error is an answer
        except Exception:  # over HTTP, a function for headers may raise anything
            logger.exception("no ping was sent")
