"""``subscriptions/listen``: one request that stays open and carries notifications.

2026-07-28 basic/patterns/subscriptions: first an acknowledgement that names what will
come, then that and nothing else, each with the id of the request; a result when the
server ends it. Nothing is kept between two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams, MissingCapability
from mcpwire.protocol.methods import TASKS, capability_declared, declared_extensions
from mcpwire.server.request import check_kept
from mcpwire.server.telling.hub import PROMPTS, RESOURCES, TOOLS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.server.extensions.tasks import Tasks
    from mcpwire.server.handlers import Handler
    from mcpwire.server.request import RequestContext
    from mcpwire.server.telling.hub import Hub
    from mcpwire.server.telling.listens import Listens

__all__ = ["SUBSCRIPTION_ID", "Subscriptions"]

SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

_LISTS: Final = {
    "toolsListChanged": (TOOLS, "tools.listChanged"),
    "promptsListChanged": (PROMPTS, "prompts.listChanged"),
    "resourcesListChanged": (RESOURCES, "resources.listChanged"),
}
"""Field of the filter -> what it asks for, and the capability that brings it."""


class _Listener:
    """One open request, heard of by the hub."""

    def __init__(
        self, request: RequestContext, filter: Mapping[str, Any], ended: asyncio.Event
    ) -> None:
        self._request = request
        self._methods = {
            method for field, (method, _) in _LISTS.items() if filter.get(field)
        }
        self._uris = frozenset(filter.get("resourceSubscriptions", ()))
        self._ended = ended

    def hear(self, method: str, uri: str | None) -> None:
        """Pass on what was asked for."""
        if uri is None and method in self._methods:
            self.send(method, {})
        elif uri is not None and uri in self._uris:
            self.send(method, {"uri": uri})

    def send(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification with the subscription's id."""
        meta = {**(params.get("_meta") or {}), SUBSCRIPTION_ID: self._request.id}
        self._request.notify(method, {**params, "_meta": meta})

    def end(self) -> None:
        """Let the request be answered."""
        self._ended.set()


class Subscriptions:
    """Answers for the subscriptions of one server.

    Args:
        hub: Who tells of changes.
        listens: Those that are open.
        capabilities: Returns what the server declares.
        watchable: Returns which of some URIs are there for who asks; without it, all.

    Attributes:
        tasks: Tells of tasks, where the server has that extension.
    """

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

    def methods(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {"subscriptions/listen": self.listen}

    async def listen(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``subscriptions/listen``, when the server ends it.

        Raises:
            InvalidParams: The filter is malformed.
            MissingCapability: It asks for tasks, and the client did not declare them.
            InternalError: Too many are open already.
        """
        with self._listens.entered(request.facts.owner) as ended:
            return await self.listen_until(ended, params, request)

    async def listen_until(
        self, ended: asyncio.Event, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``subscriptions/listen``, when the event is set; see `listen`."""
        wanted = params.get("notifications")
        if type(wanted) is not dict:
            raise InvalidParams("params.notifications must be an object")
        check_kept("params._meta", request.meta)
        honoured = self._honour(wanted, request)
        listener = _Listener(request, honoured, ended)
        forget = None
        try:
            # Nothing of it may come before this (2026-07-28, "Acknowledgment").
            listener.send(ACKNOWLEDGED, {"notifications": honoured})
            self._hub.listen(listener)
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
        """Return what of a filter will be told; the rest is left out.

        Raises:
            InvalidParams: A field is not of its type.
            MissingCapability: It asks for tasks, and the client did not declare them.
        """
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
                # Nobody hears of what he may not read.
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
