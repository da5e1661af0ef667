"""What a server tells unasked, and who behind the gateway hears it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.gateway.bridge.calls import RelayedCall
from mcpwire.gateway.task_ids import with_task_id
from mcpwire.gateway.translation import reaches
from mcpwire.protocol.methods import find
from mcpwire.protocol.subscriptions import Filter
from mcpwire.server.telling.hub import UPDATED
from mcpwire.types._base import LOG_LEVEL
from mcpwire.versions import LATEST_SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.gateway.bridge.relay import Relay
    from mcpwire.server.request import RequestContext

    Params = dict[str, Any] | None

__all__ = ["hear"]

LOG: Final = "notifications/message"
COMPLETE: Final = "notifications/elicitation/complete"


def hear(relay: Relay, method: str, params: Params, handle: object | None) -> None:
    """Pass a notification on to whom it is for, if to anybody.

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
    # Of 2025-11-25 alone, and for the session whose call the task is.
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
