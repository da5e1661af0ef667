"""What an author gives for a conversation, as the wire types have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.types import SamplingMessage, TextContent, WireType, decode

__all__ = ["Prompt", "as_messages", "as_type"]

Prompt: TypeAlias = "str | Mapping[str, Any] | WireType | Sequence[Any]"
"""A text, a `SamplingMessage`, a content block, either as a dict, or a list of them."""

T = TypeVar("T", bound=WireType)


def as_messages(prompt: Any) -> list[SamplingMessage]:
    """Return the messages that a prompt stands for; what has no role is the user's.

    Raises:
        LocalProtocolError: It is no conversation; says where.
    """
    items = prompt if isinstance(prompt, (list, tuple)) else [prompt]
    if not items:
        raise LocalProtocolError("sampling: there must be a message")
    return [_as_message(item) for item in items]


def _as_message(item: Any) -> SamplingMessage:
    if isinstance(item, SamplingMessage):
        return item
    if isinstance(item, str):
        return SamplingMessage("user", TextContent(item))
    if isinstance(item, WireType):
        return SamplingMessage("user", item)  # type: ignore[arg-type]  # which blocks there are is checked when the question is made
    if isinstance(item, Mapping):
        members = dict(item)
        if "role" not in members:
            members = {"role": "user", "content": members}
        return as_type(SamplingMessage, members)
    raise LocalProtocolError(
        f"sampling: expected a text, a message or a content block, "
        f"got {type(item).__name__}"
    )


def as_type(cls: type[T], value: Any) -> T:
    """Return a value of a wire type, which may be given as a dict.

    Raises:
        LocalProtocolError: It is no such value; says where.
    """
    if isinstance(value, cls):
        return value
    try:
        return decode(cls, value)
    except InvalidMessage as error:
        raise LocalProtocolError(f"sampling: {error}") from error
