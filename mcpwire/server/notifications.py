"""Notifications: changes for sessions and subscriptions, progress and logs of calls.

`Hub` notifies listeners of changes. A change may be reported from any thread. Each
listener is called on its own loop, in the next iteration; a change that is reported
several times in one iteration is sent once.

`Subscriptions` handles ``subscriptions/listen``, a request that stays open and carries
notifications (2026-07-28 basic/patterns/subscriptions): first an acknowledgement of the
accepted filter, then only matching notifications, each with the id of the request; a
result when the server ends it.

`Throttle` sends progress and logs of one request, from any thread, without blocking. It
allows a burst and then a number per second. Of progress over this rate the newest
value waits; logs over this rate are dropped and counted.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import InternalError, InvalidParams, MissingCapability
from mcpwire.protocol.methods import TASKS, capability_declared, declared_extensions
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.request import Session, check_retained
from mcpwire.transports.base import is_on_loop

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mcpwire.server.extensions.tasks import Tasks
    from mcpwire.server.request import Owner, RequestContext

TOOLS: Final = "notifications/tools/list_changed"
PROMPTS: Final = "notifications/prompts/list_changed"
RESOURCES: Final = "notifications/resources/list_changed"
UPDATED: Final = "notifications/resources/updated"


class Listener(Protocol):
    """Gets changes, on the loop on which it was added."""

    def changed(self, method: str, uri: str | None) -> None:
        """Handle a change; `uri` names the resource of an update. Must not raise."""

    def finish(self) -> None:
        """Handle the end: no more changes follow."""


class Hub:
    """Notifies the listeners of one server of changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[AbstractEventLoop, dict[Listener, None]] = {}
        self._pending: dict[AbstractEventLoop, dict[tuple[str, str | None], None]] = {}

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._listeners.values()))

    def remove(self, session: Session) -> None:
        """Remove a session and mark it as closed."""
        session.is_closed = True
        self.forget(session)

    def sessions(self) -> list[Session]:
        """Return the sessions that get changes."""
        with self._lock:
            listeners = [one for here in self._listeners.values() for one in here]
        return [one for one in listeners if isinstance(one, Session)]

    def add(self, listener: Listener) -> None:
        """Add a session, or another listener, on the running loop."""
        with self._lock:
            here = self._listeners.setdefault(asyncio.get_running_loop(), {})
            here[listener] = None

    def forget(self, listener: Listener) -> None:
        """Remove a listener."""
        with self._lock:
            for loop, listeners in list(self._listeners.items()):
                listeners.pop(listener, None)
                if not listeners:
                    del self._listeners[loop]
                    self._pending.pop(loop, None)

    def tell(self, method: str, uri: str | None = None) -> None:
        """Notify all listeners of a change; from any thread."""
        with self._lock:
            for loop in self._listeners:
                if loop not in self._pending:
                    _schedule(loop, self._flush, loop)
                self._pending.setdefault(loop, {})[method, uri] = None

    def close(self) -> None:
        """End all subscriptions, after the pending changes."""
        with self._lock:
            for loop in self._listeners:
                _schedule(loop, self._end, loop)

    def _flush(self, loop: AbstractEventLoop) -> None:
        with self._lock:
            pending = self._pending.pop(loop, {})
        for method, uri in pending:
            for listener in list(self._listeners.get(loop, ())):
                listener.changed(method, uri)

    def _end(self, loop: AbstractEventLoop) -> None:
        self._flush(loop)
        for listener in list(self._listeners.get(loop, ())):
            listener.finish()


def _schedule(
    loop: AbstractEventLoop, function: Callable[..., object], *values: Any
) -> None:
    """Call a function in the next iteration of a loop; a closed loop ignores it."""
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:
        if not loop.is_closed():
            raise


def call_soon(
    loop: AbstractEventLoop, function: Callable[..., object], *values: Any
) -> None:
    """Call a function on a loop: now, if it runs here. A closed loop ignores it."""
    if is_on_loop(loop):
        function(*values)
    else:
        _schedule(loop, function, *values)


class Listens:
    """The open subscription requests of one server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pool: FairPool[asyncio.Event] = FairPool()

    def __len__(self) -> int:
        return len(self._pool)

    @contextmanager
    def entered(self, owner: Owner) -> Iterator[asyncio.Event]:
        """Count a request as open; yield an event that is set when it has to end.

        At the limit, the oldest request of the client with the most ends, if that
        client has more than this one.
        """
        pool = self._pool
        if len(pool) >= self._limit:
            oldest = pool.to_evict(owner)
            if oldest is None or pool.owner(oldest) == owner:
                raise InternalError("too many subscriptions are open already")
            pool.discard(oldest)
            oldest.set()
        ended = asyncio.Event()
        pool.add(ended, owner)
        try:
            yield ended
        finally:
            pool.discard(ended)


SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

_LISTS: Final = {
    "toolsListChanged": (TOOLS, "tools.listChanged"),
    "promptsListChanged": (PROMPTS, "prompts.listChanged"),
    "resourcesListChanged": (RESOURCES, "resources.listChanged"),
}
"""Field of the filter -> its notification, and the capability that it needs."""


class _Listener:
    """One subscription request as a listener of the hub."""

    def __init__(
        self, request: RequestContext, filter: Mapping[str, Any], ended: asyncio.Event
    ) -> None:
        self._request = request
        self._methods = {
            method for field, (method, _) in _LISTS.items() if filter.get(field)
        }
        self._uris = frozenset(filter.get("resourceSubscriptions", ()))
        self._ended = ended

    def changed(self, method: str, uri: str | None) -> None:
        """Send a change that matches the filter."""
        if uri is None and method in self._methods:
            self.send(method, {})
        elif uri is not None and uri in self._uris:
            self.send(method, {"uri": uri})

    def send(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification with the subscription's id."""
        meta = {**(params.get("_meta") or {}), SUBSCRIPTION_ID: self._request.id}
        self._request.notify(method, {**params, "_meta": meta})

    def finish(self) -> None:
        """End the request, which is then answered."""
        self._ended.set()


class Subscriptions:
    """Handles the subscriptions of one server."""

    def __init__(
        self,
        hub: Hub,
        *,
        listens: Listens,
        capabilities: Callable[[], Mapping[str, Any]],
        watchable: Callable[[Sequence[str], RequestContext], list[str]] | None = None,
    ) -> None:
        self._hub = hub
        self._listens = listens
        self._capabilities = capabilities
        self._watchable = watchable
        self.tasks: Tasks | None = None

    async def listen(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``subscriptions/listen``; return when the server ends it."""
        with self._listens.entered(request.info.owner) as ended:
            return await self.listen_until(ended, params, request)

    async def listen_until(
        self, ended: asyncio.Event, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``subscriptions/listen`` until the event is set; see `listen`."""
        wanted = params.get("notifications")
        if type(wanted) is not dict:
            raise InvalidParams("params.notifications must be an object")
        check_retained("params._meta", request.meta)
        honoured = self._honour(wanted, request)
        listener = _Listener(request, honoured, ended)
        forget = None
        try:
            # It precedes all other notifications (2026-07-28, "Acknowledgment").
            listener.send(ACKNOWLEDGED, {"notifications": honoured})
            self._hub.add(listener)
            if self.tasks is not None and honoured.get("taskIds"):
                forget = self.tasks.watch(honoured["taskIds"], request, listener.send)
            await ended.wait()
        finally:
            self._hub.forget(listener)
            if forget is not None:
                forget()
        return {"_meta": {SUBSCRIPTION_ID: request.id}}

    def _honour(
        self, wanted: Mapping[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Return the accepted part of a filter."""
        capabilities = self._capabilities()
        honoured: dict[str, Any] = {}
        for field, (_, capability) in _LISTS.items():
            value = wanted.get(field, False)
            if type(value) is not bool:
                raise InvalidParams(f"params.notifications.{field} must be a boolean")
            if value and capability_declared(capabilities, capability):
                honoured[field] = True
        uris = _strings(wanted, "resourceSubscriptions")
        if uris and capability_declared(capabilities, "resources.subscribe"):
            if self._watchable is not None:
                # Clients get no updates of resources that they cannot read.
                uris = self._watchable(uris, request)
            honoured["resourceSubscriptions"] = uris
        ids = _strings(wanted, "taskIds")
        if ids and TASKS not in declared_extensions(request.client_capabilities):
            # The tasks extension, "Task Status Notifications".
            raise MissingCapability(
                "taskIds need the tasks extension",
                data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
            )
        if ids and self.tasks is not None:
            honoured["taskIds"] = self.tasks.watchable(ids, request)
        return honoured


def _strings(wanted: Mapping[str, Any], field: str) -> list[str]:
    value = wanted.get(field, [])
    if type(value) is not list or any(type(item) is not str for item in value):
        raise InvalidParams(f"params.notifications.{field} must be a list of strings")
    return list(dict.fromkeys(value))


_PROGRESS_AT_ONCE: Final = 50
_PROGRESS_PER_SECOND: Final = 20.0
_LOGS_AT_ONCE: Final = 200
_LOGS_PER_SECOND: Final = 50.0

_ROUNDING: Final = 1e-6
"""Tolerance for the rounding of times: a value that waited for its pause must pass."""

_MOST_WAITING: Final = 512
"""How many values from other threads wait for the loop; the oldest are lost first."""


class RateLimit:
    """A token bucket: allows a burst, and then a number per second."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._at_once = self._left = float(at_once)
        self._per_second = per_second
        self._then: float | None = None

    def take(self, now: float) -> bool:
        """Take a token; return whether there was one."""
        if self._then is not None:
            gained = (now - self._then) * self._per_second
            self._left = min(self._at_once, self._left + gained)
        self._then = now
        if self._left < 1 - _ROUNDING:
            return False
        self._left = max(0.0, self._left - 1)
        return True

    @property
    def pause(self) -> float:
        """The time until the next token, in seconds; valid after a refusal."""
        return (1 - self._left) / self._per_second


class Throttle:
    """Sends progress and logs at a limited rate; see the module docstring."""

    def __init__(
        self, request: RequestContext, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._request = request
        self._loop = loop
        self._progress = RateLimit(_PROGRESS_AT_ONCE, _PROGRESS_PER_SECOND)
        self._logs = RateLimit(_LOGS_AT_ONCE, _LOGS_PER_SECOND)
        self._late: tuple[Any, ...] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dropped = 0
        self._waiting: deque[tuple[bool, tuple[Any, ...]]] = deque(maxlen=_MOST_WAITING)
        self._is_scheduled = False

    def put(self, *values: Any, is_log: bool) -> None:
        """Send progress or a log message soon; from any thread."""
        if is_on_loop(self._loop):
            self._take(values, is_log=is_log)
            return
        self._waiting.append((is_log, values))
        if not self._is_scheduled:
            self._is_scheduled = True
            call_soon(self._loop, self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False  # first: later values need another call
        while self._waiting:
            is_log, values = self._waiting.popleft()
            self._take(values, is_log=is_log)

    def _take(self, values: tuple[Any, ...], *, is_log: bool) -> None:
        if not self._request.is_open:
            return
        now = self._loop.time()
        if is_log:
            if self._logs.take(now):
                self._request.log(*values)
            else:
                self._dropped += 1
        elif self._progress.take(now):
            self._request.progress(*values)
        else:
            self._late = values
            if self._timer is None:
                self._timer = self._loop.call_later(self._progress.pause, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        late, self._late = self._late, None
        if late is not None:
            self._take(late, is_log=False)

    def flush(self) -> None:
        """Send waiting values: the handler is done, and its response follows."""
        self._drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._late is not None:
            self._request.progress(*self._late)
            self._late = None
        if self._dropped:
            text = f"{self._dropped} log messages came too fast and were dropped"
            self._request.log("warning", text, "mcpwire")
            self._dropped = 0
