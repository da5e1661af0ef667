"""Resources and prompts as tools, for models that only know tools.

Each server that can do it gets up to four: they are named like tools of its own, by the
same policy, and are subject to the same rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.types import (
    CallToolResult,
    EmbeddedResource,
    TextContent,
    Tool,
    ToolAnnotations,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.types import ContentBlock, GetPromptResult, ReadResourceResult

__all__ = ["EXTRAS", "Extra", "extra_tools"]


@attrs.frozen
class Extra:
    """A tool that is a request of another kind."""

    needs: str
    """The capability of the server that it needs: resources or prompts."""

    tool: Tool
    verb: str
    """The client's method."""

    parameters: tuple[str, ...]
    """The arguments that the method takes, in its order."""

    result: Callable[[Any], CallToolResult]
    """What its answer is as the result of a tool."""


def _tool(
    name: str, description: str, properties: dict[str, Any], required: list[str]
) -> Tool:
    return Tool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(read_only_hint=True),
    )


def _listed(key: str) -> Callable[[list[Any]], CallToolResult]:
    def result(items: list[Any]) -> CallToolResult:
        import json

        found = {key: [encode(item) for item in items]}
        return CallToolResult(
            content=[TextContent(json.dumps(found, ensure_ascii=False))],
            structured_content=found,
        )

    return result


def _read(answer: ReadResourceResult) -> CallToolResult:
    return CallToolResult(content=[_block(part) for part in answer.contents])


def _block(part: Any) -> ContentBlock:
    text = getattr(part, "text", None)
    return EmbeddedResource(part) if text is None else TextContent(text)


def _prompted(answer: GetPromptResult) -> CallToolResult:
    return CallToolResult(
        content=[message.content for message in answer.messages],
        structured_content={"messages": [encode(each) for each in answer.messages]},
    )


EXTRAS: Final[Mapping[str, Extra]] = {
    extra.tool.name: extra
    for extra in (
        Extra(
            "resources",
            _tool("mcp_list_resources", "List the resources of this server.", {}, []),
            "list_resources",
            (),
            _listed("resources"),
        ),
        Extra(
            "resources",
            _tool(
                "mcp_read_resource",
                "Read one resource of this server.",
                {"uri": {"type": "string", "description": "The resource's URI."}},
                ["uri"],
            ),
            "read_resource",
            ("uri",),
            _read,
        ),
        Extra(
            "prompts",
            _tool("mcp_list_prompts", "List the prompts of this server.", {}, []),
            "list_prompts",
            (),
            _listed("prompts"),
        ),
        Extra(
            "prompts",
            _tool(
                "mcp_get_prompt",
                "Get one prompt of this server, filled in.",
                {
                    "name": {"type": "string", "description": "The prompt's name."},
                    "arguments": {
                        "type": "object",
                        "description": "What to fill in; each value is text.",
                        "additionalProperties": {"type": "string"},
                    },
                },
                ["name"],
            ),
            "get_prompt",
            ("name", "arguments"),
            _prompted,
        ),
    )
}
"""By the name that stands for a tool's own."""


def extra_tools(capabilities: Any, wanted: frozenset[str]) -> list[Tool]:
    """Return what a server of these capabilities has, of the kinds that are wanted."""
    return [
        extra.tool
        for extra in EXTRAS.values()
        if extra.needs in wanted
        and getattr(capabilities, extra.needs, None) is not None
    ]
