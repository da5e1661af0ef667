"""Decode and encode wire types with code that is compiled on first use.

::

    decode(cls, value) ── compiled decoder ──> instance
                               │ Refused
                               └── explain (slow, knows the path) ──> InvalidMessage

Each type has up to two decoders: the outermost one explains what is wrong, and the
nested one only says that something is. `spec` reads what both do from the classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.errors import InvalidMessage
from mcpwire.types._codec.decoders import compile_decoder
from mcpwire.types._codec.encoders import compile_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.types._codec.base import Json, JsonObject, WireType
    from mcpwire.versions import Revision

__all__ = ["decode", "decode_repaired", "decoder", "encode", "encoder"]

T = TypeVar("T", bound="WireType")


def _explain_decoding(cls: type[WireType], value: Json) -> Exception:
    from mcpwire.types._codec.explain import explain_decoding

    return explain_decoding(cls, value)


def _explain_encoding(value: Any, symptom: Exception) -> None:
    from mcpwire.types._codec.explain import explain_encoding

    explain_encoding(value, symptom)


class _Cache(dict[Any, Any]):
    """Functions by what they are for, compiled when first asked for."""

    def __init__(self, compile_one: Callable[[Any], Any]) -> None:
        super().__init__()
        self._compile_one = compile_one

    def __missing__(self, key: Any) -> Any:
        """Compile the function and keep it."""
        function = self[key] = self._compile_one(key)
        return function


def _encoders_inside(
    revision: str | None,
) -> Callable[[type[WireType]], Callable[[Any], JsonObject]]:
    return lambda cls: _nested_encoders[cls, revision]


_nested_decoders: Final[_Cache] = _Cache(
    lambda cls: compile_decoder(cls, _nested_decoders.__getitem__)
)
_decoders: Final = _Cache(
    lambda cls: compile_decoder(
        cls, _nested_decoders.__getitem__, explain=_explain_decoding
    )
)
_nested_encoders: Final = _Cache(
    lambda key: compile_encoder(key[0], _encoders_inside(key[1]), key[1])
)
_encoders: Final = _Cache(
    lambda key: compile_encoder(
        key[0], _encoders_inside(key[1]), key[1], _explain_encoding
    )
)


def decoder(cls: type[T]) -> Callable[[Json], T]:
    """Return the function that decodes a type, compiled once; call it on JSON values.

    The function raises `InvalidMessage`, as `decode` does.
    """
    return _decoders[cls]  # type: ignore[no-any-return]  # the table is shared by all types


def decode(cls: type[T], value: Json) -> T:
    """Make a wire type from a decoded JSON value.

    Open objects, leaves and `raw` are shared with the value, not copied.

    Raises:
        InvalidMessage: The value breaks the type's specification; `path` says where.
    """
    return _decoders[cls](value)  # type: ignore[no-any-return]  # the table is shared by all types


def decode_repaired(cls: type[T], value: JsonObject) -> tuple[T, list[str]]:
    """Decode a value without those malformed members that the table lets be lost.

    Returns the instance, which keeps the value itself as `raw`, and the paths of what
    was left out.

    Raises:
        InvalidMessage: The value breaks the type's specification elsewhere.
    """
    try:
        return decode(cls, value), []
    except InvalidMessage:
        from mcpwire.types._codec.repair import without_malformed

        kept, lost = without_malformed(cls, value)
        if not lost:
            raise
    result: Any = decode(cls, kept)
    result.raw = value
    return result, lost


def encoder(
    cls: type[T], revision: Revision | None = None
) -> Callable[[T], JsonObject]:
    """Return the function that encodes a type, compiled once.

    With a revision it leaves out the fields that the revision does not have.
    """
    name = None if revision is None else revision.name
    return _encoders[cls, name]  # type: ignore[no-any-return]  # the table is shared by all types


def encode(value: WireType, revision: Revision | None = None) -> JsonObject:
    """Make the JSON object of a wire type; absent fields are left out, never null.

    Open objects and leaves are shared with the value, not copied.

    Raises:
        LocalProtocolError: A field holds something that is not the wire type it asks
            for. Leaves are not checked here but when the message is written.
    """
    name = None if revision is None else revision.name
    return _encoders[type(value), name](value)  # type: ignore[no-any-return]  # the table is shared by all types
