"""The routes of the gateway: by method, the server of a request and its params there.

Requests and results stay plain dicts: of a request only the name or the URI is another,
and what a server answers goes back as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams, LocalProtocolError, ResourceNotFound, RPCError
from mcpwire.gateway.catalog import call_extra
from mcpwire.gateway.forwarding import forward
from mcpwire.gateway.merging import has_links, page_of, with_links, with_uris
from mcpwire.gateway.subscriptions import listen, set_level, subscribe, unsubscribe
from mcpwire.gateway.tasks import TASK_CAPABILITIES, task_methods
from mcpwire.tools.transforms import check_arguments, without

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcpwire.gateway.gateway import Gateway
    from mcpwire.gateway.merging import Merged
    from mcpwire.gateway.upstreams import Upstream, Upstreams
    from mcpwire.server.request import RequestContext
    from mcpwire.tools.transforms import ToolTransform

    Json = dict[str, Any]
    Answer = Callable[[Json, RequestContext, Upstreams], Awaitable[Json]]
    """Answers a request of one method out of one set."""

__all__ = ["CAPABILITIES", "SERVED", "Routes"]

CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
"""All that a gateway can do; a client is told what of it its servers can."""

SERVED: Final = {**CAPABILITIES, **TASK_CAPABILITIES}
"""The same with tasks, of which a client is told only where a server has them."""

EXCERPT: Final = 100
"""How much of a name that the client chose an error message repeats."""

NOT_FOUND: Final = -32002

_NOT_FOUND: Final = frozenset({NOT_FOUND, -32602})
"""With what a server says that it has no such resource."""


class Routes:
    """The answers of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def methods(self) -> dict[str, Answer]:
        """Return the answers by method."""
        return {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
            "logging/setLevel": set_level,
            "subscriptions/listen": listen,
            **task_methods(),
        }

    # Lists...

    async def _list_tools(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        found = await upstreams.catalog.get("tools")
        return self._page("tools", _wanted(found, "name", request, upstreams), params)

    async def _list_prompts(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        found = await upstreams.catalog.get("prompts")
        return self._page("prompts", _wanted(found, "name", request, upstreams), params)

    async def _list_resources(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        found = await upstreams.catalog.get("resources")
        return self._page(
            "resources", _wanted(found, "uri", request, upstreams), params
        )

    async def _list_templates(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        found = await upstreams.catalog.get("templates")
        found = _wanted(found, "uriTemplate", request, upstreams)
        return self._page("resourceTemplates", found, params)

    def _page(self, key: str, merged: Merged, params: Json) -> Json:
        """Return one page of a merged list."""
        cursor = params.get("cursor")
        items: Sequence[Json] = merged.items
        size = self._gateway.page_size
        following = None
        if size is not None or cursor is not None:
            items, following = page_of(
                items, cursor, size=size or max(len(items), 1), mark=merged.mark
            )
        result: Json = {key: list(items), **merged.hints}
        if following is not None:
            result["nextCursor"] = following
        return result

    # Tools...

    async def _call_tool(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        name = _text(params, "name")
        owner = await upstreams.catalog.owner_of("tools", name)
        if owner is None:
            raise _unknown("tool", name)
        upstream, raw = owner
        tools = upstreams.catalog.known["tools"]
        if tools.transforms or upstream.planned.rules.strip_arguments:
            params = _changed(params, tools.transforms.get(name), upstream)
        result: Json
        if name in tools.extras:
            arguments = params.get("arguments")
            result = await call_extra(upstream, raw, arguments, request, upstreams)
        else:
            result = await forward(
                upstream, "tools/call", {**params, "name": raw}, request, upstreams
            )
        if has_links(result):
            aliases = await upstreams.catalog.aliases_of(upstream.name)
            result = with_links(result, aliases)
        delegate = self._gateway.delegate
        if delegate is not None:
            result = await delegate.splice(result, request)
        return result

    # Prompts...

    async def _get_prompt(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        name = _text(params, "name")
        owner = await upstreams.catalog.owner_of("prompts", name)
        if owner is None:
            raise _unknown("prompt", name)
        upstream, raw = owner
        result: Json = await forward(
            upstream, "prompts/get", {**params, "name": raw}, request, upstreams
        )
        return result

    # Resources...

    async def _read_resource(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        uri = _text(params, "uri")
        owners = await upstreams.catalog.owners_of_uri(uri)
        refusal: RPCError = _no_resource(uri)
        for upstream, raw in owners:
            try:
                result: Json = await forward(
                    upstream,
                    "resources/read",
                    {**params, "uri": raw},
                    request,
                    upstreams,
                )
            except RPCError as error:
                if error.code not in _NOT_FOUND:
                    raise
                refusal = _in_session(error, uri, request)  # others may have it
                continue
            return await _with_aliases(result, upstream, upstreams)
        raise refusal

    async def _subscribe(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        uri = _text(params, "uri")
        upstream, raw = await self._owner_of(uri, upstreams)
        await subscribe(upstreams, upstream, raw, uri, request)
        return {}

    async def _unsubscribe(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        uri = _text(params, "uri")
        upstream, raw = await self._owner_of(uri, upstreams)
        await unsubscribe(upstreams, upstream, raw, uri, request)
        return {}

    @staticmethod
    async def _owner_of(uri: str, upstreams: Upstreams) -> tuple[Upstream, str]:
        owner = await upstreams.catalog.owner_of_uri(uri)
        if owner is None:
            raise _no_resource(uri)
        return owner

    # Completion...

    async def _complete(
        self, params: Json, request: RequestContext, upstreams: Upstreams
    ) -> Json:
        ref = params.get("ref")
        if type(ref) is not dict:
            raise InvalidParams("params.ref must be an object")
        catalog = upstreams.catalog
        if ref.get("type") == "ref/prompt":
            key = "name"
            name = _text(ref, key)
            owner = await catalog.owner_of("prompts", name)
            if owner is None:
                raise _unknown("prompt", name)
        elif ref.get("type") == "ref/resource":
            key = "uri"
            owner = await self._owner_of_reference(_text(ref, key), upstreams)
        else:
            raise InvalidParams("params.ref.type must be ref/prompt or ref/resource")
        upstream, raw = owner
        if not _completes(upstream):
            return {"completion": {"values": []}}
        result: Json = await forward(
            upstream,
            "completion/complete",
            {**params, "ref": {**ref, key: raw}},
            request,
            upstreams,
        )
        return result

    async def _owner_of_reference(
        self, uri: str, upstreams: Upstreams
    ) -> tuple[Upstream, str]:
        """Return the server of the template or resource to complete."""
        templates = await upstreams.catalog.get("templates")
        owner = templates.owners.get(uri)
        if owner is not None:
            return upstreams.members[owner[0]], owner[1]
        return await self._owner_of(uri, upstreams)


def _changed(params: Json, transform: ToolTransform | None, upstream: Upstream) -> Json:
    """Return a call's params as its server is to get them."""
    strip = upstream.planned.rules.strip_arguments
    if transform is None and not strip:
        return params
    try:
        arguments = without(check_arguments(params.get("arguments")), strip)
        if transform is not None:
            arguments = transform.inside(arguments)
    except LocalProtocolError as error:
        raise InvalidParams(str(error)) from error
    if arguments is None:
        return params
    return {**params, "arguments": arguments}


def _completes(upstream: Upstream) -> bool:
    """Tell whether a server may be asked to complete."""
    # 2024-11-05 has completion without a capability that announces it.
    revision = upstream.revision
    is_unsaid = revision is not None and revision.name == "2024-11-05"
    return is_unsaid or upstream.offers("completions")


async def _with_aliases(result: Json, upstream: Upstream, upstreams: Upstreams) -> Json:
    """Let contents be called what the client called them."""
    aliases = await upstreams.catalog.aliases_of(upstream.name)
    contents, changed = with_uris(result.get("contents"), aliases)
    return {**result, "contents": contents} if changed else result


def _wanted(
    merged: Merged, key: str, request: RequestContext, upstreams: Upstreams
) -> Merged:
    """Return what a request wants of a list: all, or what one server has."""
    listing = getattr(upstreams.gateway.source, "listing", None)
    wanted = None if listing is None else listing(request.info)
    if wanted is None:
        return merged
    servers = {
        each.name
        for each in upstreams.plan.servers
        if wanted in {each.name, getattr(each.target, "url", None)}
    }
    return merged.only(servers, key)


def _text(params: Json, key: str) -> str:
    value = params.get(key)
    if type(value) is not str:
        raise InvalidParams(f"params.{key} must be a string")
    return value


def _unknown(noun: str, name: str) -> RPCError:
    """Build the error for a name that nobody has (2025-11-25 server/tools: -32602)."""
    return InvalidParams(f"unknown {noun}: {name[:EXCERPT]!r}")


def _in_session(error: RPCError, uri: str, request: RequestContext) -> RPCError:
    """Return what a session is told of a resource that a server does not have.

    2026-07-28 server/resources, "Error Handling": -32602 with the URI, which sessions
    know as -32002.
    """
    data = error.data
    is_missing = type(data) is dict and type(data.get("uri")) is str
    if request.session is None or error.code == NOT_FOUND or not is_missing:
        return error
    return ResourceNotFound(error.message, data={**data, "uri": uri})


def _no_resource(uri: str) -> RPCError:
    return ResourceNotFound(
        f"there is no resource {uri[:EXCERPT]!r}", data={"uri": uri}
    )
