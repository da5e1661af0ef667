"""Compile the straight-line encoders of the wire types.

An encoder writes what the type's specification says: constants and demanded fields,
then what is set, then unknown members. It shares leaves and open objects with the
value. Given a revision it leaves out the fields that the revision does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from mcpwire.types._codec.base import UNSET, factory_of
from mcpwire.types._codec.source import Writer
from mcpwire.types._codec.spec import (
    Array,
    Either,
    FieldSpec,
    Kind,
    Map,
    Nested,
    Picked,
    Tagged,
    TypeSpec,
    spec_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.types._codec.base import Json, JsonObject, WireType

    Encoder: TypeAlias = Callable[[Any], JsonObject]
    Resolve: TypeAlias = Callable[[type[WireType]], Encoder]

__all__ = ["compile_encoder"]

SYMPTOMS = (AttributeError, KeyError, TypeError)
"""What a value of the wrong type raises inside an encoder."""


def _merge(members: JsonObject, extra: Mapping[str, Json]) -> None:
    """Add unknown members; the fields of the type win."""
    for name, value in extra.items():
        members.setdefault(name, value)


def compile_encoder(
    cls: type[WireType],
    nested: Resolve,
    revision: str | None,
    explain: Callable[[Any, Exception], None] | None = None,
) -> Encoder:
    """Write the encoder of a type.

    With `explain` the encoder is the outermost one: it translates the symptoms of a
    value that does not fit into the error that `explain` raises.
    """
    spec = spec_of(cls)
    names = {"SYMPTOMS": SYMPTOMS, "explain": explain, "merge": _merge, "cls": cls}
    writer = Writer(names)
    writer.line("def encode(o):")
    writer.depth = 1
    if explain is not None:
        writer.line("try:")
        writer.depth = 2
    _EncoderBody(spec, writer, nested, revision).write()
    if explain is not None:
        writer.depth = 1
        writer.block("except SYMPTOMS as e:", ["explain(o, e)", "raise"])
    return writer.build("encode", f"encoder of {cls.__name__}")  # type: ignore[no-any-return]  # exec's namespace is untyped


class _EncoderBody:
    """Writes the body of one encoder."""

    def __init__(
        self,
        spec: TypeSpec,
        writer: Writer,
        nested: Resolve,
        revision: str | None,
    ) -> None:
        self.spec = spec
        self.writer = writer
        self.nested = nested
        self.fields = [
            field
            for field in spec.fields
            if revision is None or field.exists_in(revision)
        ]

    def write(self) -> None:
        line = self.writer.line
        if self.spec.opaque:
            line("return o.raw")
            return
        always = [field for field in self.fields if _is_always_written(field)]
        members = [
            f"{name!r}: {value!r}" for name, value in self.spec.constants.items()
        ]
        members += [
            f"{field.wire!r}: {self.expression(field.kind, f'o.{field.attribute}')}"
            for field in always
        ]
        line(f"d = {{{', '.join(members)}}}")
        for field in self.fields:
            if field not in always:
                self.write_if_set(field)
        self.writer.block("if o.extra:", ["merge(d, o.extra)"])
        line("return d")

    def write_if_set(self, field: FieldSpec) -> None:
        value, default = self.writer.fresh("v"), field.default
        self.writer.line(f"{value} = o.{field.attribute}")
        if default is None or default is UNSET:
            condition = f"{value} is not {default!r}"
        else:
            # A default that is a value is written, unless the peer left it out.
            assert self.spec.keeps_raw, f"{field.attribute}: only results know that"
            raw = f"o.raw is None or {field.wire!r} in o.raw"
            condition = f"{value} != {default!r} or {raw}"
        expression = self.expression(field.kind, value)
        self.writer.block(f"if {condition}:", [f"d[{field.wire!r}] = {expression}"])

    def expression(self, kind: Kind, value: str) -> str:
        """Return the expression that encodes a value of a kind."""
        match kind:
            case Nested(cls):
                value = f"{self.writer.stub('E', cls, self.nested)}({value})"
            case Tagged() | Picked():
                classes = {cls: cls for cls in kind.classes}
                table = self.writer.table("T", classes, self.nested)
                value = f"{table}[type({value})]({value})"
            case Array(item):
                each = self.writer.fresh("x")
                inner = self.expression(item, each)
                if inner != each:
                    value = f"[{inner} for {each} in {value}]"
            case Map(item):
                key, each = self.writer.fresh("k"), self.writer.fresh("x")
                inner = self.expression(item, each)
                if inner != each:
                    members = f"for {key}, {each} in {value}.items()"
                    value = f"{{{key}: {inner} {members}}}"
            case Either(one, many):
                first, rest = self.expression(one, value), self.expression(many, value)
                if first != rest:
                    value = f"({rest} if type({value}) is list else {first})"
        return value


def _is_always_written(field: FieldSpec) -> bool:
    return field.default is attrs.NOTHING or factory_of(field.default) is not None
