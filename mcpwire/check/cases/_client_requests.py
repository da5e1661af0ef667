"""Helpers for server requests to the client: tools that send them, and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.roles import arguments_for, call_params, is_named_like

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.check.subject import Subject

ALL_CAPABILITIES: Final[dict[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
INPUT_METHODS: Final = frozenset(
    {"elicitation/create", "sampling/createMessage", "roots/list"}
)


def calls_requesting_input(subject: Subject) -> list[dict[str, Any]]:
    """Return call params of the callable tools that send requests to the client."""
    role = subject.facts.roles.get("ask")
    return [
        call_params(tool)
        for tool in subject.facts.callable_tools
        if tool is role or is_named_like(tool, "ask")
        if arguments_for(tool) is not None
    ]


def client_result(
    method: str, params: Mapping[str, Any], action: str = "accept"
) -> dict[str, Any]:
    """Return a valid client result for a server request."""
    if method == "roots/list":
        return {"roots": [{"uri": "file:///mcpwire-check", "name": "check"}]}
    if method == "sampling/createMessage":
        return {
            "role": "assistant",
            "content": {"type": "text", "text": "mcpwire"},
            "model": "mcpwire-check",
            "stopReason": "endTurn",
        }
    if action != "accept" or params.get("mode") == "url":
        return {"action": action}
    content = arguments_for({"inputSchema": params.get("requestedSchema")})
    return {"action": "accept", "content": content or {}}


def set_request_handlers(subject: Subject, action: str = "accept") -> None:
    """Set handlers for all server requests on a connection."""
    for method in INPUT_METHODS:
        subject.request_handlers[method] = lambda params, method=method: client_result(  # type: ignore[misc]
            method, params, action
        )
