"""One question of a server, decoded and ready for its handler, and its answer's check.

::

    raw params ── decode_params ──> argument ──> the handler ──> value
                                                                   │ finish
    raw answer <── encode_answer ──────────────────────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from mcpwire.errors import InvalidMessage, InvalidParams, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.types import JsonObject, WireType
    from mcpwire.versions import Revision

    T = TypeVar("T", bound=WireType)

__all__ = ["Question", "decode_params", "encode_answer", "excerpt"]

_EXCERPT_CHARACTERS: Final = 40


@attrs.frozen
class Question:
    """What is left to do: call the handler, await what it returns, finish."""

    handler: Callable[[Any], Any] | None
    """Takes `argument`; plain or async. ``None``: nobody is asked."""

    argument: Any = attrs.field(repr=False)
    """The typed params, for the handler; what was asked belongs in no log."""

    finish: Callable[[Any], dict[str, Any]] = attrs.field(repr=False)
    """Makes the raw answer of what the handler returned.

    Raises `LocalProtocolError`, naming field and rule, for what must not be sent.
    """


def decode_params(cls: type[T], params: JsonObject | None, method: str) -> T:
    """Make the typed params of a question.

    Raises:
        InvalidParams: They break the type's specification; says where.
    """
    from mcpwire.types import decode

    try:
        return decode(cls, params)
    except InvalidMessage as error:
        raise InvalidParams(str(error), method=method) from error


def encode_answer(value: WireType, revision: Revision, what: str) -> JsonObject:
    """Make the raw answer, and read it as the server will.

    Encoding looks at structure only; a handler's ``model=None`` shows when the answer
    is decoded again.

    Raises:
        LocalProtocolError: It breaks the type's specification; says where.
    """
    from mcpwire.types import decode, encode

    answer = encode(value, revision)
    try:
        decode(type(value), answer)
    except InvalidMessage as error:
        raise LocalProtocolError(f"{what}: {error}") from error
    return answer


def excerpt(value: object) -> str:
    """Return a short `repr` for a sentence about a value of unknown size."""
    if isinstance(value, str):
        is_short = len(value) <= _EXCERPT_CHARACTERS
        return repr(value if is_short else value[:_EXCERPT_CHARACTERS] + "…")
    if value is None or isinstance(value, (bool, int, float)):
        text = repr(value)
        return text if len(text) <= _EXCERPT_CHARACTERS else f"a huge {_kind(value)}"
    return f"a value of type {_kind(value)}"


def _kind(value: object) -> str:
    return type(value).__name__
