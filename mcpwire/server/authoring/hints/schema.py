"""JSON Schemas of type hints, as few and as plain as models and clients want them.

msgspec and pydantic write them with references; here each reference is replaced by what
it means, unless that contains itself.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpwire.protocol.json_schema import mapped, rebuilt, walk
from mcpwire.server.authoring.hints.foreign import (
    Foreign,
    adapter_of,
    is_pydantic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Definitions = Mapping[str, dict[str, Any]]

__all__ = ["ORDER", "TITLES", "Schemas", "is_nullable", "without_null"]

ORDER: Final = "x-mcpwire-order"
"""Says in which order the values of an enum stand; it does not leave this package."""

TITLES: Final = "x-mcpwire-titles"
"""Says what the values of an enum are called; forms make something of it."""

_REFERENCE: Final = "#/$defs/"
_LARGEST: Final = 5_000
"""Subschemas; what would have more without references keeps them."""

_LARGEST_PART: Final = 330


class Schemas:
    """Makes schemas that stand in one document.

    Attributes:
        definitions: What its references mean: the types that contain themselves.
    """

    def __init__(self, *, for_input: bool, has_titles: bool = False) -> None:
        self.definitions: dict[str, Any] = {}
        self._made: dict[type[Foreign], dict[str, Any]] = {}
        # Those that are just being described, with the names that they need.
        self._open: dict[type[Foreign], str | None] = {}
        self._dropped = (ORDER,) if has_titles else (ORDER, TITLES)
        self._for_input = for_input
        self._tidy = _tidied if for_input else _left

    def of(self, hints: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the schema of each hint, as `translate` left it.

        Raises:
            TypeError: One has none; says which.
        """
        raw, definitions = msgspec.json.schema_components(
            hints, schema_hook=self._describe, ref_template=_REFERENCE + "{name}"
        )
        return self._resolved(raw, definitions)

    def whole(self, hint: Any) -> dict[str, Any]:
        """Return the schema of a hint as a document of its own."""
        (schema,) = self.of([hint])
        reference = schema.get("$ref")
        if reference is not None:  # its root says what it is, for readers in a hurry
            own = self.definitions[reference.removeprefix(_REFERENCE)]
            schema = {**own, **{k: v for k, v in schema.items() if k != "$ref"}}
        return self.finish(schema)

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the document: a schema and what it refers to."""
        if not self.definitions:
            return schema
        return {**schema, "$defs": self.definitions}

    def adapted(self, hint: Any) -> dict[str, Any]:
        """Return the schema that pydantic makes of a hint."""
        schema = adapter_of(hint).json_schema(
            by_alias=True,
            mode="validation" if self._for_input else "serialization",
            ref_template=_REFERENCE + "{model}",
        )
        definitions = schema.pop("$defs", {})
        return self._resolved([schema], definitions)[0]

    def _describe(self, kind: Any) -> dict[str, Any]:
        if issubclass(kind, Foreign):
            return self._described(kind)
        if is_pydantic(kind):
            return self.adapted(kind)
        if issubclass(kind, PurePath):
            return {"type": "string", "format": "path"}
        raise TypeError(f"{kind!r} has no JSON form")

    def _described(self, kind: type[Foreign]) -> dict[str, Any]:
        """Return the schema of a stand-in, or a reference to it."""
        if kind in self._made:
            return self._made[kind]
        if kind in self._open:
            name = self._open[kind] or self._free_name(kind.__name__, {})
            self._open[kind] = name
            self.definitions.setdefault(name, {})
            return {"$ref": _REFERENCE + name}
        self._open[kind] = None
        made = self._tidy(_without_noise(kind.describe(self)))
        own = self._open.pop(kind)
        if own is None and sum(1 for _ in walk(made)) > _LARGEST_PART:
            own = self._free_name(kind.__name__, {})
        if own is not None:
            self.definitions[own] = made
            made = {"$ref": _REFERENCE + own}
        self._made[kind] = made
        return made

    def _free_name(self, name: str, schema: dict[str, Any]) -> str:
        """Return a name that no other definition has."""
        free, number = name, 2
        while self.definitions.get(free, schema) != schema:
            free, number = f"{name}_{number}", number + 1
        return free

    def _resolved(
        self, schemas: Sequence[dict[str, Any]], definitions: Definitions
    ) -> list[dict[str, Any]]:
        kept = _recursive(definitions)
        resolver = _Resolver(definitions, kept, self._tidy, self._dropped)
        try:
            made = [resolver.schema(schema) for schema in schemas]
            for name in kept:
                resolver.keep(name)
        except _TooLarge:
            resolver = _Resolver(
                definitions, set(definitions), self._tidy, self._dropped
            )
            made = [resolver.schema(schema) for schema in schemas]
            for name in definitions:
                resolver.keep(name)
        return self._adopt(made, resolver.kept)

    def _adopt(
        self, made: list[dict[str, Any]], kept: dict[str, dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Take over definitions, under new names where theirs mean something else."""
        taken = {}
        for name, schema in kept.items():
            free = self._free_name(name, schema)
            if free != name:
                taken[_REFERENCE + name] = _REFERENCE + free
        names = {name: taken.get(_REFERENCE + name, _REFERENCE + name) for name in kept}
        for name, schema in kept.items():
            self.definitions[names[name].removeprefix(_REFERENCE)] = _renamed(
                schema, taken
            )
        return [_renamed(schema, taken) for schema in made]


def is_nullable(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema takes null beside something else, in so many words."""
    return {"type": "null"} in schema.get("anyOf", ())


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that does not mention null as one of the choices."""
    if not is_nullable(schema):
        return schema
    left = [each for each in schema["anyOf"] if each != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if len(left) == 1:
        return {**left[0], **rest}
    return {**rest, "anyOf": left}


class _TooLarge(Exception):
    """Without references there would be too much."""


class _Resolver:
    """Replaces references by what they mean."""

    def __init__(
        self,
        definitions: Definitions,
        kept: set[str],
        tidy: Callable[[dict[str, Any]], dict[str, Any]],
        dropped: Sequence[str],
    ) -> None:
        self._definitions = definitions
        self._to_keep = kept
        self._tidy = tidy
        self._dropped = dropped
        self._left = _LARGEST if len(kept) < len(definitions) else None
        self.kept: dict[str, dict[str, Any]] = {}

    def keep(self, name: str) -> None:
        """Take a definition along."""
        self.kept[name] = self.schema(self._definitions[name])

    def schema(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return a subschema without references to what is not kept."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise _TooLarge
        left = {key: value for key, value in raw.items() if key not in self._dropped}
        made = rebuilt(left, self.schema)
        order = raw.get(ORDER)
        reference = made.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix(_REFERENCE)
            if name in self._definitions and name not in self._to_keep:
                del made["$ref"]
                made = {**self.schema(self._definitions[name]), **made}
        if order is not None:
            made["enum"] = order
        return self._tidy(_without_noise(made))


def _left(schema: dict[str, Any]) -> dict[str, Any]:
    return schema


def _tidied(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an object's schema in which what may be left out is not also null."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    required = schema.get("required", ())
    tidied = {}
    for name, raw in properties.items():
        tidied[name] = raw
        if name not in required and raw.get("default", name) is None:
            plain = {key: value for key, value in raw.items() if key != "default"}
            tidied[name] = without_null(plain)
    return {**schema, "properties": tidied}


def _without_noise(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without an empty list, and without titles that repeat names."""
    if schema.get("required") == []:
        schema = {name: value for name, value in schema.items() if name != "required"}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, inner in properties.items():
            if inner.get("title") == name.replace("_", " ").title():
                properties[name] = {k: v for k, v in inner.items() if k != "title"}
    return schema


def _recursive(definitions: Definitions) -> set[str]:
    """Return the names of the definitions that contain themselves."""
    direct = {name: _referred(schema) for name, schema in definitions.items()}
    found = set()
    for name, first in direct.items():
        reached: set[str] = set()
        pending = list(first)
        while pending:
            inner = pending.pop()
            if inner not in reached:
                reached.add(inner)
                pending += direct.get(inner, ())
        if name in reached:
            found.add(name)
    return found


def _referred(schema: dict[str, Any]) -> set[str]:
    references = (each.get("$ref") for each in walk(schema))
    return {
        each.removeprefix(_REFERENCE) for each in references if isinstance(each, str)
    }


def _renamed(schema: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    def visit(each: dict[str, Any]) -> dict[str, Any]:
        name = names.get(each.get("$ref", ""))
        return each if name is None else {**each, "$ref": name}

    return mapped(schema, visit) if names else schema
