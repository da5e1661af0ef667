"""What a server of either era checks in a request, and the rules for clients.

The functions named `of_*` yield complaints: what no client may do, whatever the server
is. `refusal` is the stateless server's ladder (2026-07-28 streamable-http, "Server
Validation"; the order is the conformance suite's).
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from raw_server import RawRequest

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
FIRST_MODERN: Final = "2026-07-28"
FIRST_WITH_HEADER: Final = "2025-06-18"

NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def is_modern(request: RawRequest) -> bool:
    """Tell whether a POST opens like one of 2026-07-28."""
    named = request.headers.get("mcp-protocol-version", "")
    return named >= FIRST_MODERN or VERSION_KEY in _meta(request.json)


def _meta(message: Any) -> dict[str, Any]:
    params = message.get("params") if isinstance(message, dict) else None
    return (params or {}).get("_meta") or {}


def of_any_post(request: RawRequest) -> Iterator[str]:
    """Yield violations of the rules for each POST."""
    accepted = request.headers.get("accept", "")
    for kind in ("application/json", "text/event-stream"):
        if kind not in accepted:
            yield f"{request}: Accept lacks {kind}: {accepted!r}"
    if request.headers.get("content-type") != "application/json":
        yield f"{request}: Content-Type is no JSON"
    if not isinstance(request.json, dict):
        yield f"{request}: not one message"


def of_initialize(request: RawRequest) -> Iterator[str]:
    """Yield header fields that an `initialize`, before any session, must not have."""
    for name in ("mcp-protocol-version", "mcp-session-id"):
        if name in request.headers:
            yield f"{request}: initialize with {name}"


def of_session(request: RawRequest, version: str) -> Iterator[str]:
    """Yield violations of the rules for every request of a session."""
    named = request.headers.get("mcp-protocol-version")
    if named != version and (named is not None or version >= FIRST_WITH_HEADER):
        yield f"{request}: MCP-Protocol-Version {named!r}, agreed was {version!r}"


def of_get(request: RawRequest) -> Iterator[str]:
    if "text/event-stream" not in request.headers.get("accept", ""):
        yield f"{request}: Accept lacks text/event-stream"


Refusal = tuple[int, dict[str, Any]]


def refusal(
    request: RawRequest,
    version: str,
    tools: list[dict[str, Any]],
    methods: Collection[str],
) -> Refusal | None:
    """Return status and error for a request that a stateless server must refuse."""
    named = request.headers.get("mcp-protocol-version")
    if not is_modern(request):
        return _unsupported(version, named)
    found = _of_envelope(request)
    if found is not None:
        return found
    if named != version:
        return _unsupported(version, named)
    if request.method not in methods:
        text = f"Method not found: {request.method}"
        return 404, {"code": -32601, "message": text}
    return _of_mirrored(request, tools)


def header_refusal(request: RawRequest, tools: list[dict[str, Any]]) -> Refusal | None:
    """Return status and error for headers that do not match the body."""
    return _of_envelope(request) or _of_mirrored(request, tools)


def _of_envelope(request: RawRequest) -> Refusal | None:
    meta = _meta(request.json)
    named = request.headers.get("mcp-protocol-version")
    must_be = {
        "MCP-Protocol-Version": meta.get(VERSION_KEY, named),
        "Mcp-Method": request.method,
    }
    for name, value in must_be.items():
        if request.headers.get(name.lower()) != value:
            return _mismatch(name)
    for key, kind in ((VERSION_KEY, str), (CAPABILITIES_KEY, dict)):
        if not isinstance(meta.get(key), kind):
            return 400, {"code": -32602, "message": f"missing _meta {key}"}
    return None


def _of_mirrored(request: RawRequest, tools: list[dict[str, Any]]) -> Refusal | None:
    method, params = request.method, request.json.get("params") or {}
    if method in NAMED_BY and decoded(request, "mcp-name") != params[NAMED_BY[method]]:
        return _mismatch("Mcp-Name")
    schema = next(
        (each["inputSchema"] for each in tools if each["name"] == params.get("name")),
        {},
    )
    for name, rules in schema.get("properties", {}).items():
        value = (params.get("arguments") or {}).get(name)
        header = rules.get("x-mcp-header")
        if header is None or value is None:
            continue
        if decoded(request, f"mcp-param-{header.lower()}") != str(value):
            return _mismatch(f"Mcp-Param-{header}")
    return None


def decoded(request: RawRequest, name: str) -> str | None:
    """Return the value of a header field, decoded if it is in Base64 form."""
    value = request.headers.get(name)
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _mismatch(name: str) -> Refusal:
    return 400, {"code": -32020, "message": f"Header mismatch: {name}"}


def _unsupported(version: str, named: str | None) -> Refusal:
    data = {"supported": [version], "requested": named or ""}
    return 400, {
        "code": -32022,
        "message": f"Unsupported protocol version, {version} is supported",
        "data": data,
    }
