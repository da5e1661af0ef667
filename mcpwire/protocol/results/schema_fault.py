"""Where in a value which rule of a schema is broken, in one short line.

Found by asking again and again, with parts of the schema for parts of the value: the
validator's own errors cost far more than what they tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.protocol.json_schema import ITEM, PROPERTY, quoted, unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from mcpwire.protocol.json_schema import SchemaIndex, Subschema

__all__ = ["Engine", "find_fault"]

MAX_PARTS: Final = 100
"""Parts of the schema that are made ready to find one fault."""

MAX_DESCENTS: Final = 50
MAX_PATH: Final = 200  # characters

_URI: Final = "schema:///root"

# Rules about a value that need no other part of the schema.
_PLAIN: Final = (
    "type",
    "const",
    "enum",
    "required",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "dependentRequired",
)

# Rules where one cannot go on with one part, or not without more effort.
_COMPOUND: Final = (
    "anyOf",
    "oneOf",
    "not",
    "if",
    "contains",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "propertyNames",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "dependentSchemas",
    "dependencies",
    "$dynamicRef",
    "$recursiveRef",
)


# In these, what stands beside a `$ref` does not count.
_REFERENCE_ONLY: Final = frozenset({"draft-04", "draft-06", "draft-07"})

Member: TypeAlias = "tuple[tuple[str | int, ...], Any]"
"""The way from a value into it, and what is there."""


class Engine:
    """The validator of a whole schema, and of parts of it."""

    def __init__(
        self, rs: ModuleType, index: SchemaIndex, options: dict[str, Any]
    ) -> None:
        """Compile the schema.

        Raises:
            RemoteProtocolError: It breaks the rules of its dialect.
        """
        self.index = index
        self._rs = rs
        self._options = options
        self._registry: Any = None
        self._uri = index.root.base or _URI
        raw = index.root.raw
        self._dialect = {"$schema": raw["$schema"]} if "$schema" in raw else {}
        try:
            self._whole = rs.validator_for(raw, **options)
        except ValueError as error:
            text = str(error).partition("\n")[0]
            raise unusable(quoted(text)) from error

    def accepts(self, value: Any) -> bool:
        """Tell whether the whole schema accepts a value."""
        accepted: bool = self._whole.is_valid(value)
        return accepted

    def part(self, subschema: Subschema) -> Any:
        """Return a validator of one subschema."""
        if self._registry is None:
            self._registry = self._rs.Registry([(self._uri, self.index.root.raw)])
        reference = {"$ref": f"{self._uri}#{subschema.pointer}"}
        return self._rs.validator_for(
            self._dialect | reference, registry=self._registry, **self._options
        )

    def rule(self, keyword: str, operand: Any) -> Any:
        """Return a validator of one rule alone."""
        return self._rs.validator_for(
            self._dialect | {keyword: operand}, **self._options
        )


def find_fault(engine: Engine, value: Any) -> str:
    """Say where a value that is not accepted breaks which rule."""
    search = _Search(engine)
    here, path = engine.index.root, list[str | int]()
    rule = None
    for _ in range(MAX_DESCENTS):
        rule = search.broken_rule(here, value)
        deeper = search.deeper(here, value) if rule is None else None
        if deeper is None:
            break
        here, way, value = deeper
        path += way
    return f"structuredContent{_spelled(path)}: {rule or _compound(here)}"


class _Search:
    """The search for one fault, with a bounded number of questions to the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._left = MAX_PARTS
        self._reference_only = engine.index.dialect in _REFERENCE_ONLY

    def broken_rule(self, here: Subschema, value: Any) -> str | None:
        """Say which rule of the subschema itself a value breaks."""
        if here.raw is False:
            return "is not allowed"
        if here.target is not None and self._reference_only:
            return None
        for keyword in _PLAIN:
            if keyword in here.raw and not self._fits(
                self._engine.rule, (keyword, here.raw[keyword]), value
            ):
                return _told(keyword, here.raw[keyword], value)
        return None

    def deeper(
        self, here: Subschema, value: Any
    ) -> tuple[Subschema, tuple[str | int, ...], Any] | None:
        """Return a part of the schema that a part of the value breaks."""
        for inner, members in self._parts(here, value):
            for way, member in members:
                if inner.raw is False or (
                    inner.raw is not True
                    and not self._fits(self._engine.part, (inner,), member)
                ):
                    return inner, way, member
        return None

    def _fits(
        self, make: Callable[..., Any], what: tuple[Any, ...], value: Any
    ) -> bool:
        """Ask; who cannot be asked, or is asked too late, has no objection."""
        self._left -= 1
        if self._left < 0:
            return True
        try:
            fits: bool = make(*what).is_valid(value)
        except ValueError:
            return True
        return fits

    def _parts(
        self, here: Subschema, value: Any
    ) -> Iterator[tuple[Subschema, list[Member]]]:
        if here.target is not None:
            yield here.target, [((), value)]
            if self._reference_only:
                return
        for inner in here.in_place:
            if inner.outer is here and inner.path[0] == "allOf":
                yield inner, [((), value)]
        for (kind, which), inner in here.members:
            if kind is PROPERTY and isinstance(value, dict):
                yield inner, _properties(here, inner, which, value)
            elif kind is ITEM and isinstance(value, (list, tuple)):
                yield inner, _items(here, inner, which, value)


def _properties(
    here: Subschema, inner: Subschema, which: Any, value: dict[str, Any]
) -> list[Member]:
    if which is not None:
        return [((which,), value[which])] if which in value else []
    if inner.path != ("additionalProperties",) or "patternProperties" in here.raw:
        return []
    named = here.raw.get("properties", ())
    return [((name,), member) for name, member in value.items() if name not in named]


def _items(
    here: Subschema, inner: Subschema, which: Any, value: Sequence[Any]
) -> list[Member]:
    if which is not None:
        return [((which,), value[which])] if which < len(value) else []
    before = {"items": "prefixItems", "additionalItems": "items"}.get(
        str(inner.path[0])
    )
    if before is None:
        return []
    first = len(here.raw.get(before, ()))
    return [((first + number,), item) for number, item in enumerate(value[first:])]


def _told(keyword: str, operand: Any, value: Any) -> str:
    if keyword == "required":
        missing = next(name for name in operand if name not in value)
        return f"lacks {quoted(missing)}"
    if keyword == "type":
        return f"expected type {quoted(operand)}, got {type(value).__name__}"
    return f"breaks {keyword}: {quoted(operand)}"


def _compound(here: Subschema) -> str:
    rules = [keyword for keyword in _COMPOUND if keyword in here.raw]
    return f"breaks {' or '.join(rules) or 'its output schema'}"


def _spelled(path: list[str | int]) -> str:
    spelled = ""
    for step in path:
        if isinstance(step, int):
            spelled += f"[{step}]"
        elif step.isidentifier() and len(step) <= MAX_PATH:
            spelled += f".{step}"
        else:
            spelled += f"[{quoted(step)}]"
        if len(spelled) > MAX_PATH:
            return f"{spelled[:MAX_PATH]}..."
    return spelled
