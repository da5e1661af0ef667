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
from contextlib import ExitStack, contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.errors import InternalError, InvalidParams, MissingCapability
from mcpwire.protocol.methods import (
    ACKNOWLEDGED,
    TASKS,
    declared_extensions,
    is_capability_declared,
)
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.request import check_retained
from mcpwire.transports.base import is_on_loop
from mcpwire.types._base import SUBSCRIPTION_ID

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

    def on_change(self, method: str, uri: str | None) -> None:
        """Handle a change; `uri` names the resource of an update. Must not raise."""


class Hub:
    """Notifies the listeners of one server of changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[AbstractEventLoop, dict[Listener, None]] = {}
        self._pending: dict[AbstractEventLoop, dict[tuple[str, str | None], None]] = {}

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._listeners.values()))

    def add(self, listener: Listener) -> None:
        """Add a session, or another listener, on the running loop."""
        with self._lock:
            listeners = self._listeners.setdefault(asyncio.get_running_loop(), {})
            listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        """Remove a listener."""
        with self._lock:
            for loop, listeners in list(self._listeners.items()):
                listeners.pop(listener, None)
                if not listeners:
                    del self._listeners[loop]
                    self._pending.pop(loop, None)

    def notify(self, method: str, uri: str | None = None) -> None:
        """Notify all listeners of a change; from any thread."""
        with self._lock:
            for loop in self._listeners:
                if loop not in self._pending:
                    schedule(loop, self._flush, loop)
                self._pending.setdefault(loop, {})[method, uri] = None

    def _flush(self, loop: AbstractEventLoop) -> None:
        with self._lock:
            pending = self._pending.pop(loop, {})
        for method, uri in pending:
            for listener in list(self._listeners.get(loop, ())):
                listener.on_change(method, uri)


def schedule(
    loop: AbstractEventLoop, function: Callable[..., object], *arguments: Any
) -> None:
    """Call a function in the next iteration of a loop; a closed loop ignores it."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise


def call_soon(
    loop: AbstractEventLoop, function: Callable[..., object], *arguments: Any
) -> None:
    """Call a function on a loop: now, if it runs here. A closed loop ignores it."""
    if is_on_loop(loop):
        function(*arguments)
    else:
        schedule(loop, function, *arguments)


class OpenSubscriptions:
    """The open subscription requests of one server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pool: FairPool[asyncio.Event] = FairPool()

    def __len__(self) -> int:
        return len(self._pool)

    @contextmanager
    def open_subscription(self, owner: Owner) -> Iterator[asyncio.Event]:
        """Count a request as open; yield an event that is set when it has to end.

        At the limit, the oldest request of the client with the most ends, if that
        client has more than this one.
        """
        pool = self._pool
        if len(pool) >= self._limit:
            evicted = pool.find_evictable(owner)
            if evicted is None or pool.owner(evicted) == owner:
                raise InternalError("too many subscriptions are open already")
            pool.discard(evicted)
            evicted.set()
        ended = asyncio.Event()
        pool.add(ended, owner)
        try:
            yield ended
        finally:
            pool.discard(ended)


_LIST_FILTERS: Final = {
    "toolsListChanged": (TOOLS, "tools.listChanged"),
    "promptsListChanged": (PROMPTS, "prompts.listChanged"),
    "resourcesListChanged": (RESOURCES, "resources.listChanged"),
}
"""Field of the filter -> its notification, and the capability that it needs."""


class _SubscriptionListener:
    """One subscription request as a listener of the hub."""

    def __init__(self, request: RequestContext, filter: Mapping[str, Any]) -> None:
        self._request = request
        self._methods = {
            method for field, (method, _) in _LIST_FILTERS.items() if filter.get(field)
        }
        self._uris = frozenset(filter.get("resourceSubscriptions", ()))

    def on_change(self, method: str, uri: str | None) -> None:
        """Send a change that matches the filter."""
        if uri is None and method in self._methods:
            self.send(method, {})
        elif uri is not None and uri in self._uris:
            self.send(method, {"uri": uri})

    def send(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification with the subscription's id."""
        meta = {**(params.get("_meta") or {}), SUBSCRIPTION_ID: self._request.id}
        self._request.notify(method, {**params, "_meta": meta})


def subscription_result(request: RequestContext) -> dict[str, Any]:
    """Return the result of a subscription that the server ends."""
    return {"_meta": {SUBSCRIPTION_ID: request.id}}


@attrs.define(eq=False, repr=False)
class Subscriptions:
    """Handles the subscriptions of one server."""

    _hub: Hub
    _subscriptions: OpenSubscriptions
    _capabilities: Callable[[], Mapping[str, Any]]
    _watchable_uris: Callable[[Sequence[str], RequestContext], list[str]] | None = None
    tasks: Tasks | None = None

    async def listen(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``subscriptions/listen``; return when the server ends it."""
        with self._subscriptions.open_subscription(request.info.owner) as ended:
            return await self.listen_until(ended, params, request)

    async def listen_until(
        self, ended: asyncio.Event, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``subscriptions/listen`` until the event is set; see `listen`."""
        requested = params.get("notifications")
        if type(requested) is not dict:
            raise InvalidParams("params.notifications must be an object")
        check_retained("params._meta", request.meta)
        accepted = self._accept_filter(requested, request)
        listener = _SubscriptionListener(request, accepted)
        # It precedes all other notifications (2026-07-28, "Acknowledgment").
        listener.send(ACKNOWLEDGED, {"notifications": accepted})
        with ExitStack() as stack:
            self._hub.add(listener)
            stack.callback(self._hub.remove, listener)
            ids = accepted.get("taskIds")
            if self.tasks is not None and ids:
                stack.callback(self.tasks.watch(ids, request, listener.send))
            await ended.wait()
        return subscription_result(request)

    def _accept_filter(
        self, requested: Mapping[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Return the accepted part of a filter."""
        capabilities = self._capabilities()
        accepted: dict[str, Any] = {}
        for field, (_, capability) in _LIST_FILTERS.items():
            value = requested.get(field, False)
            if type(value) is not bool:
                raise InvalidParams(f"params.notifications.{field} must be a boolean")
            if value and is_capability_declared(capabilities, capability):
                accepted[field] = True
        uris = _strings(requested, "resourceSubscriptions")
        if uris and is_capability_declared(capabilities, "resources.subscribe"):
            if self._watchable_uris is not None:
                # Clients get no updates of resources that they cannot read.
                uris = self._watchable_uris(uris, request)
            accepted["resourceSubscriptions"] = uris
        ids = _strings(requested, "taskIds")
        if ids and TASKS not in declared_extensions(request.client_capabilities):
            # The tasks extension, "Task Status Notifications".
            raise MissingCapability(
                "taskIds need the tasks extension",
                data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
            )
        if ids and self.tasks is not None:
            accepted["taskIds"] = self.tasks.watchable_ids(ids, request)
        return accepted


def _strings(requested: Mapping[str, Any], field: str) -> list[str]:
    value = requested.get(field, [])
    if type(value) is not list or any(type(item) is not str for item in value):
        raise InvalidParams(f"params.notifications.{field} must be a list of strings")
    return list(dict.fromkeys(value))


_PROGRESS_BURST: Final = 50
_PROGRESS_PER_SECOND: Final = 20.0
_LOG_BURST: Final = 200
_LOGS_PER_SECOND: Final = 50.0

_ROUNDING_TOLERANCE: Final = 1e-6
"""Tolerance for the rounding of times: a value that waited for its pause must pass."""

_MAX_WAITING: Final = 512
"""How many values from other threads wait for the loop; the oldest are lost first."""


class RateLimit:
    """Allows a burst, and then a number per second.

    Attributes:
        pause: After a refusal, the time until the next value is allowed, in seconds.
    """

    pause = 0.0

    def __init__(self, burst: int, per_second: float) -> None:
        self._interval = 1 / per_second
        self._slack = (burst - 1) / per_second
        self._due = -inf  # when the next value is due, without a burst

    def take(self, now: float) -> bool:
        """Return whether a value is allowed now, and count it."""
        due = max(self._due, now - self._slack)
        self.pause = due - now
        if self.pause > _ROUNDING_TOLERANCE:
            return False
        self._due = due + self._interval
        return True


class Throttle:
    """Sends progress and logs at a limited rate; see the module docstring."""

    def __init__(
        self, request: RequestContext, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._request = request
        self._loop = loop
        self._progress = RateLimit(_PROGRESS_BURST, _PROGRESS_PER_SECOND)
        self._logs = RateLimit(_LOG_BURST, _LOGS_PER_SECOND)
        self._delayed_progress: tuple[Any, ...] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dropped = 0
        self._waiting: deque[tuple[bool, tuple[Any, ...]]] = deque(maxlen=_MAX_WAITING)
        self._is_scheduled = False

    def send(self, *values: Any, is_log: bool) -> None:
        """Send progress or a log message soon; from any thread."""
        if is_on_loop(self._loop):
            self._send_or_delay(values, is_log=is_log)
            return
        self._waiting.append((is_log, values))
        if not self._is_scheduled:
            self._is_scheduled = True
            call_soon(self._loop, self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False  # first: later values need another call
        while self._waiting:
            is_log, values = self._waiting.popleft()
            self._send_or_delay(values, is_log=is_log)

    def _send_or_delay(self, values: tuple[Any, ...], *, is_log: bool) -> None:
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
            self._delayed_progress = values
            if self._timer is None:
                self._timer = self._loop.call_later(
                    self._progress.pause, self._send_delayed
                )

    def _send_delayed(self) -> None:
        self._timer = None
        delayed, self._delayed_progress = self._delayed_progress, None
        if delayed is not None:
            self._send_or_delay(delayed, is_log=False)

    def flush(self) -> None:
        """Send waiting values: the handler is done, and its response follows."""
        self._drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed_progress is not None:
            self._request.progress(*self._delayed_progress)
            self._delayed_progress = None
        if self._dropped:
            text = f"{self._dropped} log messages came too fast and were dropped"
            self._request.log("warning", text, "mcpwire")
            self._dropped = 0
