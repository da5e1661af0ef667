"""Prompts: templates for messages that a server offers to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs

from mcpwire.types._base import WireType

if TYPE_CHECKING:
    from mcpwire.types._base import (
        CacheScope,
        Extra,
        Meta,
        MetaOfTypes,
        Raw,
        RequestMeta,
        ResultType,
        Spec,
        Title,
        TtlMs,
    )
    from mcpwire.types.content import ContentBlock, Icon, Role
    from mcpwire.types.input import InputResponses

__all__ = [
    "GetPromptRequestParams",
    "GetPromptResult",
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
]


@attrs.define(repr=False, eq=False)
class PromptArgument(WireType):
    """An argument that a prompt takes; its value is text."""

    name: str
    title: Title = None
    description: str | None = None
    required: bool | None = None
    """Whether it must be given; absent means it need not."""

    extra: Extra = None


@attrs.define(repr=False, eq=False)
class Prompt(WireType):
    """A prompt that a server offers."""

    name: str
    title: Title = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None
    meta: MetaOfTypes = None
    extra: Extra = None

    @property
    def display_name(self) -> str:
        """The name to show to people."""
        return self.title or self.name


@attrs.define(repr=False, eq=False)
class PromptMessage(WireType):
    """One message of a prompt."""

    role: Role
    content: ContentBlock
    extra: Extra = None

    @property
    def text(self) -> str:
        """The text of the message, empty where it is something else."""
        from mcpwire.types.content import TextContent

        return self.content.text if isinstance(self.content, TextContent) else ""


@attrs.define(repr=False, eq=False)
class ListPromptsResult(WireType):
    """One page of a server's prompts."""

    prompts: list[Prompt]
    next_cursor: str | None = None
    """Where the next page starts; any string, even an empty one, means there is one."""

    ttl_ms: TtlMs = None
    cache_scope: CacheScope = None
    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class GetPromptRequestParams(WireType):
    """What a client sends to get a prompt's messages."""

    name: str
    arguments: dict[str, str] | None = None
    input_responses: Annotated[InputResponses | None, Spec("2026-07-28")] = None
    request_state: Annotated[str | None, Spec("2026-07-28")] = None
    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class GetPromptResult(WireType):
    """The messages of a prompt."""

    messages: list[PromptMessage]
    description: str | None = None
    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)
