"""Type hints put into the words that msgspec understands.

What it does not: constraints of other libraries and of `Arg`, unions of several
classes, pydantic's own annotations. A hint without any of these stays as it is.
"""

from __future__ import annotations

import collections.abc
import contextlib
import enum
import functools
import operator
import types
import typing
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Union,
)

import attrs
import msgspec

from mcpwire.server.authoring.faults import places_of
from mcpwire.server.authoring.fields import (
    BOUNDS,
    PATTERN_LENGTH,
    check_pattern,
    facts_of,
)
from mcpwire.server.authoring.hints.classes import (
    MARKS,
    described,
    fields_of,
    has_fields,
    loses_defaults,
)
from mcpwire.server.authoring.hints.foreign import (
    LENIENT,
    STRICT,
    Fault,
    adapter_of,
    is_pydantic,
    stands_for,
    validate,
)
from mcpwire.server.authoring.hints.schema import ORDER, TITLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.server.authoring.hints.schema import Schemas


@attrs.frozen(eq=False)
class Known:
    """What stands for the classes and aliases that were met so far."""

    is_exact: bool
    """Whether objects with unknown members are refused."""

    stands: dict[Any, Any] = attrs.field(factory=dict)


__all__ = ["bare", "members_of", "translate"]

_UNIONS: Final = frozenset({Union, types.UnionType})
_NUMBERS: Final = ("ge", "gt", "le", "lt", "multiple_of")
_LENGTHS: Final = ("min_length", "max_length")


def bare(hint: Any) -> Any:
    """Return a hint without metadata, aliases and marks."""
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated or origin in MARKS:
            hint = typing.get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif _is_alias(hint):
            hint = hint.__value__
        else:
            return hint


def members_of(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; of anything else itself."""
    hint = bare(hint)
    if typing.get_origin(hint) in _UNIONS:
        return typing.get_args(hint)
    return (hint,)


def translate(hint: Any, *, is_exact: bool = False) -> Any:
    """Return a hint that msgspec reads as the author means it.

    With `is_exact`, an object may have no members that its dataclass, attrs class or
    typed dict lacks.

    Raises:
        TypeError: A constraint does not go with its type.
    """
    return _translate(hint, Known(is_exact))


def _translate(hint: Any, known: Known) -> Any:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        made = _annotated(hint, known)
    elif origin in _UNIONS:
        made = _union(typing.get_args(hint), known)
    elif origin is Literal:
        made = _ordered(hint, [v for v in typing.get_args(hint) if v is not None])
    elif origin in _CONTAINERS:
        made = origin[
            tuple(
                inner if inner is Ellipsis else _translate(inner, known)
                for inner in typing.get_args(hint)
            )
        ]
    elif isinstance(hint, type):
        made = _class(hint, known)
    elif hasattr(hint, "__supertype__"):  # a NewType
        made = _translate(hint.__supertype__, known)
    elif _is_alias(hint):
        if hint not in known.stands:
            known.stands[hint] = hint  # what it is within itself
            known.stands[hint] = _translate(hint.__value__, known)
        made = known.stands[hint]
    else:
        made = hint
    return made


def _is_alias(hint: Any) -> bool:
    """Tell whether a hint is what a ``type`` statement makes."""
    return type(hint).__name__ == "TypeAliasType"


_CONTAINERS: Final = frozenset(
    {
        list,
        dict,
        set,
        frozenset,
        tuple,
        collections.abc.Collection,
        collections.abc.Iterable,
        collections.abc.Mapping,
        collections.abc.MutableMapping,
        collections.abc.MutableSequence,
        collections.abc.MutableSet,
        collections.abc.Sequence,
        collections.abc.Set,
    }
)


def _ordered(hint: Any, values: Sequence[Any]) -> Any:
    """Have the values of an enum stand in the author's order."""
    shown: dict[str, Any] = {ORDER: list(values)}
    if values and all(isinstance(value, str) for value in values):
        shown["type"] = "string"
    return Annotated[hint, msgspec.Meta(extra_json_schema=shown)]


# --- metadata


def _annotated(hint: Any, known: Known) -> Any:
    metadata = hint.__metadata__
    if any(_is_pydantic_rule(item) for item in metadata):
        return _adapted(hint)
    facts = facts_of(metadata)
    made = _bounded(
        _translate(hint.__origin__, known),
        {name: facts[name] for name in BOUNDS if name in facts},
    )
    extra = dict(facts.get("extra_json_schema", ()))
    if "header" in facts:
        # 2026-07-28 streamable-http, "Custom Headers from Tool Parameters".
        extra["x-mcp-header"] = facts["header"]
    if "choices" in facts:
        extra[TITLES] = dict(facts["choices"])
    shown: dict[str, Any] = {
        name: facts[name]
        for name in ("title", "description", "examples")
        if name in facts
    }
    if "examples" in shown:
        shown["examples"] = list(shown["examples"])
    if extra:
        shown["extra_json_schema"] = extra
    return Annotated[made, msgspec.Meta(**shown)] if shown else made


def _is_pydantic_rule(item: Any) -> bool:
    kind = type(item)
    module = kind.__module__ or ""
    return module.startswith("pydantic.") and kind.__name__.endswith("Validator")


def _adapted(hint: Any) -> Any:
    adapter = adapter_of(hint)
    stand = stands_for("Adapted")

    def make(value: Any, *, strict: bool) -> Any:
        return validate(adapter, value, strict=strict)

    def describe(schemas: Schemas) -> dict[str, Any]:
        return schemas.adapted(hint)

    stand.make, stand.describe = make, describe
    return stand


def _bounded(hint: Any, bounds: dict[str, Any]) -> Any:
    """Put bounds on a hint; on a union, on those members that they are about.

    Raises:
        TypeError: They are about nothing there, or a pattern is dangerous.
    """
    if not bounds:
        return hint
    if typing.get_origin(hint) in _UNIONS:
        parts = [_takes(each, bounds) for each in typing.get_args(hint)]
        missing = bounds.keys() - {name for part in parts for name in part}
        if not missing:
            members = zip(typing.get_args(hint), parts, strict=True)
            return _joined([_bounded(*each) for each in members])
        bounds = {name: bounds[name] for name in missing}
    if "pattern" in bounds and bare(hint) is str:
        bounds = {"max_length": PATTERN_LENGTH, **bounds}
    bounded = Annotated[hint, msgspec.Meta(**bounds)]
    _probe(bounded)
    if "pattern" in bounds:
        check_pattern(bounds["pattern"])
    return bounded


def _takes(hint: Any, bounds: dict[str, Any]) -> dict[str, Any]:
    """Return those bounds that can be put on a member of a union."""
    plain = bare(hint)
    kind = typing.get_origin(plain) or plain
    names: tuple[str, ...] = ()
    if kind in {int, float}:
        names = _NUMBERS
    elif kind is str:
        names = (*_LENGTHS, "pattern")
    elif kind is bytes or kind in _CONTAINERS:
        names = _LENGTHS
    return {name: bounds[name] for name in names if name in bounds}


def _probe(hint: Any) -> None:
    """Have msgspec read a hint.

    Raises:
        TypeError: It cannot.
    """
    with contextlib.suppress(msgspec.ValidationError):  # it does not fit, of course
        msgspec.convert(object(), hint)


# --- unions


def _union(arguments: Iterable[Any], known: Known) -> Any:
    made = tuple(_translate(each, known) for each in arguments)
    union = _joined(made)
    return union if _is_readable(union) else _one_of(made)


def _joined(members: Iterable[Any]) -> Any:
    return functools.reduce(operator.or_, members)


def _is_readable(union: Any) -> bool:
    try:
        _probe(union)
    except TypeError:
        return False
    return True


def _one_of(members: tuple[Any, ...]) -> Any:
    """Return a type that takes the first member that a value fits."""
    chosen = [each for each in members if each is not type(None)]
    names = " or ".join(_name(each) for each in chosen)

    def make(value: Any, *, strict: bool) -> Any:
        hook = STRICT if strict else LENIENT
        for member in chosen:
            try:
                return msgspec.convert(
                    value, member, strict=strict, str_keys=True, dec_hook=hook
                )
            except msgspec.ValidationError:
                continue
        raise Fault([((), f"expected {names}")])

    def describe(schemas: Schemas) -> dict[str, Any]:
        return {"anyOf": schemas.of(chosen)}

    one = stands_for("OneOf")
    one.make, one.describe = make, describe
    return one if len(chosen) == len(members) else _joined([one, type(None)])


def _name(hint: Any) -> str:
    plain = bare(hint)
    return plain.__name__ if isinstance(plain, type) else str(plain)


# --- classes


def _class(kind: type, known: Known) -> Any:
    if kind is object:
        return Any
    if issubclass(kind, enum.Enum):
        return _ordered(kind, [member.value for member in kind])
    if _needs_adapter(kind):
        return _adapted(kind)
    if kind not in known.stands:
        known.stands[kind] = kind
        if (known.is_exact and has_fields(kind)) or _is_strange(kind):
            _mirror(kind, known)
    return known.stands[kind]


def _needs_adapter(kind: type) -> bool:
    """Tell whether pydantic has to build a type, and the type cannot ask it to.

    For msgspec, a dataclass of pydantic would be one without any rules.
    """
    return is_pydantic(kind) and not hasattr(kind, "model_validate_json")


def _is_strange(hint: Any) -> bool:
    """Tell whether something in a hint is not in msgspec's own words."""
    seen: dict[int, Any] = {}
    pending = [hint]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one  # kept, so that no other gets its identity
        if _is_strange_itself(one):
            return True
        if typing.get_origin(one) is Annotated:
            check_pattern(facts_of(one.__metadata__).get("pattern", ""))
        pending += _parts(one)
    return False


def _parts(hint: Any) -> list[Any]:
    """Return the hints that one is made of."""
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return [field.hint for field in fields_of(hint)]
    if _is_alias(hint):
        return [hint.__value__]
    if typing.get_origin(hint) is Literal:
        return []
    return [each for each in typing.get_args(hint) if each is not Ellipsis]


def _is_strange_itself(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if isinstance(hint, type) and origin is None:
        return _needs_adapter(hint) or loses_defaults(hint)
    if origin is Annotated:
        own = msgspec.Meta
        return any(type(i) is not own and facts_of([i]) for i in hint.__metadata__)
    return origin in _UNIONS and not _is_readable(hint)


def _mirror(kind: Any, known: Known) -> None:
    """Have a stand-in for a class, built of fields in msgspec's words."""
    # Known before it is made, because its fields may hold it.
    stand = known.stands[kind] = stands_for(kind.__name__)
    fields = fields_of(kind)
    hints = [_translate(field.hint, known) for field in fields]
    inner = [f"field_{number}" for number in range(len(fields))]
    mirror = msgspec.defstruct(
        kind.__name__,
        [
            (own, hint, *_unset_unless(field.is_needed))
            for own, hint, field in zip(inner, hints, fields, strict=True)
        ],
        rename=dict(zip(inner, (field.name for field in fields), strict=True)),
        kw_only=True,
        forbid_unknown_fields=known.is_exact,
    )
    parameters = [field.parameter for field in fields]

    def make(value: Any, *, strict: bool) -> Any:
        hook = STRICT if strict else LENIENT
        try:
            made = msgspec.convert(
                value, mirror, strict=strict, str_keys=True, dec_hook=hook
            )
        except msgspec.ValidationError as error:
            # Its path would be lost: msgspec takes the place of the whole for it.
            raise Fault(places_of(error)) from error
        given = zip(parameters, msgspec.structs.astuple(made), strict=True)
        return kind(**{name: v for name, v in given if v is not msgspec.UNSET})

    def describe(schemas: Schemas) -> dict[str, Any]:
        made = described(kind, fields, schemas.of(hints))
        return {**made, "additionalProperties": False} if known.is_exact else made

    stand.make, stand.describe = make, describe


def _unset_unless(is_needed: bool) -> tuple[Any, ...]:  # noqa: FBT001 - its one subject
    return () if is_needed else (msgspec.UNSET,)
