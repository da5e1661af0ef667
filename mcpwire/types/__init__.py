"""The wire types of all five revisions, and the codec between them and JSON.

One class for each of the specification's types, as one superset: a field that a
revision lacks is absent there. Importing this package imports none of the types; each
module comes with the first of its names that is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.types._base import UNSET, Json, JsonObject, Unset, WireType
    from mcpwire.types._wire import decode, decoder, encode, encoder
    from mcpwire.types.capabilities import (
        ClientCapabilities,
        ClientTaskRequests,
        ClientTasksCapability,
        ElicitationCapability,
        PromptsCapability,
        ResourcesCapability,
        RootsCapability,
        SamplingCapability,
        ServerCapabilities,
        ServerTaskRequests,
        ServerTasksCapability,
        ToolsCapability,
    )
    from mcpwire.types.content import (
        Annotations,
        AudioContent,
        BlobResourceContents,
        ContentBlock,
        EmbeddedResource,
        Icon,
        ImageContent,
        ResourceContents,
        ResourceLink,
        Role,
        TextContent,
        TextResourceContents,
        Theme,
        UnknownContent,
    )
    from mcpwire.types.lifecycle import (
        DiscoverResult,
        Implementation,
        InitializeRequestParams,
        InitializeResult,
    )
    from mcpwire.types.tools import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        TaskSupport,
        Tool,
        ToolAnnotations,
        ToolExecution,
    )

__all__ = [
    "UNSET",
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "CallToolRequestParams",
    "CallToolResult",
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "ContentBlock",
    "DiscoverResult",
    "ElicitationCapability",
    "EmbeddedResource",
    "Icon",
    "ImageContent",
    "Implementation",
    "InitializeRequestParams",
    "InitializeResult",
    "Json",
    "JsonObject",
    "ListToolsResult",
    "PromptsCapability",
    "ResourceContents",
    "ResourceLink",
    "ResourcesCapability",
    "Role",
    "RootsCapability",
    "SamplingCapability",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "TextContent",
    "TextResourceContents",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
    "ToolsCapability",
    "UnknownContent",
    "Unset",
    "WireType",
    "decode",
    "decoder",
    "encode",
    "encoder",
]

__all__ = [
    "UNSET",
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "CallToolRequestParams",
    "CallToolResult",
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "ContentBlock",
    "DiscoverResult",
    "ElicitationCapability",
    "EmbeddedResource",
    "Icon",
    "ImageContent",
    "Implementation",
    "InitializeRequestParams",
    "InitializeResult",
    "Json",
    "JsonObject",
    "ListToolsResult",
    "PromptsCapability",
    "ResourceContents",
    "ResourceLink",
    "ResourcesCapability",
    "Role",
    "RootsCapability",
    "SamplingCapability",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "TaskSupport",
    "TextContent",
    "TextResourceContents",
    "Theme",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
    "ToolsCapability",
    "UnknownContent",
    "Unset",
    "WireType",
    "decode",
    "decoder",
    "encode",
    "encoder",
]

_MODULES: Final = {
    "_base": (
        "UNSET",
        "Json",
        "JsonObject",
        "Unset",
        "WireType",
    ),
    "_wire": (
        "decode",
        "decoder",
        "encode",
        "encoder",
    ),
    "capabilities": (
        "ClientCapabilities",
        "ClientTaskRequests",
        "ClientTasksCapability",
        "ElicitationCapability",
        "PromptsCapability",
        "ResourcesCapability",
        "RootsCapability",
        "SamplingCapability",
        "ServerCapabilities",
        "ServerTaskRequests",
        "ServerTasksCapability",
        "ToolsCapability",
    ),
    "content": (
        "Annotations",
        "AudioContent",
        "BlobResourceContents",
        "ContentBlock",
        "EmbeddedResource",
        "Icon",
        "ImageContent",
        "ResourceContents",
        "ResourceLink",
        "Role",
        "TextContent",
        "TextResourceContents",
        "Theme",
        "UnknownContent",
    ),
    "lifecycle": (
        "DiscoverResult",
        "Implementation",
        "InitializeRequestParams",
        "InitializeResult",
    ),
    "tools": (
        "CallToolRequestParams",
        "CallToolResult",
        "ListToolsResult",
        "TaskSupport",
        "Tool",
        "ToolAnnotations",
        "ToolExecution",
    ),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module of a name on its first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Name everything, whether it is imported yet or not."""
    return sorted(__all__)
