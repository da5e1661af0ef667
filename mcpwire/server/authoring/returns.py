"""What a function returns: the schema of it, and data made of the value.

A hint that names data has a schema; one that names content, or nothing certain, has
none. What is no object is wrapped: up to 2025-11-25 structured content is an object.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpwire.server.authoring.content import Media
from mcpwire.server.authoring.explicit import validator_of
from mcpwire.server.authoring.hints.foreign import STRICT, plain, with_whole_numbers
from mcpwire.server.authoring.hints.schema import Schemas
from mcpwire.server.authoring.hints.translate import bare, members_of, translate
from mcpwire.types._base import WireType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.output_validation import SchemaValidator

__all__ = ["BadResult", "Returns", "read_returns"]

WRAPPED: Final = "result"

_SCALARS: Final = (bool, float, int, str)

_SEQUENCES: Final = frozenset(
    {list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable}
)
_AWAITABLES: Final = frozenset(
    {collections.abc.Awaitable, collections.abc.Coroutine, types.CoroutineType}
)


_OPEN: Final = (Any, object, bytes, bytearray, typing.NoReturn, typing.Never)


class BadResult(ValueError):
    """A function returned what it did not say it would."""


class Returns:
    """What a function returns.

    Attributes:
        schema: The schema of its structured content; ``None``: there is none.
        scalar: The one type of it that needs no check, if there is one.
        is_wrapped: Whether the value stands under ``result`` there.
        is_structured: Whether there may be structured content at all.
    """

    __slots__ = (
        "_hint",
        "_validator",
        "is_structured",
        "is_wrapped",
        "scalar",
        "schema",
    )

    def __init__(
        self,
        schema: dict[str, Any] | None = None,
        *,
        hint: Any = None,
        scalar: type | None = None,
        validator: SchemaValidator | None = None,
        is_wrapped: bool = False,
        is_structured: bool = True,
    ) -> None:
        self.schema = schema
        self.is_wrapped = is_wrapped
        self.is_structured = is_structured
        self._hint = hint
        self.scalar = scalar
        self._validator = validator

    def to_structured(self, value: Any) -> Any:
        """Return the structured content.

        Raises:
            BadResult: The value breaks the schema.
        """
        data = plain(value)
        if self._hint is not None:
            self._check_hint(data)
        structured = {WRAPPED: data} if self.is_wrapped else data
        self.check(structured)
        return structured

    def _check_hint(self, data: Any) -> None:
        try:
            self._read(data)
        except (ValueError, RecursionError) as error:
            whole = with_whole_numbers(data)
            if whole is not data:
                try:
                    return self._read(whole)
                except ValueError:
                    pass  # the first one speaks of the value as it is
            raise BadResult(f"the result does not fit its hint: {error}") from error

    def _read(self, data: Any) -> None:
        msgspec.convert(data, self._hint, str_keys=True, dec_hook=STRICT)

    def check(self, structured: Any) -> None:
        """Hold structured content against a schema that was written by hand.

        Raises:
            BadResult: It breaks the schema.
        """
        # 2025-11-25 server/tools, "Output Schema": results MUST conform to it.
        fault = None if self._validator is None else self._validator.check(structured)
        if fault is not None:
            raise BadResult(f"the result breaks its output schema: {fault}")


def read_returns(
    hint: Any,
    *,
    output_schema: Mapping[str, Any] | None = None,
    structured: bool | None = None,
    validate: bool = True,
) -> Returns:
    """Read what a function says that it returns.

    Raises:
        TypeError: It is to be data, and the hint does not say which.
        ValueError: The schema is none.
    """
    if structured is False:
        if output_schema is not None:
            raise ValueError("there is an output_schema, and structured=False")
        return Returns(is_structured=False)
    if output_schema is not None:
        return _explicit(output_schema, validate=validate)
    hint = _awaited(hint)
    made = None if _is_open(hint) else _derived(hint, validate=validate)
    if made is None and structured:
        raise TypeError(
            "structured=True needs an output_schema=, or a hint of the data that is "
            "returned"
        )
    return made or Returns()


def _explicit(schema: Mapping[str, Any], *, validate: bool) -> Returns:
    if not isinstance(schema, dict):
        raise ValueError(f"output_schema: expected an object, got {schema!r}")
    own = deepcopy(schema)
    validator = validator_of(own, "output_schema")
    return Returns(own, validator=validator if validate else None)


def _awaited(hint: Any) -> Any:
    """Return what is to be had of a hint in the end."""
    if typing.get_origin(hint) in _AWAITABLES:
        return typing.get_args(hint)[-1]
    return hint


def _is_open(hint: Any) -> bool:
    """Tell whether a hint names content, or nothing certain."""
    for member in members_of(hint):
        one = bare(member)
        origin, arguments = typing.get_origin(one) or one, typing.get_args(one)
        if origin in _SEQUENCES:
            inner = [each for each in arguments if each is not Ellipsis] or [Any]
            if any(_is_open(each) for each in inner):
                return True
        if any(one is each for each in _OPEN):
            return True
        if isinstance(one, type) and issubclass(one, (WireType, Media)):
            return True
    return bare(hint) is None or bare(hint) is type(None)


def _derived(hint: Any, *, validate: bool) -> Returns:
    """Return what a hint of data says."""
    made = translate(hint)
    schema = Schemas(for_input=False).whole(made)
    is_object = schema.get("type") == "object"
    return Returns(
        schema if is_object else _wrapped(schema),
        hint=made if validate else None,
        scalar=hint if any(hint is each for each in _SCALARS) else None,
        is_wrapped=not is_object,
    )


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    root = {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
    }
    return {**root, "$defs": schema["$defs"]} if "$defs" in schema else root
