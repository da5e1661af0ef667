"""Results of a correct server: its tools, resources and prompts, in each revision."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.subject import META
from mcpwire.errors import RPCError
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from mcpwire.check.clients.subject import ClientSubject

SERVER_INFO: Final = {"name": "mcpwire-check", "version": "1"}
CAPABILITIES: Final[dict[str, Any]] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
RESOURCE: Final = "check://text"

ECHO: Final[dict[str, Any]] = {
    "name": "echo",
    "description": "Returns the text.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}
ADD: Final[dict[str, Any]] = {
    "name": "add",
    "description": "Returns the sum of two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}


def text_result(text: str) -> dict[str, Any]:
    """Return a tool's result with one text."""
    return {"content": [{"type": "text", "text": text}]}


def correct_result(client: ClientSubject, method: str, params: dict[str, Any]) -> Any:
    """Return the result of a correct server.

    Raises:
        RPCError: A correct server answers with this error.
    """
    if client.is_stateless:
        result = _stateless_result(client, method, params)
        cache = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHED else {}
        meta = {"_meta": {META + "serverInfo": SERVER_INFO}}
        return {"resultType": "complete", **cache, **meta, **result}
    return _session_result(client, method, params)


_CACHED: Final = frozenset(
    {
        *("server/discover", "tools/list", "prompts/list"),
        *("resources/list", "resources/templates/list", "resources/read"),
    }
)


def _stateless_result(
    client: ClientSubject, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    version = client.revision.name
    meta = params.get("_meta")
    requested = meta.get(META + "protocolVersion") if isinstance(meta, dict) else None
    if method == "initialize" or requested != version:
        requested = requested or params.get("protocolVersion")
        raise RPCError(
            f"unsupported protocol version, supported: {version}",
            code=-32022,
            data={"supported": [version], "requested": str(requested)},
        )
    if method == "server/discover":
        return {"supportedVersions": [version], **_declared(client)}
    if method == "subscriptions/listen":
        return {}
    return _list_or_call(method, params)


def _session_result(
    client: ClientSubject, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    if method == "initialize":
        version = client.revision.name
        info = {"serverInfo": SERVER_INFO}
        return {"protocolVersion": version, **info, **_declared(client)}
    if method in {
        *("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
    }:
        return {}
    return _list_or_call(method, params)


def _declared(client: ClientSubject) -> dict[str, Any]:
    declared = CAPABILITIES if client.capabilities is None else client.capabilities
    if client.revision < REVISIONS[1]:  # later than 2024-11-05
        declared = {k: v for k, v in declared.items() if k != "completions"}
    return {"capabilities": declared}


RESULTS: Final[dict[str, dict[str, Any]]] = {
    "tools/list": {"tools": [ECHO, ADD]},
    "resources/list": {"resources": [{"uri": RESOURCE, "name": "text"}]},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "check://items/{id}", "name": "item"}]
    },
    "prompts/list": {"prompts": [{"name": "greeting"}]},
    "prompts/get": {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Say hello."}}
        ]
    },
    "completion/complete": {"completion": {"values": []}},
}


def _list_or_call(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "tools/call":
        return _call(params)
    if method == "resources/read":
        return {"contents": [{"uri": params.get("uri"), "text": "mcpwire"}]}
    if method not in RESULTS:
        raise RPCError(f"method not found: {method}", code=-32601)
    return deepcopy(RESULTS[method])  # cases change it


def _call(params: dict[str, Any]) -> dict[str, Any]:
    arguments = params.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise RPCError("arguments must be an object", code=-32602)
    if params.get("name") == "add":
        terms = arguments.get("a", 0), arguments.get("b", 0)
        if not all(isinstance(term, (int, float)) for term in terms):
            raise RPCError("a and b must be numbers", code=-32602)
        return text_result(str(sum(terms)))
    if params.get("name") == "echo":
        return text_result(str(arguments.get("text")))
    raise RPCError(f"unknown tool {params.get('name')!r}", code=-32602)
