"""Compare the specifications of our classes with the schema of a revision."""

import typing
from typing import Any

import attrs
from parity_tables import EXCLUDED, OURS, PARAMS, RENAMED, UNIONS, WIDER
from wirevalues import required_in

from mcpwire import types
from mcpwire.types._codec import (
    ANY,
    Array,
    FieldSpec,
    Kind,
    Leaf,
    Map,
    OneOrArray,
    SelectedUnion,
    StringEnum,
    TaggedUnion,
    TypedObject,
    spec_of,
)


@attrs.define
class Comparison:
    """One revision's schema, and the differences of our classes from it."""

    revision: str
    schema: dict[str, Any]
    findings: list[str] = attrs.field(factory=list)

    @property
    def definitions(self) -> dict[str, Any]:
        """The schema's definitions; draft-07 calls them `definitions`."""
        found: dict[str, Any] = self.schema.get("$defs") or self.schema["definitions"]
        return found

    def report(self, where: str, text: str) -> None:
        """Record a difference."""
        self.findings.append(f"{self.revision} {where}: {text}")

    # --- definitions

    def run(self) -> list[str]:
        for name, definition in self.definitions.items():
            if name not in EXCLUDED:
                self.definition(name, definition)
        return self.findings

    def definition(self, name: str, definition: dict[str, Any]) -> None:
        """Compare one definition with our class or alias for it."""
        definition = self.merged(self.resolved(definition))
        cls = class_of(name)
        if cls is not None and "anyOf" not in definition:
            self.object(cls, definition, name)
        elif name in UNIONS:
            self.members(UNIONS[name], definition, name)
        elif name.endswith(("Request", "Notification")):
            self.message(name, definition)
        elif name.endswith("ResultResponse"):
            self.known(definition["properties"]["result"], name)
        else:
            properties = ", ".join(definition.get("properties", {})) or "no properties"
            self.report(name, f"no class of ours stands for it ({properties})")

    def message(self, name: str, definition: dict[str, Any]) -> None:
        """Compare a message's params; we have no class for the message itself."""
        params = definition["properties"].get("params")
        cls = PARAMS.get(name) or class_of(f"{name}Params")
        if cls is None:
            union = UNIONS.get(f"{name}Params")
            if union is None:
                self.report(name, f"no class of ours is {name}Params")
            elif "$ref" not in params:
                # 2025-06-18 has one mode only.
                self.object(types.ElicitRequestFormParams, params, name)
        elif params is not None:
            self.object(cls, self.merged(self.resolved(params)), f"{name}.params")

    def members(self, union: Any, definition: dict[str, Any], name: str) -> None:
        ours = names_in(union)
        for member in references(definition):
            direct = class_of(member)
            if member in UNIONS:
                continue
            if direct is None or direct.__name__ not in ours:
                self.report(name, f"{member} is no member of ours")

    def known(self, part: dict[str, Any], name: str) -> None:
        for member in references(part):
            if class_of(member) is None:
                self.report(name, f"no class of ours stands for {member}")

    # --- objects

    def object(self, cls: type, schema: dict[str, Any], where: str) -> None:
        spec = spec_of(cls)
        properties = schema.get("properties", {})
        required = set(schema.get("required", ()))
        fields = {field.wire: field for field in spec.fields}
        for name, part in properties.items():
            path, resolved = f"{where}.{name}", self.resolved(part)
            if name in spec.constants:
                if resolved.get("const") != spec.constants[name]:
                    self.report(path, f"we say it is always {spec.constants[name]!r}")
            elif name not in fields or not fields[name].exists_in(self.revision):
                if name not in {"id", "jsonrpc"}:  # the envelope of a request
                    self.report(path, f"{cls.__name__} has no such field there")
            else:
                self.field(cls, fields[name], resolved, path, name in required)
        for name, field in fields.items():
            ours = (cls.__name__, name) in OURS or self.is_base_meta(cls, name)
            if field.exists_in(self.revision) and name not in properties and not ours:
                self.report(f"{where}.{name}", f"only {cls.__name__} has it")

    def is_base_meta(self, cls: type, wire: str) -> bool:
        """Tell whether the schema has `_meta` only in the base of all messages."""
        params = cls.__name__.endswith("Params")
        return wire == "_meta" and params and self.revision < "2026-07-28"

    def field(
        self,
        cls: type,
        field: FieldSpec,
        schema: dict[str, Any],
        path: str,
        required: bool,  # noqa: FBT001 - a column of the schema
    ) -> None:
        """Compare a field with a property: its requiredness and its JSON types."""
        if required_in(field, self.revision) != required:
            requiredness = "required" if required else "optional"
            self.report(path, f"the schema says it is {requiredness}")
        if (cls.__name__, field.wire) in WIDER:
            return
        allowed, ours = self.json_types(schema), json_types(field.kind)
        if field.nullable and field.kind is not ANY:
            ours = ours | {"null"}
        if ours == allowed:
            self.structure(field.kind, schema, path)
        else:
            self.report(path, f"we take {sorted(ours)}, the schema {sorted(allowed)}")

    # --- values

    def structure(self, kind: Kind, schema: dict[str, Any], path: str) -> None:
        match kind:
            case Leaf(known=choices) | StringEnum(choices):
                allowed = {schema["const"]} if "const" in schema else schema.get("enum")
                if set(choices) != set(allowed or ()):
                    self.report(path, f"the schema knows {allowed}")
            case Array(item):
                self.item(item, schema["items"], f"{path}[]")
            case Map(item):
                self.item(item, schema["additionalProperties"], f"{path}[key]")
            case TypedObject(cls):
                self.object(cls, self.merged(schema), path)
            case TaggedUnion() | SelectedUnion():
                ours = {each.__name__ for each in kind.classes}
                for member in sorted(self.flat(schema)):
                    direct = class_of(member)
                    if direct is None or direct.__name__ not in ours:
                        self.report(path, f"{member} is no member of ours")

    def item(self, kind: Kind, schema: dict[str, Any], path: str) -> None:
        resolved = self.resolved(schema)
        if isinstance(kind, Leaf) and kind.types == (dict,):
            return
        if json_types(kind) != self.json_types(resolved):
            self.report(path, f"the schema takes {sorted(self.json_types(resolved))}")
        elif isinstance(kind, TaggedUnion | SelectedUnion):
            self.structure(kind, schema, path)
        else:
            self.structure(kind, resolved, path)

    # --- schemas

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rpartition("/")[2]]
        return schema

    def merged(self, schema: dict[str, Any]) -> dict[str, Any]:
        parts = [self.merged(self.resolved(part)) for part in schema.get("allOf", ())]
        if not parts:
            return schema
        return {
            "type": "object",
            "properties": {k: v for p in parts for k, v in p["properties"].items()},
            "required": [name for p in parts for name in p.get("required", ())],
        }

    def flat(self, schema: dict[str, Any]) -> set[str]:
        """Return the names of a union's members, through unions inside it."""
        found = set()
        for name in references(schema):
            inner = self.definitions[name]
            found |= self.flat(inner) if "anyOf" in inner else {name}
        return found

    def json_types(self, schema: dict[str, Any]) -> set[str]:
        """Return the JSON types that a schema accepts; an empty set means any."""
        schema = self.resolved(schema)
        if "anyOf" in schema:
            return set().union(*(self.json_types(part) for part in schema["anyOf"]))
        if "allOf" in schema:
            return {"object"}
        named = schema.get("type", [])
        types_ = {named} if isinstance(named, str) else set(named)
        if types_ == {"integer", "number"} or schema.get("type") == "number":
            return {"number"}
        return types_ or ({"object"} if "properties" in schema else set())


_JSON = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
}


def json_types(kind: Kind) -> set[str]:
    """Return the JSON types that a kind accepts; an empty set means any."""
    match kind:
        case Leaf(types=kinds):
            found = {_JSON[each] for each in kinds}
            return found - {"integer"} if "number" in found else found
        case StringEnum():
            return {"string"}
        case Array():
            return {"array"}
        case OneOrArray(one, _):
            return json_types(one) | {"array"}
    return {"object"}


def class_of(name: str) -> type | None:
    """Return our class for a definition."""
    if name in RENAMED:
        return RENAMED[name]
    found = getattr(types, name, None)
    return found if isinstance(found, type) and name not in UNIONS else None


def references(schema: dict[str, Any]) -> set[str]:
    if "$ref" in schema:
        return {schema["$ref"].rpartition("/")[2]}
    found: set[str] = set()
    for key in ("anyOf", "allOf"):
        for part in schema.get(key, ()):
            found |= references(part)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found |= references(schema[key])
    return found


def names_in(union: Any) -> set[str]:
    """Return the names of the classes in an alias of ours."""
    if isinstance(union, type) and issubclass(union, types.WireType):
        return {union.__name__}
    inside = list(typing.get_args(union))
    return {name for part in inside for name in names_in(part)}
