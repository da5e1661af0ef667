"""Opens sessions that take their time, and those of ids that are unknown here.

::

      initialize ──► in its own time ──► an id of the dispatcher's, or a random one
      unknown id ──► the dispatcher knows it? ──► a session again, or 404
                      └─ who comes meanwhile waits for the first

How many there are on their way in counts towards the bound on all of them. What opens
its sessions at once needs none of this.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.errors import RPCError
from mcpwire.server.http.exchange import ClientGone, HttpProblem
from mcpwire.server.http.sessions.rules import TOO_MANY_SESSIONS, UNKNOWN_SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.exchange import Exchange
    from mcpwire.server.http.sessions.registry import Registry
    from mcpwire.server.http.sessions.session import HttpSession
    from mcpwire.server.request import Owner, RequestInfo, Session

__all__ = ["Opening"]

T = TypeVar("T")

INITIALIZED: Final = "notifications/initialized"

RETRY_AFTER: Final = (("retry-after", "5"),)

END_GRACE_S: Final = 0.5
"""How long what was opening may take to end once nobody waits for it."""


class Opening:
    """Opens the sessions of one server; see the module's text.

    Args:
        dispatcher: Who answers.
        registry: Where they are kept.
        make: Makes of a session what serves it over HTTP.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        registry: Registry,
        make: Callable[[Session, Owner], HttpSession],
    ) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._make = make
        self._count = 0
        self._resuming: dict[
            tuple[str, object], asyncio.Task[HttpSession | HttpProblem | RPCError]
        ] = {}

    async def open(
        self, exchange: Exchange, params: dict[str, Any] | None
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session for its `initialize`; return it and the result.

        Raises:
            RPCError: It is refused.
            HttpProblem: There are too many.
            ClientGone: Nobody waits for it; nothing is left of it.
        """
        if not self._registry.has_room(exchange.info.owner, self._count):
            raise HttpProblem(*TOO_MANY_SESSIONS, RETRY_AFTER)
        self._count += 1
        try:
            return await _while_there(
                exchange,
                self._dispatcher.open_session(params, None, exchange.info),
                lambda opened: self._dispatcher.session_left(opened[0]),
            )
        finally:
            self._count -= 1

    async def resume(self, exchange: Exchange, id: str) -> HttpSession:
        """Return the session of an id that is not here, if the dispatcher knows it.

        It goes on also if this is cancelled: whoever asks next finds it.

        Raises:
            RPCError: It cannot be opened any more.
            HttpProblem: It is unknown, somebody else's, or there are too many.
        """
        principal = exchange.info.principal
        key = id, principal and principal.key
        resuming = self._resuming.get(key)
        if resuming is None:
            resuming = asyncio.get_running_loop().create_task(
                self._resume(id, exchange.info), name="mcpwire-http-resume"
            )
            self._resuming[key] = resuming
            resuming.add_done_callback(lambda _: self._resuming.pop(key, None))
        try:
            session = await asyncio.shield(resuming)
        except asyncio.CancelledError:
            if resuming.cancelled():  # the server ends; whoever waits is not cancelled
                raise HttpProblem(*UNKNOWN_SESSION) from None
            raise
        if isinstance(session, Exception):
            raise session
        if not session.belongs_to(principal):
            raise HttpProblem(*UNKNOWN_SESSION)
        self._registry.touch(session)
        return session

    async def _resume(
        self, id: str, info: RequestInfo
    ) -> HttpSession | HttpProblem | RPCError:
        # An id that is unknown takes nobody's place, so there is no look at it before.
        self._count += 1
        try:
            resumed = await self._dispatcher.resume_session(id, info)
        except RPCError as error:
            return error
        finally:
            self._count -= 1
        if resumed is None:
            return HttpProblem(*UNKNOWN_SESSION)
        if not self._registry.has_room(info.owner, self._count):
            self._dispatcher.session_left(resumed)
            return HttpProblem(*TOO_MANY_SESSIONS, RETRY_AFTER)
        session = self._make(resumed, info.owner)
        self._registry.add(session, info.owner, id)
        self._dispatcher.hub.add(resumed)
        # Its client has said so, to whoever opened it.
        self._dispatcher.notified(resumed, INITIALIZED, None)
        return session

    # The end...

    async def aclose(self) -> None:
        """Stop what is opening again."""
        tasks = list(self._resuming.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_GRACE_S)


async def _while_there(
    exchange: Exchange, work: Coroutine[Any, Any, T], undo: Callable[[T], object]
) -> T:
    """Do something as long as the client waits for it; else undo it.

    Raises:
        ClientGone: It went away; the work is cancelled.
    """
    loop = asyncio.get_running_loop()
    working = loop.create_task(work, name="mcpwire-http-open")
    watching = loop.create_task(exchange.watch(), name="mcpwire-http-watch")
    # What a web server raises instead of saying that the client is gone means the same.
    watching.add_done_callback(lambda task: task.cancelled() or task.exception())
    is_wanted = False
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        is_wanted = working.done()
    finally:
        if not is_wanted:
            working.add_done_callback(lambda task: _undo(task, undo))
        for task in (working, watching):
            task.cancel()  # which does nothing to one that is done
        await asyncio.wait([working, watching])
    if not is_wanted:
        raise ClientGone
    return working.result()


def _undo(task: asyncio.Task[T], undo: Callable[[T], object]) -> None:
    """Undo what was done all the same."""
    if not task.cancelled() and task.exception() is None:
        undo(task.result())
