"""Compile the straight-line decoders of the wire types.

A decoder knows no path: whatever is wrong raises `Refused`, and `explain` walks the
value again to find out where. Nested types are called through stubs that compile them
when a value first needs them and then get out of the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from mcpwire.types._codec.forgive import ANY_TYPE, forgives
from mcpwire.types._codec.source import Writer
from mcpwire.types._codec.spec import (
    ANY,
    Array,
    Closed,
    Either,
    FieldSpec,
    Kind,
    Leaf,
    Map,
    Nested,
    Picked,
    Tagged,
    TypeSpec,
    spec_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.types._codec.base import Json, JsonObject, WireType

    Decoder: TypeAlias = Callable[[Json], Any]
    Resolve: TypeAlias = Callable[[type[WireType]], Decoder]

__all__ = ["Refused", "compile_decoder"]


class Refused(Exception):
    """The value does not fit; a signal between decoders that no caller sees."""


def _integral(value: Json) -> int:
    """Return the integer that a float stands for."""
    if type(value) is float and value.is_integer():
        return int(value)
    raise Refused


def _refuse(_: Json) -> NoReturn:
    """Stand where a union has no member for what is unknown."""
    raise Refused


def _leftover(members: JsonObject, known: frozenset[str]) -> JsonObject | None:
    """Return the members that the type does not know."""
    return {name: members[name] for name in members if name not in known} or None


def compile_decoder(
    cls: type[WireType],
    nested: Resolve,
    *,
    explain: Callable[[type[WireType], Json], Exception] | None = None,
    tagged: bool = False,
) -> Decoder:
    """Write the decoder of a type.

    Args:
        cls: The type.
        nested: What finds the decoders of the types inside it.
        explain: Makes the exception for a value that is refused; the outermost decoder
            has it, the ones inside only signal.
        tagged: Whether the caller has seen an object with the type's own tag.
    """
    spec = spec_of(cls)
    writer = Writer(
        {
            "Refused": Refused,
            "cls": cls,
            "explain": explain,
            "integral": _integral,
            "known": spec.known,
            "leftover": _leftover,
            "new": object.__new__,
        }
    )
    writer.line("def decode(d):")
    writer.depth = 1
    if explain is not None:
        writer.line("try:")
        writer.depth = 2
    body = _DecoderBody(spec, writer, nested)
    if not tagged:
        body.check_object()
    body.write()
    if explain is not None:
        writer.depth = 1
        writer.block("except Refused:", ["raise explain(cls, d) from None"])
    return writer.build("decode", f"decoder of {cls.__name__}")  # type: ignore[no-any-return]  # exec's namespace is untyped


class _DecoderBody:
    """Writes the body of one decoder."""

    def __init__(self, spec: TypeSpec, writer: Writer, nested: Resolve) -> None:
        self.spec = spec
        self.writer = writer
        self.nested = nested

    def check_object(self) -> None:
        self.refuse_unless("type(d) is dict")
        for name, value in self.spec.constants.items():
            self.refuse_unless(f"d.get({name!r}) == {value!r}")

    def write(self) -> None:
        spec, line = self.spec, self.writer.line
        line("o = new(cls)")
        if spec.keeps_raw:
            line("o.raw = d")
        demanded = [field for field in spec.fields if not field.accepts_missing]
        for field in demanded:
            self.demand(field)
        if not spec.opaque:
            others = [field for field in spec.fields if field.accepts_missing]
            self.write_rest(len(spec.constants) + len(demanded), others)
        line("return o")

    def write_rest(self, present: int, others: list[FieldSpec]) -> None:
        """Write what an object may have beside its `present` demanded members."""
        if present:
            self.return_early(present, others)
        self.writer.line(f"n = len(d) - {present}")
        for index, field in enumerate(others):
            self.accept(field, surely=index == 0)
        self.writer.line("o.extra = leftover(d, known) if n else None")

    def refuse_unless(self, condition: str) -> None:
        self.writer.block(f"if not ({condition}):", ["raise Refused"])

    def demand(self, field: FieldSpec) -> None:
        """Write a field without which the object is refused."""
        value = self.writer.fresh("v")
        if not field.nullable:
            # No kind takes None, so absence need not be told from it.
            self.writer.line(f"{value} = d.get({field.wire!r})")
            self.check(field.kind, value)
        else:
            self.writer.line(f"{value} = d.get({field.wire!r}, UNSET)")
            if field.kind is ANY:
                self.refuse_unless(f"{value} is not UNSET")
            else:
                self.writer.line(f"if {value} is not None:")
                self.check_inside(field.kind, value)
        self.writer.line(f"o.{field.attribute} = {value}")

    def return_early(self, present: int, others: list[FieldSpec]) -> None:
        """Write the short way out for objects with nothing but the demanded fields."""
        body = [
            f"o.{field.attribute} = {self.writer.default(field.default)}"
            for field in others
        ]
        body += ["o.extra = None", "return o"]
        self.writer.block(f"if len(d) == {present}:", body)

    def accept(self, field: FieldSpec, *, surely: bool) -> None:
        """Write a field that may be absent; unless `surely`, nothing may be left."""
        line, value = self.writer.line, self.writer.fresh("v")
        default = self.writer.default(field.default)
        absent = "None" if field.accepts_null else "UNSET"
        if not surely:
            line(f"{value} = {default}")
            line("if n:")
            self.writer.depth += 1
        line(f"{value} = d.get({field.wire!r}{'' if absent == 'None' else ', UNSET'})")
        line(f"if {value} is not {absent}:")
        self.writer.depth += 1
        line("n -= 1")
        self.check(field.kind, value)
        self.writer.depth -= 1
        if default != absent:
            self.writer.block("else:", [f"{value} = {default}"])
        self.writer.depth -= not surely
        line(f"o.{field.attribute} = {value}")

    def check_inside(self, kind: Kind, value: str) -> None:
        self.writer.depth += 1
        self.check(kind, value)
        self.writer.depth -= 1

    def check(self, kind: Kind, value: str) -> None:
        """Write the statements that check a value and turn it into its wire type."""
        line = self.writer.line
        match kind:
            case Leaf():
                self.check_leaf(kind, value)
            case Closed(values):
                self.refuse_unless(f"{value} in {values!r}")
            case Array(item):
                self.refuse_unless(f"type({value}) is list")
                self.check_items(item, value)
            case Map(item):
                self.refuse_unless(f"type({value}) is dict")
                self.check_members(item, value)
            case Nested(cls):
                line(f"{value} = {self.function(cls)}({value})")
            case Either(one, many):
                line(f"if type({value}) is list:")
                self.writer.depth += 1
                self.check_items(many.item, value)
                self.writer.depth -= 1
                line("else:")
                self.check_inside(one, value)
            case Tagged():
                self.check_tagged(kind, value)
            case _:
                self.check_picked(kind, value)

    def check_leaf(self, leaf: Leaf, value: str) -> None:
        if leaf.types == (int,):
            forgiven = forgives(ANY_TYPE, "", "integral float", optional=False)
            action = f"{value} = integral({value})" if forgiven else "raise Refused"
            self.writer.block(f"if type({value}) is not int:", [action])
        elif leaf.types:
            self.refuse_unless(
                " or ".join(f"type({value}) is {kind.__name__}" for kind in leaf.types)
            )
        else:
            self.writer.line("pass")

    def check_items(self, item: Kind, value: str) -> None:
        if isinstance(item, Nested):
            call = self.function(item.cls)
            self.writer.line(f"{value} = [{call}(x) for x in {value}]")
            return
        each, out = self.writer.fresh("x"), self.writer.fresh("out")
        self.writer.line(f"{out} = []")
        self.writer.line(f"for {each} in {value}:")
        self.check_inside(item, each)
        self.writer.line(f"    {out}.append({each})")
        self.writer.line(f"{value} = {out}")

    def check_members(self, item: Kind, value: str) -> None:
        key, each = self.writer.fresh("k"), self.writer.fresh("x")
        out = self.writer.fresh("out")
        self.writer.line(f"{out} = {{}}")
        self.writer.line(f"for {key}, {each} in {value}.items():")
        self.check_inside(item, each)
        self.writer.line(f"    {out}[{key}] = {each}")
        self.writer.line(f"{value} = {out}")

    def check_tagged(self, union: Tagged, value: str) -> None:
        tag = self.writer.fresh("t")
        table = self.writer.table("T", union.members, self.compile_tagged)
        fallback = (
            self.writer.bind("F", _refuse)
            if union.fallback is None
            else self.writer.stub("F", union.fallback, self.nested)
        )
        self.refuse_unless(f"type({value}) is dict")
        self.writer.line(f"{tag} = {value}.get({union.key!r})")
        self.refuse_unless(f"type({tag}) is str")
        self.writer.line(
            f"{value} = {table}[{tag}]({value}) if {tag} in {table} "
            f"else {fallback}({value})"
        )

    def compile_tagged(self, cls: type[WireType]) -> Decoder:
        assert len(spec_of(cls).constants) == 1, f"{cls.__name__}: only the tag is seen"
        return compile_decoder(cls, self.nested, tagged=True)

    def check_picked(self, union: Picked, value: str) -> None:
        choose = self.writer.bind("choose", union.pick.choose)
        cls, members = self.writer.fresh("c"), {each: each for each in union.classes}
        table = self.writer.table("T", members, self.nested)
        self.refuse_unless(f"type({value}) is dict")
        self.writer.line(f"{cls} = {choose}({value})")
        self.refuse_unless(f"{cls} is not None")
        self.writer.line(f"{value} = {table}[{cls}]({value})")

    def function(self, cls: type[WireType]) -> str:
        """Return the name of a nested type's decoder, which is a stub until called."""
        return self.writer.stub("D", cls, self.nested)
