"""A `Relay` beside each connection to a server: for its requests and notifications.

::

    client ── request ──► forward ──────────► RelayClient ──► server
       ▲                     │ rounds, suspended   │
       │                     ▼                     │ RelayFeatures: questions
       └──── Downstream ◄── Relay ◄────────────────┘ RelayInbound: notifications

A `Downstream` is the owner of a set of such connections: one session, or all requests
that share the set.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.client import Client
from mcpwire.client.connection import Connection
from mcpwire.client.inbound import ClientInbound
from mcpwire.client.requests import Requests
from mcpwire.errors import LocalProtocolError, MCPError
from mcpwire.gateway.translation import (
    InFlightCalls,
    answer_across,
    declared_again,
    lowered,
    question_across,
    reaches,
    refusal,
    with_task_id,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.client_features import ClientFeatures, ServerRequest
from mcpwire.protocol.methods import find
from mcpwire.protocol.subscriptions import Filter
from mcpwire.server.notifications import UPDATED
from mcpwire.transports.base import CallHandle
from mcpwire.types._base import LOG_LEVEL
from mcpwire.versions import LATEST_SESSION, REVISIONS, Era
from mcpwire.wire.jsonrpc import is_request_id

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

    from mcpwire.gateway.downstream import Downstream
    from mcpwire.gateway.suspended import ParkedCall
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.negotiation import Profile
    from mcpwire.server.notifications import Hub
    from mcpwire.server.request import NotifyFn, RequestContext
    from mcpwire.transports.base import ReplyFn
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.targets import OpenChannel
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    Params = dict[str, Any] | None

__all__ = [
    "Relay",
    "RelayClient",
    "RelayFeatures",
    "RelayedCall",
    "Teller",
    "forwarding",
    "hear",
    "make_client",
    "take_headers",
]

logger = logging.getLogger("mcpwire")

LISTS: Final = ("tools", "prompts", "resources")


class Relay:
    """What one server of a set asks and tells, on its way to the set's client.

    Args:
        upstreams: The set.
        name: The server's name in it.

    Attributes:
        upstreams: As given.
        name: As given.
        in_flight: The calls under way on the connection.
        watched: How many want to hear of a resource: by what the server calls it, then
            by what clients do.
        watched_tasks: The listeners of a task, by its id at the server.
        dropped_logs: Log messages that no call could be found for.
        teller: Says that lists and resources changed.
    """

    def __init__(self, upstreams: Upstreams, name: str) -> None:
        self.upstreams = upstreams
        self.name = name
        self.in_flight: InFlightCalls[RelayedCall] = InFlightCalls()
        self.watched: dict[str, Counter[str]] = {}
        self.watched_tasks: dict[str, dict[object, NotifyFn]] = {}
        self.dropped_logs = 0
        self.teller = Teller(upstreams.hub)
        self._told_level: str | None = None

    @property
    def downstream(self) -> Downstream:
        """The client side of the set."""
        found: Downstream = self.upstreams.downstream
        return found

    # Questions...

    def question(
        self,
        method: str,
        params: dict[str, Any] | None,
        asks: Revision,
        handle: object | None,
    ) -> ServerRequest:
        """Return what gets a question of the server's its answer.

        Its call is found now: later it may no longer be known.

        Raises:
            RPCError: Nobody can be asked that.
        """
        now = asyncio.get_running_loop().time()
        call = self.downstream.whose(self.in_flight, handle, now)

        def ask(_: None) -> Any:
            return self.ask(method, params, asks, call)

        return ServerRequest(ask, None, _as_it_is)

    async def ask(
        self,
        method: str,
        params: dict[str, Any] | None,
        asks: Revision,
        call: RelayedCall | None,
    ) -> dict[str, Any]:
        """Return the client's answer to a question, in the asker's revision.

        Raises:
            RPCError: The client refused, or there is no form for what it answered.
        """
        downstream = self.downstream
        revision, declared = downstream.revision, downstream.capabilities
        if call is not None:
            revision, declared = call.request.revision, call.request.client_capabilities
        refused = refusal(method, params, revision, declared)
        if refused is not None:
            raise refused
        put = question_across(
            method, params, revision, new_id=secrets.token_urlsafe(16)
        )
        answer = await downstream.ask(method, put, call)
        return answer_across(method, answer, asks)

    # Notifications...

    def heard(
        self, method: str, params: dict[str, Any] | None, handle: object | None
    ) -> None:
        """Pass a notification on to its receiver."""
        hear(self, method, params, handle)

    def changed(self, kind: str) -> None:
        """Take note that a list changed: it is forgotten before anybody hears of it."""
        # So a client that lists again after the notification never gets the old list.
        self.upstreams.catalog.drop(kind, self.name)
        self.teller.tell(f"notifications/{kind}/list_changed")

    def renewed(self, profile: Profile) -> None:
        """Take note that anything may have changed unheard; say so of what there is."""
        for kind in LISTS:
            if profile.offers(kind):
                self.changed(kind)
            else:
                self.upstreams.catalog.drop(kind, self.name)

    # Levels...

    async def lower_level(self, client: RelayClient, wanted: str) -> None:
        """Have a session tell at least what a request wants to hear.

        Each request hears from its own level on, whatever the session tells.
        """
        profile = client.profile
        if profile.era is not Era.SESSION or not profile.offers("logging"):
            return
        if not lowered(self._told_level, wanted):
            return
        told, self._told_level = self._told_level, wanted
        try:
            await client.request("logging/setLevel", {"level": wanted})
        except MCPError as error:
            self._told_level = told
            logger.debug("%r takes no log level: %s", self.name, error)
        else:
            client.keep_level(wanted)


def _as_it_is(answer: Any) -> dict[str, Any]:
    if type(answer) is not dict:
        raise LocalProtocolError("the client's answer must be an object")
    return answer


PROGRESS: Final = "notifications/progress"

_MESSAGES_SINCE: Final = REVISIONS[1]


class RelayedCall(CallHandle):
    """Follows a request on both sides; what a server sends for it finds it by this.

    Attributes:
        request: The client's request. A call that waited for an answer at 2026-07-28
            goes on with another one.
        parked: How it waits for answers, where the client's revision has no requests
            of servers and the server's has.
    """

    __slots__ = ("_progress", "parked", "request")

    def __init__(self, request: RequestContext) -> None:
        self.request_id = None
        self.on_cancel = None
        self.request = request
        self.parked: ParkedCall | None = None
        self._progress: float | None = None

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<RelayedCall {self.request!r} as {self.request_id!r}>"

    @property
    def wants_progress(self) -> bool:
        """Whether the client gave a token that it wants to hear of progress by."""
        return is_request_id(self.request.meta.get("progressToken"))

    def goes_on(self, request: RequestContext) -> None:
        """Let another request of the same client be the one that is answered."""
        self.request = request
        self._progress = None

    def heard(self, method: str, params: dict[str, Any] | None) -> None:
        """Pass progress on, under the very token that the client gave."""
        if method != PROGRESS or params is None:
            return
        request = self.request
        token = request.meta.get("progressToken")
        value = params.get("progress")
        if not is_request_id(token) or type(value) not in {int, float}:
            return
        if self._progress is not None and not value > self._progress:  # type: ignore[operator] # a number
            # 2026-07-28 basic/patterns/progress: the value MUST increase each time.
            return
        self._progress = value
        told = {**params, "progressToken": token}
        if request.revision < _MESSAGES_SINCE:
            told.pop("message", None)
        request.notify(method, told)


QUESTIONS: Final = 256
"""Questions of a server's that wait for their answers at once; people take time."""


class RelayFeatures(ClientFeatures):
    """What the client behind the gateway can be asked, declared and asked as it came.

    Args:
        relay: The relay that asks.

    Attributes:
        handle: The call of the stream on which the question came, if known.
    """

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay
        self.handle: object | None = None

    @property
    def extensions(self) -> frozenset[str]:
        """The ids of the extensions that are switched on."""
        return frozenset(self._relay.downstream.capabilities.get("extensions") or ())

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return what the client behind declared, as that revision says it."""
        downstream = self._relay.downstream
        return declared_again(downstream.capabilities, downstream.revision, revision)

    def prepare(
        self, method: str, params: dict[str, Any] | None, revision: Revision
    ) -> ServerRequest:
        """Return what asks the client behind.

        Raises:
            RPCError: It cannot be asked that.
        """
        return self._relay.question(method, params, revision, self.handle)

    def complete_elicitation(self, params: dict[str, Any] | None) -> bool:
        """Accept the URL; the client decides on it."""
        return True


class RelayInbound(ClientInbound):
    """Tells a relay of what the server starts, and of the call it belongs to.

    Attributes:
        relay: The receiver; ``None`` until the client is made.
    """

    relay: Relay | None = None

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """Hand a notification to all receivers, the relay last."""
        super().notification(method, params, call)
        if self.relay is not None:
            self.relay.heard(method, params, call)

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Answer what the server asks."""
        features: Any = self.features
        features.handle = call
        try:
            super().request(id, method, params, reply, call)
        finally:
            features.handle = None


class RelayConnection(Connection):
    """A connection that a relay hears of."""

    _inbound_type = RelayInbound


class RelayRequests(Requests):
    """Requests; progress is passed on as it came."""

    async def _begin_with_progress(  # noqa: PLR0917 - all of `begin`'s
        self,
        channel: OpenChannel,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        on_progress: Any,
        headers: Mapping[str, str] | None,
        handle: CallHandle | None,
    ) -> dict[str, Any]:
        return await channel.call(
            method,
            params,
            deadline=deadline,
            handle=handle,
            on_notification=on_progress,
            headers=headers,
        )


class RelayClient(Client):
    """A connection to a server behind the gateway.

    Args:
        target: As for `Client`.
        relay: The receiver of the server's requests and notifications.
        limits: As for `Client`; more questions may wait at once.
        options: As for `Client`, without what its handlers are.

    Attributes:
        relay: As given.
    """

    _connection_type: ClassVar[type[Connection]] = RelayConnection
    _requests_type: ClassVar[type[Requests]] = RelayRequests

    _connection: RelayConnection

    def __init__(
        self,
        target: Any,
        *,
        relay: Relay,
        limits: Limits = DEFAULT_LIMITS,
        **options: Any,
    ) -> None:
        self.relay = relay
        inbound = max(limits.inbound, QUESTIONS)
        super().__init__(
            target, limits=attrs.evolve(limits, inbound=inbound), **options
        )
        heard: Any = self._connection.inbound
        heard.relay = relay
        heard.renewed.append(self._renewed)
        self._subscriptions.hear_lists()

    def _client_features(self, **_: Any) -> ClientFeatures:
        return RelayFeatures(self.relay)

    async def aclose(self) -> None:
        """Close the connection; see `Client.aclose`."""
        self.relay.teller.close()
        await super().aclose()

    def _renewed(self) -> None:
        if self._connection.serial:  # not the first one
            self.relay.renewed(self._connection.profile)

    @property
    def connection(self) -> RelayConnection:
        """The connection, for the bridge."""
        return self._connection

    @property
    def requests(self) -> Requests:
        """What makes requests, for the bridge."""
        return self._requests

    @property
    def profile(self) -> Profile:
        """How requests are made now."""
        return self._connection.profile

    def may_repeat(self, method: str, params: Mapping[str, Any]) -> bool | None:
        """Return what the hints of a tool say about calling it again."""
        name = params.get("name")
        if method != "tools/call" or type(name) is not str:
            return None
        return self._may_repeat(name, None)

    async def hear(self, wanted: Filter) -> Filter:
        """Have the server tell of this too; return what of it it will tell.

        Raises:
            MCPError: As any request; nothing more is wanted then than before.
        """
        return await self._subscriptions.add(wanted, {})

    async def unhear(self, wanted: Filter) -> None:
        """Want this no longer.

        Raises:
            MCPError: As any request; it is not wanted any longer all the same.
        """
        await self._subscriptions.remove(wanted, {})

    def keep_level(self, level: str) -> None:
        """Tell each new session that log level too."""
        self._connection.log_level = level


def make_client(
    upstreams: Upstreams, name: str, target: Any, **options: Any
) -> RelayClient:
    """Return the client for a server of a set, with what stands beside it."""
    relay = Relay(upstreams, name)
    return RelayClient(forwarding(target, upstreams), relay=relay, **options)


LOG: Final = "notifications/message"
COMPLETE: Final = "notifications/elicitation/complete"


def hear(relay: Relay, method: str, params: Params, handle: object | None) -> None:
    """Pass a notification on to its receiver, if there is one.

    Progress comes by its call (`RelayedCall.heard`). What the protocol does not know is
    between a session's two ends.
    """
    passing = _PASSED.get(method)
    if passing is not None:
        passing(relay, method, params, handle)
    elif find(method) is None:
        relay.downstream.tell(method, params)


def _list_changed(relay: Relay, method: str, _: Params, __: object | None) -> None:
    relay.changed(method.split("/")[1])


def _updated(relay: Relay, _: str, params: Params, __: object | None) -> None:
    # 2025-11-25 server/resources, "Subscriptions": it may be a part of what was
    # subscribed to, of which the client knows the whole.
    for watched, names in relay.watched.items():
        if Filter(uris=frozenset((watched,))).matches(UPDATED, params):
            for name in names:
                relay.teller.tell(UPDATED, name)


def _log(relay: Relay, method: str, params: Params, handle: object | None) -> None:
    if params is None:
        return
    call = _call_of(relay, handle)
    session = relay.downstream.session
    if session is not None:
        if not reaches(params.get("level"), session.log_level):
            return
        if call is not None and call.request.is_open:
            call.request.notify(method, params)
        else:
            relay.downstream.tell(method, params)
    elif call is None:
        relay.dropped_logs += 1
    elif reaches(params.get("level"), _level_of(call.request)):
        call.request.notify(method, params)


def _level_of(request: RequestContext) -> str | None:
    if request.session is not None:
        return request.session.log_level
    level: str | None = request.meta.get(LOG_LEVEL)
    return level


def _call_of(relay: Relay, handle: object | None) -> RelayedCall | None:
    """Return the call that a message belongs to; ``None``: nothing shows which."""
    if isinstance(handle, RelayedCall):
        return handle
    if handle is not None:
        return None
    if relay.downstream.session is None:
        # Of several clients' calls: what one of them gave up is told nobody else.
        return relay.in_flight.sole(asyncio.get_running_loop().time())
    calls = relay.in_flight.calls
    return next(iter(calls)) if len(calls) == 1 else None


def _completed(relay: Relay, method: str, params: Params, _: object | None) -> None:
    # Of 2025-11-25 alone, which is where a visit has an id on both sides.
    if relay.downstream.revision is LATEST_SESSION:
        relay.downstream.tell(method, params)


def _task_status(relay: Relay, method: str, params: Params, _: object | None) -> None:
    # Of 2025-11-25 alone, and for the session that owns the task.
    downstream = relay.downstream
    if downstream.revision is LATEST_SESSION and params is not None:
        raw = params.get("taskId")
        if type(raw) is str:
            name = downstream.tasks.name(relay.name, raw)
            if name is not None:
                downstream.tell(method, with_task_id(params, raw, name))


def _task(relay: Relay, method: str, params: Params, _: object | None) -> None:
    raw = (params or {}).get("taskId")
    if params is None or type(raw) is not str:
        return
    watching = list(relay.watched_tasks.get(raw, {}).values())
    if watching:
        name = relay.downstream.tasks.claim(relay.name, raw)
        for send in watching:
            send(method, with_task_id(params, raw, name))


_PASSED: Final[Mapping[str, Callable[[Relay, str, Params, object | None], None]]] = {
    "notifications/tools/list_changed": _list_changed,
    "notifications/prompts/list_changed": _list_changed,
    "notifications/resources/list_changed": _list_changed,
    UPDATED: _updated,
    LOG: _log,
    COMPLETE: _completed,
    "notifications/tasks/status": _task_status,
    "notifications/tasks": _task,
}


WINDOW_S: Final = 0.05
"""How long after one notification the next one of its kind waits for more."""


class Teller:
    """Tells a hub of changes: the first at once, those that follow it soon as one.

    None is ever lost: what comes within the window is told when that ends. A hub makes
    one of what happens in one turn of the loop anyway.

    Args:
        hub: The receiver.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_closed = False
        self._waiting: dict[tuple[str, str | None], asyncio.TimerHandle] = {}
        self._again: set[tuple[str, str | None]] = set()

    def tell(self, method: str, uri: str | None = None) -> None:
        """Say that something changed; on the loop's thread."""
        what = method, uri
        if what in self._waiting:
            self._again.add(what)
            return
        if self._is_closed:
            return
        self._hub.tell(method, uri)
        loop = asyncio.get_running_loop()
        self._waiting[what] = loop.call_later(WINDOW_S, self._due, what)

    def _due(self, what: tuple[str, str | None]) -> None:
        del self._waiting[what]
        if what in self._again:
            self._again.discard(what)
            self.tell(*what)

    def close(self) -> None:
        """Say nothing more."""
        self._is_closed = True
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        self._again.clear()


_causing: ContextVar[tuple[RequestContext, Mapping[str, str]] | None] = ContextVar(
    "mcpwire_gateway_causing", default=None
)


def take_headers(upstreams: Upstreams, request: RequestContext) -> None:
    """Let what a request causes have its fields, and what nobody causes from now on.

    As a whole, whatever came before: what is not sent again is not passed on. Where
    several clients share a set, what none of them causes keeps the fields by which they
    share it.

    Raises:
        InvalidRequest: One of them cannot be sent on.
    """
    headers = upstreams.gateway.forwarded(request.info)
    if upstreams.downstream.session is not None:
        upstreams.headers = headers
    _causing.set((request, headers))


def forwarding(target: Any, upstreams: Upstreams) -> Any:
    """Return a target to which the set's header fields go along, with all requests.

    Also with those that connect, and with what answers a server. A field that the
    target itself has wins over the client's. What is no HTTP stays as it is.
    """
    if not upstreams.gateway.forward_headers:
        return target
    from mcpwire.transports.http.target import Http

    return _with(target, upstreams) if isinstance(target, Http) else target


def _with(target: Http, upstreams: Upstreams) -> Http:
    given: Any = target.headers

    async def headers() -> Mapping[str, str]:
        own = given() if callable(given) else given
        if isawaitable(own):
            own = await own
        return _merged(_current(upstreams), own or {})

    made = attrs.evolve(target, headers=headers)
    # What was learned of the server, and the tokens for it, are the same as before.
    object.__setattr__(made, "memory", target.memory)
    object.__setattr__(made, "grant", target.grant)
    return made


def _current(upstreams: Upstreams) -> Mapping[str, str]:
    causing = _causing.get()
    # A task that a request has begun may go on when that is answered.
    if causing is not None and causing[0].is_open:
        return causing[1]
    return upstreams.headers


def _merged(forwarded: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    taken = {name.lower() for name in own}
    passed = {name: value for name, value in forwarded.items() if name not in taken}
    return {**passed, **own}
