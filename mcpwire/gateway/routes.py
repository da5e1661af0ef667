"""Handlers of the gateway by method: find a request's server, and the params for it.

Requests and results stay plain dicts. In a request the name or URI is replaced, and a
transform changes arguments; in a result, URIs are replaced by aliases.
"""

from __future__ import annotations

import math
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams, LocalProtocolError, ResourceNotFound, RPCError
from mcpwire.gateway.catalog import KINDS, call_extra
from mcpwire.gateway.forwarding import forward
from mcpwire.gateway.merging import CAPABILITIES, has_links, replace_links, replace_uris
from mcpwire.gateway.plan import Static
from mcpwire.gateway.subscriptions import listen, set_level, subscribe, unsubscribe
from mcpwire.gateway.tasks import TASK_CAPABILITIES, task_handlers
from mcpwire.protocol.json_schema import session_tool
from mcpwire.server.authoring.results import adapt_block
from mcpwire.server.components import page_of
from mcpwire.server.request import EXCERPT, member_of
from mcpwire.server.resources import not_found
from mcpwire.tools.transforms import check_arguments, remove_arguments
from mcpwire.versions import LATEST_SESSION

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcpwire.gateway.tasks import RouteHandler
    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext
    from mcpwire.tools.transforms import ToolTransform

    Json = dict[str, Any]

SERVED: Final = {**CAPABILITIES, **TASK_CAPABILITIES}
"""`CAPABILITIES` with tasks, which a client gets if a server has them."""

_NOT_FOUND: Final = frozenset({ResourceNotFound.default_code, -32602})
"""The error codes of servers for an unknown resource."""


def routes() -> dict[str, RouteHandler]:
    """Return the handlers by method."""
    return {
        **{each.method: partial(_list, kind) for kind, each in KINDS.items()},
        "tools/call": _call_tool,
        "prompts/get": _get_prompt,
        "resources/read": _read_resource,
        "resources/subscribe": _subscribe,
        "resources/unsubscribe": unsubscribe,
        "completion/complete": _complete,
        "logging/setLevel": set_level,
        "subscriptions/listen": listen,
        **task_handlers(),
    }


async def _list(
    kind: str, params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    """Return a page of a merged list, or of the part of the server to list."""
    _, _, key, name = KINDS[kind]
    cursor = params.get("cursor")
    merged, seconds = await upstreams.catalog.get_current(kind, renew=cursor is None)
    listing = getattr(upstreams.gateway.source, "listing", None)
    selected = None if listing is None else listing(request.info)
    if selected is not None:
        servers = {
            planned.name
            for planned in upstreams.plan.servers
            if selected in {planned.name, getattr(planned.target, "url", None)}
        }
        merged = merged.only(servers, name)
    page, following = page_of(
        merged.items,
        cursor,
        size=upstreams.gateway.page_size,
        name=key,
        key=itemgetter(name),
    )
    if request.session is not None:
        page = [session_tool(item) for item in page]
    result: Json = {key: page, **merged.hints, **following}
    if seconds < math.inf:
        result["ttlMs"] = min(result["ttlMs"], max(0, round(seconds * 1000)))
    return _limit_scope(result, upstreams)


def _limit_scope(result: Json, upstreams: Upstreams) -> Json:
    """Return a result that is public only if all clients have the same servers."""
    source = upstreams.gateway.source
    if result.get("cacheScope") == "public" and not isinstance(source, Static):
        return {**result, "cacheScope": "private"}
    return result


async def _call_tool(
    params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    name = member_of(params, "name", str)
    upstream, raw = await _find_owner("tool", name, upstreams)
    tools = upstreams.catalog.known["tools"]
    params = _transform_call(params, tools.transforms.get(name), upstream)
    if name in tools.extras:
        arguments = params.get("arguments")
        result = await call_extra(upstream, raw, arguments, request)
    else:
        params = {**params, "name": raw}
        result = await forward(upstream, "tools/call", params, request)
    if has_links(result):
        aliases = await upstreams.catalog.aliases_of(upstream.name)
        result = replace_links(result, aliases)
    if request.session is not None and request.revision is not LATEST_SESSION:
        content = result.get("content")
        if type(content) is list:
            fitted = [
                adapt_block(block, request.revision) if type(block) is dict else block
                for block in content
            ]
            result = {**result, "content": fitted}
    delegate = upstreams.gateway.delegate
    if delegate is not None:
        result = await delegate.splice(result, request)
    return result


def _transform_call(
    params: Json, transform: ToolTransform | None, upstream: Upstream
) -> Json:
    """Return a call's params, with the tool's transform and server's rules applied."""
    strip = upstream.planned.rules.strip_arguments
    if transform is None and not strip:
        return params
    try:
        arguments = remove_arguments(check_arguments(params.get("arguments")), strip)
        if transform is not None:
            arguments = transform.server_arguments(arguments)
    except LocalProtocolError as error:
        raise InvalidParams(str(error)) from error
    if arguments is None:
        return params
    return {**params, "arguments": arguments}


async def _get_prompt(
    params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    name = member_of(params, "name", str)
    upstream, raw = await _find_owner("prompt", name, upstreams)
    params = {**params, "name": raw}
    result = await forward(upstream, "prompts/get", params, request)
    messages = result.get("messages")
    for message in messages if type(messages) is list else ():
        content = message.get("content") if type(message) is dict else None
        if type(content) is dict:
            message["content"] = adapt_block(content, request.revision)
    return result


async def _read_resource(
    params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    def read(upstream: Upstream, raw: str) -> Awaitable[Json]:
        return forward(upstream, "resources/read", {**params, "uri": raw}, request)

    uri = member_of(params, "uri", str)
    upstream, result = await _at_owner(uri, read, request, upstreams)
    # The contents get the URIs that the client knows.
    aliases = await upstreams.catalog.aliases_of(upstream.name)
    return _limit_scope(replace_uris(result, "contents", aliases), upstreams)


async def _at_owner(
    uri: str, send: Any, request: RequestContext, upstreams: Upstreams
) -> tuple[Upstream, Any]:
    """Return the first server that has a resource, and its result."""
    refusal: RPCError = not_found(uri)
    for upstream, raw in await upstreams.catalog.owners_of_uri(uri):
        try:
            return upstream, await send(upstream, raw)
        except RPCError as error:
            if error.code not in _NOT_FOUND:
                raise
            refusal = _convert_not_found(error, uri, request)
    raise refusal


def _convert_not_found(error: RPCError, uri: str, request: RequestContext) -> RPCError:
    """Return the error for an unknown resource in the form of the client's era.

    2026-07-28 server/resources, "Error Handling": -32602 with the URI, which is -32002
    in sessions.
    """
    data = error.data
    is_missing = type(data) is dict and type(data.get("uri")) is str
    is_same = error.code == ResourceNotFound.default_code
    if request.session is None or is_same or not is_missing:
        return error
    return ResourceNotFound(error.message, data={**data, "uri": uri})


async def _subscribe(
    params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    uri = member_of(params, "uri", str)
    send = partial(subscribe, public=uri, request=request)
    await _at_owner(uri, send, request, upstreams)
    return {}


async def _complete(
    params: Json, request: RequestContext, upstreams: Upstreams
) -> Json:
    ref = member_of(params, "ref", dict)
    if ref.get("type") == "ref/prompt":
        key = "name"
        upstream, raw = await _find_owner("prompt", member_of(ref, key, str), upstreams)
    elif ref.get("type") == "ref/resource":
        key = "uri"
        uri = member_of(ref, key, str)
        owner = (await upstreams.catalog.get("templates")).owners.get(uri)
        if owner is not None:
            upstream, raw = upstreams.members[owner[0]], owner[1]
        elif owners := await upstreams.catalog.owners_of_uri(uri):
            upstream, raw = owners[0]
        else:
            raise not_found(uri)
    else:
        raise InvalidParams("params.ref.type must be ref/prompt or ref/resource")
    # 2024-11-05 has completion without a capability for it.
    revision = upstream.revision
    is_undeclared = revision is not None and revision.name == "2024-11-05"
    if not (is_undeclared or upstream.offers("completions")):
        return {"completion": {"values": []}}
    params = {**params, "ref": {**ref, key: raw}}
    return await forward(upstream, "completion/complete", params, request)


async def _find_owner(
    noun: str, name: str, upstreams: Upstreams
) -> tuple[Upstream, str]:
    """Return the server of a tool or prompt, and its name there.

    Raises:
        InvalidParams: No server has it (2025-11-25 server/tools: -32602).
    """
    owner = await upstreams.catalog.owner_of(f"{noun}s", name)
    if owner is None:
        raise InvalidParams(f"unknown {noun}: {name[:EXCERPT]!r}")
    return owner
