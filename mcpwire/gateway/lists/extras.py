"""Resources and prompts as tools: what is asked of a server for one, and its result.

Which tools there are says `mcpwire.tools.extras`; here everything stays
plain dicts, as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams
from mcpwire.gateway.bridge import forward
from mcpwire.tools.extras import EXTRAS
from mcpwire.types import encode
from mcpwire.wire.json import encode as encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext

    Json = dict[str, Any]

__all__ = ["call_extra", "extras_of"]

_LISTS: Final = {"mcp_list_resources": "resources", "mcp_list_prompts": "prompts"}
"""Those that only show what the gateway knows already."""

_METHODS: Final = {
    "mcp_read_resource": ("resources/read", "uri"),
    "mcp_get_prompt": ("prompts/get", "name"),
}


def extras_of(upstream: Upstream, wanted: Collection[str]) -> list[Json]:
    """Return the tools that a server gets beside its own, of the kinds wanted."""
    return [
        encode(extra.tool)
        for extra in EXTRAS.values()
        if extra.needs in wanted and upstream.offers(extra.needs)
    ]


async def call_extra(
    upstream: Upstream,
    name: str,
    arguments: Any,
    request: RequestContext,
    upstreams: Upstreams,
) -> Json:
    """Answer the call of such a tool.

    Raises:
        RPCError: The arguments are none, or the server refused.
    """
    if arguments is None:
        arguments = {}
    if type(arguments) is not dict:
        raise InvalidParams("params.arguments must be an object")
    kind = _LISTS.get(name)
    if kind is not None:
        found = {kind: await upstreams.catalog.items_of(kind, upstream)}
        return {"content": [_text(found)], "structuredContent": found}
    method, key = _METHODS[name]
    if type(arguments.get(key)) is not str:
        raise InvalidParams(f"params.arguments.{key} must be a string")
    result: Json = await forward(upstream, method, dict(arguments), request, upstreams)
    if result.get("resultType", "complete") != "complete":
        return result
    return _RESULTS[method](result)


def _text(value: Any) -> Json:
    return {"type": "text", "text": encode_json(value).decode()}


def _read(result: Json) -> Json:
    contents = result.get("contents")
    blocks = [
        {"type": "text", "text": part["text"]}
        if type(part.get("text")) is str
        else {"type": "resource", "resource": part}
        for part in (contents if type(contents) is list else ())
        if type(part) is dict
    ]
    return {"content": blocks}


def _prompted(result: Json) -> Json:
    messages = result.get("messages")
    found = [m for m in (messages if type(messages) is list else ()) if type(m) is dict]
    return {
        "content": [m["content"] for m in found if type(m.get("content")) is dict],
        "structuredContent": {"messages": found},
    }


_RESULTS: Final[dict[str, Callable[[Json], Json]]] = {
    "resources/read": _read,
    "prompts/get": _prompted,
}
