"""One server behind the gateway: its client, requests and notifications.

::

    client ── request ──► forward ──────────► RelayClient ──► server
       ▲                     │ rounds, suspended   │
       │                     ▼                     │ RelayFeatures: its requests
       └──── Downstream ◄── Upstream ◄─────────────┘ RelayInbound: its notifications
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.client import Client
from mcpwire.client.connection import Connection
from mcpwire.client.inbound import ClientInbound
from mcpwire.client.requests import Requests
from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MCPError,
    RequestTimeout,
    RPCError,
    TransportError,
)
from mcpwire.gateway import translation
from mcpwire.gateway.catalog import KINDS, ServerList
from mcpwire.gateway.downstream import RelayedCall
from mcpwire.gateway.forwarding import with_forwarded_headers
from mcpwire.protocol.client_features import ClientFeatures, ServerRequest
from mcpwire.protocol.methods import ELICIT, find_method, is_capability_declared
from mcpwire.protocol.subscriptions import Filter
from mcpwire.server.notifications import UPDATED
from mcpwire.types._base import LOG_LEVEL
from mcpwire.versions import LATEST_SESSION, Era

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from mcpwire.gateway.downstream import Downstream
    from mcpwire.gateway.plan import Planned
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.server.notifications import Hub
    from mcpwire.server.request import NotifyFn
    from mcpwire.transports.base import CallHandle, ReplyFn
    from mcpwire.transports.targets import OpenChannel
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

    Params = dict[str, Any] | None

logger = logging.getLogger("mcpwire")

LISTS: Final = ("tools", "prompts", "resources")

MAX_TASK_CALLS: Final = 1_024
"""Maximum of tasks with relayed progress; the oldest is dropped."""

SET_LEVEL_TIMEOUT_S: Final = 5.0
"""Time limit of setting a server's log level, for which calls wait, in seconds."""


class Upstream:
    """One server of a set, and the relay of its messages to clients."""

    def __init__(self, upstreams: Upstreams, planned: Planned) -> None:
        gateway, downstream = upstreams.gateway, upstreams.downstream
        if gateway.denies(planned):
            raise InvalidRequest(f"the URL of the server {planned.name!r} is denied")
        self.upstreams = upstreams
        self.downstream: Downstream = downstream
        self.planned = planned
        self.name = planned.name
        self.problem: Exception | None = None  # the last error of connecting
        self.retry_at = 0.0  # time of the next attempt, by the loop's clock
        self.lists = {kind: ServerList(self, kind) for kind in KINDS}
        self.problems: dict[str, Exception] = {}  # errors of its lists, by method
        self.calls = 0
        self.in_flight = translation.InFlightCalls()
        self.task_calls: dict[RequestId | None, RelayedCall] = {}
        # A task's id at the server -> the functions that get its changes.
        self.task_listeners: defaultdict[str, set[NotifyFn]] = defaultdict(set)
        self.change_throttle = ChangeThrottle(upstreams.hub)
        self._level: str | None = None
        # Prefer sessions: at 2026-07-28 servers send no requests of their own.
        is_session = downstream.revision.era is Era.SESSION
        options = {
            "timeout": gateway.timeout,
            "connect_timeout": gateway.connect_timeout,
            "limits": gateway.limits,
            "mode": "prefer-session" if is_session else "auto",
            **planned.options,
        }
        if gateway.trace is not None:
            from mcpwire.gateway.tracing import ConnectionTrace

            options["trace"] = ConnectionTrace(
                gateway.trace, self.name, downstream.session, options.get("trace")
            )
        self.timeout: float | None = options["timeout"]
        self.limits: Limits = options["limits"]
        target = with_forwarded_headers(planned.target, upstreams)
        self.client = RelayClient(target, upstream=self, **options)

    def __repr__(self) -> str:
        return f"<Upstream {self.name!r}, {self.state}>"

    # State of the server

    @property
    def agreement(self) -> Agreement | None:
        """The result of the handshake; ``None`` before."""
        return self.client.connection.profile.agreement

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The server's declared capabilities, unchanged; empty before the handshake."""
        agreement = self.agreement
        if agreement is None or not isinstance(agreement.capabilities, dict):
            return {}
        return agreement.capabilities

    @property
    def revision(self) -> Revision | None:
        """The negotiated protocol revision; ``None`` before the handshake."""
        agreement = self.agreement
        return agreement.revision if agreement is not None else None

    def offers(self, capability: str) -> bool:
        """Return whether the server declared a capability, such as ``logging``."""
        return is_capability_declared(self.capabilities, capability)

    @property
    def state(self) -> str:
        """``"ready"``, ``"lost"``, ``"failed"`` or ``"idle"``."""
        if self.client.is_connected:
            return "ready"
        if self.problem is not None:
            return "failed"
        return "idle" if self.agreement is None else "lost"

    def status(self) -> dict[str, Any]:
        """Return the state of the server as JSON, without secrets."""
        status: dict[str, Any] = {"name": self.name, "state": self.state}
        agreement = self.agreement
        if agreement is not None:
            status["protocolVersion"] = agreement.revision.name
            if isinstance(agreement.server_info, dict):
                status["serverInfo"] = agreement.server_info
            status["capabilities"] = self.capabilities
        if self.problem is not None:
            status["error"] = str(self.problem)
        if self.problems:
            status["problems"] = {m: str(e) for m, e in self.problems.items()}
        status["calls"] = self.calls
        return status

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run background work, which is cancelled when the connection closes."""
        self.client.connection.spawn(coroutine, "relay")

    # Requests of the server

    async def relay_request(
        self,
        method: str,
        params: Params,
        revision_of_server: Revision,
        call: RelayedCall | None,
    ) -> dict[str, Any]:
        """Relay a server's request to the client; return the answer in its revision."""
        downstream = self.downstream
        revision, declared = downstream.revision, downstream.capabilities
        if call is not None:
            revision, declared = call.request.revision, call.request.client_capabilities
        error = translation.unsupported_error(method, params, revision, declared)
        if error is not None:
            raise error
        converted = translation.convert_request(
            method, params, revision, new_id=secrets.token_urlsafe(16)
        )
        tasks = downstream.tasks
        if converted is not None:
            if method == ELICIT and revision < LATEST_SESSION <= revision_of_server:
                converted["requestedSchema"] = _older_form(converted, revision)
            converted = tasks.to_client(self.name, converted)
        answer = await downstream.send_request(method, converted, call)
        return translation.convert_answer(
            method, tasks.to_server(self.name, answer), revision_of_server
        )

    # Notifications of the server

    def relay_notification(
        self, method: str, params: Params, handle: object | None
    ) -> None:
        """Relay a notification to its receivers, if any.

        Progress before the response is relayed by the call (`RelayedCall`), and what
        the protocol does not define to a session only.
        """
        downstream = self.downstream
        fields = params or {}
        # Only at 2025-11-25 do clients know ids of URL elicitations and tasks.
        knows_ids = downstream.revision is LATEST_SESSION
        match method:
            case "notifications/message":
                self._relay_log_message(method, fields, handle)
            case "notifications/resources/updated":
                self._relay_resource_update(fields)
            case "notifications/elicitation/complete" if knows_ids:
                downstream.notify(method, params)
            case "notifications/tasks/status" if knows_ids:
                self._relay_task_status(method, fields)
            case "notifications/tasks":
                self._relay_task(method, fields)
            case (
                "notifications/tools/list_changed"
                | "notifications/prompts/list_changed"
                | "notifications/resources/list_changed"
            ):
                self.mark_list_changed(method.split("/")[1])
            case "notifications/progress":
                self._relay_task_progress(method, fields)
            case _ if find_method(method) is None:
                downstream.notify(method, params)

    def mark_list_changed(self, kind: str) -> None:
        """Mark a list as stale, and notify clients of the change."""
        # In this order, so that no client gets the old list after the notification.
        self.mark_stale(kind)
        self.change_throttle.notify(f"notifications/{kind}/list_changed")

    def on_reconnect(self) -> None:
        """Mark all lists as stale after a reconnect; notify clients of offered ones."""
        self.task_calls.clear()  # new calls get the same ids
        for kind in LISTS:
            if self.offers(kind):
                self.mark_list_changed(kind)
            else:
                self.mark_stale(kind)

    def mark_stale(self, kind: str) -> None:
        """Mark a list as stale: the next reader fetches it again."""
        for list_kind in ("resources", "templates") if kind == "resources" else (kind,):
            self.lists[list_kind].version += 1

    def cancel_fetches(self) -> None:
        """Cancel the running fetches of lists."""
        for each in self.lists.values():
            each.close()

    def _relay_resource_update(self, params: dict[str, Any]) -> None:
        # 2025-11-25 server/resources, "Subscriptions": the URI may be that of a part
        # of a subscribed resource; the client knows only the latter's URI.
        names: dict[str, set[str]] = {}
        for each in self.upstreams.subscriptions.values():
            if each.upstream is self:
                names.setdefault(each.raw, set()).add(each.uri)
        for raw, uris in names.items():
            if Filter(uris=frozenset((raw,))).matches(UPDATED, params):
                for uri in uris:
                    self.change_throttle.notify(UPDATED, uri)

    def _relay_log_message(
        self, method: str, params: dict[str, Any], handle: object | None
    ) -> None:
        call = self._find_call(handle)
        session = self.downstream.session
        params = self.downstream.tasks.to_client(self.name, params)
        if session is not None:
            if not translation.is_at_least(params.get("level"), session.log_level):
                return
            if call is not None and call.request.is_open:
                call.request.notify(method, params)
            else:
                self.downstream.notify(method, params)
        elif call is not None:
            request = call.request
            level: str | None = request.meta.get(LOG_LEVEL)
            if request.session is not None:
                level = request.session.log_level
            if translation.is_at_least(params.get("level"), level):
                request.notify(method, params)

    def _find_call(self, handle: object | None) -> RelayedCall | None:
        """Return the call that a message belongs to; ``None``: unknown."""
        if handle is not None:
            return handle if isinstance(handle, RelayedCall) else None
        if self.downstream.session is None:
            # Several clients: messages of a cancelled call must not reach another one.
            return self.in_flight.only_call(asyncio.get_running_loop().time())
        calls = self.in_flight.calls
        return next(iter(calls)) if len(calls) == 1 else None

    def _relay_task_status(self, method: str, params: dict[str, Any]) -> None:
        raw = params.get("taskId")
        name = self.downstream.tasks.name(self.name, raw) if type(raw) is str else None
        if name is not None:
            renamed = translation.replace_task_id(params, str(raw), name)
            self.downstream.notify(method, renamed)

    def keep_task_call(self, call: RelayedCall) -> None:
        """Relay the progress of a call that has become a task."""
        call.become_task()
        self.task_calls[call.request_id] = call
        if len(self.task_calls) > MAX_TASK_CALLS:
            del self.task_calls[next(iter(self.task_calls))]

    def _relay_task_progress(self, method: str, params: dict[str, Any]) -> None:
        token = params.get("progressToken")
        if type(token) is not int:
            return
        call = self.task_calls.get(token)
        # The response may have arrived just before: then its call is still in flight.
        for each in self.in_flight.calls if call is None else (call,):
            if each.request_id == token:
                each.relay_progress(method, params)

    def _relay_task(self, method: str, params: dict[str, Any]) -> None:
        raw = params.get("taskId")
        listeners = self.task_listeners.get(raw) if type(raw) is str else None
        if listeners:
            name = self.downstream.tasks.claim(self.name, str(raw))
            for send in list(listeners):
                send(method, translation.replace_task_id(params, str(raw), name))

    # Requests on behalf of clients

    async def set_level(self, level: str) -> None:
        """Set the minimum level of the server's log messages, if it has levels.

        Clients that share a session at the server get the lowest of their levels there;
        each message is then filtered by the level of its client.
        """
        client, profile = self.client, self.client.connection.profile
        is_shared = self.downstream.session is None
        has_levels = profile.agreement is not None and profile.offers("logging")
        if is_shared and not (
            has_levels
            and profile.era is Era.SESSION
            and translation.needs_lower_level(self._level, level)
        ):
            return
        previous, self._level = self._level, level
        client.connection.log_level = level  # applies to each new session
        if not has_levels:
            return
        limit = SET_LEVEL_TIMEOUT_S
        if self.timeout is not None:  # the call with the level has the same one
            limit = min(limit, self.timeout / 2)
        try:
            await client.set_log_level(level, timeout=limit)  # type: ignore[arg-type] # it is checked
        except MCPError as error:
            if is_shared and not isinstance(error, RequestTimeout):
                self._level = client.connection.log_level = previous
            logger.debug("%r takes no log level: %s", self.name, error)

    async def notify_roots_changed(self) -> None:
        """Notify the server that the client's roots changed."""
        try:
            await self.client.notify("notifications/roots/list_changed")
        except TransportError as error:
            logger.debug("roots/list_changed was not sent: %s", error)


def _older_form(params: dict[str, Any], revision: Revision) -> dict[str, Any]:
    """Return the form of an elicitation in the shape of an older revision."""
    from mcpwire.server.authoring.forms import form_schema
    from mcpwire.types import RequestedSchema, decode, encode

    try:
        form = encode(decode(RequestedSchema, params.get("requestedSchema")))
        required = form.get("required", ())
        for name, field in [*form["properties"].items()]:
            if field.get("type") == "array" and name not in required:
                del form["properties"][name]  # lists exist since 2025-11-25
        return form_schema(form, revision)
    except (InvalidMessage, LocalProtocolError) as error:
        raise InvalidParams(f"the client speaks {revision}: {error}") from error


class RelayFeatures(ClientFeatures):
    """Client features of the relay: the client's own capabilities and answers."""

    def __init__(self, upstream: Upstream) -> None:
        super().__init__()
        self._upstream = upstream
        self.handle: object | None = None  # the call with the stream of a request

    @property
    def extensions(self) -> frozenset[str]:
        """The ids of the extensions that the client declared."""
        declared = self._upstream.downstream.capabilities
        return frozenset(declared.get("extensions") or ())

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the client's capabilities, converted to a revision."""
        downstream = self._upstream.downstream
        return translation.convert_capabilities(
            downstream.capabilities, downstream.revision, revision
        )

    def prepare(self, method: str, params: Params, revision: Revision) -> ServerRequest:
        """Return the relay of a server's request to the client.

        The call is looked up now, while `handle` is set and the call has not ended.
        """
        upstream = self._upstream
        call = upstream.downstream.find_call(upstream.in_flight, self.handle)

        def relay(_: None) -> Any:
            return upstream.relay_request(method, params, revision, call)

        return ServerRequest(relay, None, _check_object)

    def complete_elicitation(self, params: Params) -> bool:
        """Return true: only the client itself knows its open elicitations."""
        return True


def _check_object(answer: Any) -> dict[str, Any]:
    if type(answer) is not dict:
        raise LocalProtocolError("the client's answer must be an object")
    return answer


class RelayInbound(ClientInbound):
    """Relays a server's requests and notifications, with their calls."""

    upstream: Upstream | None = None  # until the client is created

    def notification(
        self, method: str, params: Params, call: CallHandle | None
    ) -> None:
        """Pass a notification to all receivers, the gateway last."""
        super().notification(method, params, call)
        if self.upstream is not None:
            self.upstream.relay_notification(method, params, call)

    def request(
        self,
        id: RequestId,
        method: str,
        params: Params,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Handle a server's request."""
        features: Any = self.features
        features.handle = call
        try:
            super().request(id, method, params, reply, call)
        finally:
            features.handle = None


class RelayConnection(Connection):
    """A connection with a `RelayInbound`."""

    _inbound_type = RelayInbound

    def not_connected_error(self) -> MCPError:
        """Return the error for a call without a connection, no mistake of a client."""
        error = super().not_connected_error()
        if isinstance(error, LocalProtocolError):
            return ConnectionClosed("the connection was closed", sent=False)
        return error


class RelayRequests(Requests):
    """Sender of requests that relays their progress notifications unchanged."""

    async def _begin_with_progress(  # noqa: PLR0917 - the parameters of `begin`
        self,
        channel: OpenChannel,
        method: str,
        params: Params,
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


MIN_INBOUND_LIMIT: Final = 256
"""Minimum of the limit on open requests of a server: users answer slowly."""


RELISTEN_DELAY_S: Final = 1.0
"""Seconds until an ended subscription is renewed; doubled after each attempt."""

MAX_RELISTEN_DELAY_S: Final = 30.0
"""Maximum of this delay, which a subscription that lasted longer resets."""


class RelayClient(Client):
    """A connection to a server behind the gateway; options as for `Client`."""

    _connection_type: ClassVar[type[Connection]] = RelayConnection
    _requests_type: ClassVar[type[Requests]] = RelayRequests

    _connection: RelayConnection

    def __init__(
        self, target: Any, *, upstream: Upstream, limits: Limits, **options: Any
    ) -> None:
        self._upstream = upstream
        limits = attrs.evolve(limits, inbound=max(limits.inbound, MIN_INBOUND_LIMIT))
        super().__init__(target, limits=limits, **options)
        self.connection, self.requests = self._connection, self._requests
        self.subscriptions = self._subscriptions
        inbound: Any = self._connection.inbound
        inbound.upstream = upstream
        inbound.missed_hooks.append(self._on_reconnect)
        self._subscriptions.listen_to_lists()
        self._subscriptions.on_end = self._on_subscription_end
        self._relisten_task: asyncio.Task[Any] | None = None  # renews a subscription
        self._delay = RELISTEN_DELAY_S
        self._listened_at = -inf

    def _client_features(self, **_: Any) -> ClientFeatures:
        return RelayFeatures(self._upstream)

    async def aclose(self) -> None:
        """Close the connection; see `Client.aclose`."""
        self._upstream.change_throttle.close()
        await super().aclose()

    def _on_reconnect(self) -> None:
        if self._connection.serial:  # not the first connection
            self._upstream.on_reconnect()

    def _on_subscription_end(self) -> None:
        if self._relisten_task is None or self._relisten_task.done():
            self._relisten_task = self._connection.spawn(self._relisten(), "relay")

    async def _relisten(self) -> None:
        """Renew subscriptions that the server ended, for example by a restart."""
        connection, subscriptions = self._connection, self._subscriptions
        while self.is_connected and subscriptions.needs_renewal:
            if connection.time() - self._listened_at > MAX_RELISTEN_DELAY_S:
                self._delay = RELISTEN_DELAY_S
            await connection.sleep(self._delay)
            self._delay = min(2 * self._delay, MAX_RELISTEN_DELAY_S)
            self._listened_at = connection.time()
            try:
                if await subscriptions.listen_again():
                    self._upstream.on_reconnect()
            except RPCError as error:
                logger.debug("%r ended a subscription: %s", self._upstream.name, error)
                return
            except MCPError:
                continue

    def may_repeat(self, method: str, params: Mapping[str, Any]) -> bool | None:
        """Return whether a tool's hints allow a repeated call; ``None``: unknown."""
        name = params.get("name")
        if method != "tools/call" or type(name) is not str:
            return None
        return self._may_repeat(name, None)


MERGE_WINDOW_S: Final = 0.05
"""Seconds after a notification during which further ones are merged."""


class ChangeThrottle:
    """Throttle of change notifications: sends the first at once, merges others."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_closed = False
        self._timers: dict[tuple[str, str | None], asyncio.TimerHandle] = {}
        self._repeated: set[tuple[str, str | None]] = set()

    def notify(self, method: str, uri: str | None = None) -> None:
        """Notify the hub of a change, in the event loop's thread."""
        change = method, uri
        if change in self._timers:
            self._repeated.add(change)
        elif not self._is_closed:
            self._hub.notify(method, uri)
            loop = asyncio.get_running_loop()
            self._timers[change] = loop.call_later(
                MERGE_WINDOW_S, self._end_window, change
            )

    def _end_window(self, change: tuple[str, str | None]) -> None:
        del self._timers[change]
        if change in self._repeated:
            self._repeated.discard(change)
            self.notify(*change)

    def close(self) -> None:
        """Stop all notifications."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._repeated.clear()
