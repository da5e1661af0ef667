"""Tools: their descriptions, their calls, their results."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)

import attrs

from mcpwire.types._base import (
    UNSET,
    ListResult,
    RequestParams,
    Result,
    WireObject,
    WithMeta,
)

if TYPE_CHECKING:
    from mcpwire.types._base import Json, JsonObject, Spec, Title
    from mcpwire.types.content import ContentBlock, Icon
    from mcpwire.types.elicitation import InputResponses
    from mcpwire.types.tasks import TaskMetadata

T = TypeVar("T")

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether calls of a tool may be tasks."""


class ToolAnnotations(WireObject):
    """Hints on the effects of a tool; to be trusted only if the server is."""

    title: str | None = None
    read_only_hint: bool | None = None
    """Whether it changes nothing; absent means it may."""

    destructive_hint: bool | None = None
    """Whether what it changes may be lost; absent means so."""

    idempotent_hint: bool | None = None
    """Whether calling it again changes nothing more; absent means it may."""

    open_world_hint: bool | None = None
    """Whether it reaches beyond a closed domain; absent means so."""


class ToolExecution(WireObject):
    """The ways to run a tool (2025-11-25 only)."""

    task_support: TaskSupport | str | None = None
    """Whether calls may, must or must not be tasks; absent means not."""


class Tool(WithMeta):
    """A tool of a server."""

    name: str
    input_schema: Annotated[JsonObject, Spec(required=True)] = attrs.field(
        factory=lambda: {"type": "object"}
    )
    """The JSON Schema of the arguments, with every keyword as it came."""

    title: Title = None
    description: str | None = None
    annotations: Annotated[ToolAnnotations | None, Spec("2025-03-26")] = None
    output_schema: Annotated[JsonObject | None, Spec("2025-06-18")] = None
    """The JSON Schema of `CallToolResult.structured_content`."""

    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None
    execution: Annotated[
        ToolExecution | None, Spec("2025-11-25", until="2025-11-25")
    ] = None

    @property
    def display_name(self) -> str:
        """The name to show to people."""
        # 2026-07-28 schema, Tool: title, then annotations.title, then name.
        hint = self.annotations.title if self.annotations else None
        return self.title or hint or self.name


class ListToolsResult(ListResult):
    """One page of a server's tools."""

    tools: list[Tool]


class CallToolRequestParams(RequestParams):
    """Parameters of `tools/call`."""

    name: str
    arguments: JsonObject | None = None
    input_responses: Annotated[InputResponses | None, Spec("2026-07-28")] = None
    request_state: Annotated[str | None, Spec("2026-07-28")] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None


class CallToolResult(Result):
    """The result of `tools/call`."""

    content: Annotated[list[ContentBlock], Spec(required=True)] = attrs.field(
        factory=list
    )
    structured_content: Annotated[Json, Spec("2025-06-18")] = UNSET
    """The result as data; `UNSET` when there is none, as ``None`` is a value."""

    is_error: bool = False

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        from mcpwire.types.content import TextContent

        return "\n".join(
            block.text for block in self.content if type(block) is TextContent
        )

    @overload
    def as_(self, kind: type[T]) -> T: ...

    @overload
    def as_(self, kind: Any) -> Any: ...

    def as_(self, kind: Any) -> Any:
        """Make the caller's own type from the structured content.

        The type may be a dataclass, an attrs class, a TypedDict, a pydantic model, a
        msgspec struct, or anything that these are built of.

        Raises:
            ToolError: The tool reported failure.
            InvalidMessage: There is no structured content, or it does not fit.
            TypeError: The type is none that can be made from JSON.
        """
        from mcpwire.types._convert import convert_result

        return convert_result(self.raise_for_error(), kind)

    def raise_for_error(self) -> Self:
        """Return the result itself.

        Raises:
            ToolError: The tool reported failure; the error carries the result, and
                ``str`` shows the first 2,000 characters of its text.
        """
        if self.is_error:
            from mcpwire.errors import MESSAGE_SHOWN, ToolError, shorten

            said = shorten(self.text, MESSAGE_SHOWN) or "the tool gave no reason"
            raise ToolError(said, result=self)
        return self
