"""Heads of requests and answers as text for somebody to read, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.protocol.http_reply import Request

__all__ = ["describe_request", "describe_response"]

HIDDEN: Final = "***"

SHOWN: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "access-control-allow-origin",
        "allow",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "host",
        "keep-alive",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "retry-after",
        "server",
        "transfer-encoding",
        "user-agent",
        "vary",
        "www-authenticate",
        "x-powered-by",
    }
)
"""Fields whose values are no secrets; those of all others are hidden."""

VALUE_CHARACTERS: Final = 400


def describe_request(request: Request) -> str:
    """Return a request's head, a line each."""
    from mcpwire.wire.urls import mask_url

    lines = [f"{request.verb} {mask_url(request.target)} HTTP/1.1"]
    return "\n".join([*lines, *_lines(request.fields)])


def describe_response(status: int, fields: Mapping[bytes, bytes]) -> str:
    """Return an answer's head, a line each."""
    return "\n".join([f"HTTP {status}", *_lines(fields.items())])


def _lines(fields: Iterable[tuple[bytes, bytes]]) -> list[str]:
    lines = []
    for raw_name, raw_value in fields:
        name = raw_name.decode("latin-1").lower()
        value = HIDDEN
        if name in SHOWN:
            value = raw_value.decode("latin-1")[:VALUE_CHARACTERS]
        lines.append(f"{name}: {value}")
    return lines
