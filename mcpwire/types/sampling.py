"""Sampling: requests of a server for messages of the client's model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import UNSET, BareResult, PlainParams, WireObject
from mcpwire.types.content import (
    AudioContent,
    ImageContent,
    TextContent,
    UnknownContent,
)

if TYPE_CHECKING:
    from mcpwire.types._base import Json, JsonObject, Meta, Spec
    from mcpwire.types.content import ContentBlock, Role
    from mcpwire.types.tasks import TaskMetadata
    from mcpwire.types.tools import Tool

IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
"""The MCP servers from which the client should add context."""

ToolChoiceMode: TypeAlias = Literal["auto", "required", "none"]
"""Whether the model may, must or must not use tools."""


class ToolUseContent(PlainParams):
    """A model's request to call a tool (since 2025-11-25)."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    """The id of the call, for the `tool_use_id` of its result."""

    name: str
    input: JsonObject


class ToolResultContent(PlainParams):
    """The result of a model's tool call (since 2025-11-25)."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    content: Annotated[list[ContentBlock], Spec(required=True)] = attrs.field(
        factory=list
    )
    structured_content: Json = UNSET
    """The result as any JSON value, ``None`` included; `UNSET` if absent."""

    is_error: bool | None = None


SamplingContent: TypeAlias = (
    TextContent
    | ImageContent
    | AudioContent
    | ToolUseContent
    | ToolResultContent
    | UnknownContent
)
"""One part of a sampling message."""


class SamplingMessage(WireObject):
    """One message to or from a model."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    """One block, or since 2025-11-25 several."""

    meta: Annotated[Meta, Spec("2025-11-25")] = None

    @property
    def blocks(self) -> list[SamplingContent]:
        """The content as a list, also if it is a single block."""
        return self.content if isinstance(self.content, list) else [self.content]


class ModelHint(WireObject):
    """A preferred model: part of the name of the model or its family."""

    name: str | None = None


class ModelPreferences(WireObject):
    """A server's preferences for the model; priorities range from 0 to 1."""

    hints: list[ModelHint] | None = None
    """Hints in order of preference; the first match counts."""

    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(WireObject):
    """The use of tools that the server requests."""

    mode: ToolChoiceMode | str | None = None


class CreateMessageRequestParams(WireObject):
    """Parameters of `sampling/createMessage`."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: IncludeContext | str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: JsonObject | None = None
    """Data for the provider of the model."""

    tools: Annotated[list[Tool] | None, Spec("2025-11-25")] = None
    tool_choice: Annotated[ToolChoice | None, Spec("2025-11-25")] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None
    meta: Annotated[Meta, Spec(until="2025-11-25")] = None


class CreateMessageResult(BareResult):
    """The result of `sampling/createMessage`: a message of the model."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    """One block, or since 2025-11-25 several."""

    model: str
    stop_reason: str | None = None
    """Such as ``endTurn``, ``stopSequence``, ``maxTokens`` or ``toolUse``."""

    @property
    def blocks(self) -> list[SamplingContent]:
        """The content as a list, also if it is a single block."""
        return self.content if isinstance(self.content, list) else [self.content]

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(
            block.text for block in self.blocks if isinstance(block, TextContent)
        )
