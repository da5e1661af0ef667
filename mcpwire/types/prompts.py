"""Prompts: message templates that a server offers to users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mcpwire.types._base import ListResult, RequestParams, Result, WireObject, WithMeta

if TYPE_CHECKING:
    from mcpwire.types._base import Spec, Title
    from mcpwire.types.client_features import InputResponses
    from mcpwire.types.content import ContentBlock, Icon, Role


class PromptArgument(WireObject):
    """An argument of a prompt; its value is text."""

    name: str
    title: Title = None
    description: str | None = None
    required: bool | None = None
    """Whether the argument is required; absent means false."""


class Prompt(WithMeta):
    """A prompt of a server."""

    name: str
    title: Title = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None

    @property
    def display_name(self) -> str:
        """The name for display."""
        return self.title or self.name


class PromptMessage(WireObject):
    """One message of a prompt."""

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """The text of the message; empty if its content is not text."""
        from mcpwire.types.content import TextContent

        return self.content.text if isinstance(self.content, TextContent) else ""


class ListPromptsResult(ListResult):
    """One page of a server's prompts."""

    prompts: list[Prompt]


class GetPromptRequestParams(RequestParams):
    """Parameters of `prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None
    input_responses: Annotated[InputResponses | None, Spec("2026-07-28")] = None
    request_state: Annotated[str | None, Spec("2026-07-28")] = None


class GetPromptResult(Result):
    """The result of `prompts/get`: the messages of a prompt."""

    messages: list[PromptMessage]
    description: str | None = None
