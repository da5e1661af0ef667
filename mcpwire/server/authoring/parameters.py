"""Parameters of a function: their schema, and arguments made of what a client sends.

All parameters are one `msgspec` struct, made when the function is registered, so that a
call converts all of its arguments at once. Only where that fails are they looked at one
by one, to say what is wrong with each.
"""

from __future__ import annotations

import enum
import typing
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import msgspec

from mcpwire.errors import LocalProtocolError
from mcpwire.server.authoring.faults import BadArguments, excerpt, faults_of, shown
from mcpwire.server.authoring.hints.foreign import (
    LENIENT,
    STRICT,
    plain,
    with_whole_numbers,
)
from mcpwire.server.authoring.hints.schema import Schemas, without_null
from mcpwire.server.authoring.hints.translate import bare, members_of, translate
from mcpwire.wire.json import JSONDecodeError, encode, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["MISSING", "HintedParameters", "Parameter", "Parameters"]

_NONE: Final = type(None)


class _Missing(enum.Enum):
    MISSING = "MISSING"


MISSING: Final = _Missing.MISSING
"""The default of a parameter that has none."""

# Values that a struct may hold as they are; others it would copy, or refuse.
_CONSTANTS: Final = (str, int, float, bool, bytes, _NONE, tuple, frozenset, enum.Enum)


_SIMPLE: Final = (str, int, float, bool)


class Parameters(typing.Protocol):
    """What arguments a function takes from a client, and how they are made."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of all arguments, an object."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments."""

    @property
    def required(self) -> frozenset[str]:
        """Those without a default."""

    def convert(self, arguments: object) -> dict[str, Any]:
        """Return what the function is called with, by keyword.

        Raises:
            BadArguments: They do not fit; says where and why.
        """

    def convert_strings(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return the same, of texts that stand for the arguments.

        Raises:
            BadArguments: They do not fit; says where and why.
        """

    def choices(self, name: str) -> list[str] | None:
        """Return what an argument may be, where that is a list."""


@attrs.frozen(eq=False)
class Parameter:
    """One parameter as its function has it."""

    name: str
    hint: Any
    default: Any = MISSING
    description: str | None = None


class HintedParameters:
    """Parameters that type hints describe.

    Raises:
        TypeError: A hint has no JSON form, or says nothing sensible.
    """

    def __init__(self, parameters: Sequence[Parameter], *, coerce: bool) -> None:
        self.names = tuple(each.name for each in parameters)
        self.required = frozenset(
            each.name for each in parameters if each.default is MISSING
        )
        self._by_name = {each.name: each for each in parameters}
        self._is_strict = not coerce
        self._hints = {each.name: _hint(each) for each in parameters}
        self.schema = _schema(parameters, list(self._hints.values()))
        self._plain: tuple[Callable[..., Any], Callable[..., Any], type] | None = None
        self._make = self._maker() if parameters else _take_nothing

    def _maker(self) -> Callable[[Any], dict[str, Any]]:
        struct = msgspec.defstruct(
            "Arguments",
            [
                (name, hint, *_default(self._by_name[name].default))
                for name, hint in self._hints.items()
            ],
            kw_only=True,
            forbid_unknown_fields=True,
            gc=False,
        )
        convert, as_dict = msgspec.convert, msgspec.structs.asdict
        if self._is_strict and all(_is_simple(each) for each in self._hints.values()):
            # Options take time, and nothing here needs any.
            self._plain = convert, as_dict, struct
        strict, hook = self._is_strict, STRICT if self._is_strict else LENIENT

        def make(arguments: Any) -> dict[str, Any]:
            made: dict[str, Any] = as_dict(
                convert(arguments, struct, strict=strict, str_keys=True, dec_hook=hook)
            )
            return made

        return make

    def convert(self, arguments: object) -> dict[str, Any]:
        """Return what the function is called with, by keyword.

        Raises:
            BadArguments: They do not fit; names each that does not.
        """
        if arguments is None:
            arguments = {}
        plain = self._plain
        try:
            if plain is None:
                return self._make(arguments)
            convert, as_dict, struct = plain
            made: dict[str, Any] = as_dict(convert(arguments, struct))
            return made
        except (ValueError, RecursionError):
            return self._one_by_one(arguments)

    def _one_by_one(self, arguments: object) -> dict[str, Any]:
        """Make the arguments again, now looking for what is wrong.

        Nothing may be: for JSON Schema, 1.0 is an integer.
        """
        if type(arguments) is not dict:
            raise BadArguments([f"arguments: expected object, got {shown(arguments)}"])
        made: dict[str, Any] = {}
        faults: list[str] = []
        for name, value in arguments.items():
            if name not in self._hints:
                faults.append(f"unknown argument {excerpt(name)}{self._known()}")
                continue
            try:
                made[name] = self._one(name, value)
            except (ValueError, RecursionError) as error:
                faults += self._faults(name, value, error)
        return self._filled(made, faults, arguments)

    def _one(self, name: str, value: Any) -> Any:
        strict = self._is_strict
        hint, hook = self._hints[name], STRICT if strict else LENIENT
        try:
            return msgspec.convert(
                value, hint, strict=strict, str_keys=True, dec_hook=hook
            )
        except ValueError:
            whole = with_whole_numbers(value)
            if whole is value:
                raise
        return msgspec.convert(whole, hint, strict=strict, str_keys=True, dec_hook=hook)

    def _faults(self, name: str, value: Any, error: BaseException) -> list[str]:
        return faults_of(name, value, error, self.schema["properties"][name])

    def _known(self) -> str:
        return f", there are {', '.join(self.names)}" if self.names else ""

    def _filled(
        self, made: dict[str, Any], faults: list[str], given: Iterable[str]
    ) -> dict[str, Any]:
        """Return the arguments with the defaults of those that were not given."""
        for name in self.names:
            if name not in given:
                default = self._by_name[name].default
                if default is MISSING:
                    faults.append(f"{name} is missing")
                made[name] = default
        if faults:
            raise BadArguments(faults)
        return made

    def convert_strings(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return what the function is called with, of texts.

        A text that does not fit as it is may be JSON.

        Raises:
            BadArguments: They do not fit; names each that does not.
        """
        made: dict[str, Any] = {}
        faults: list[str] = []
        for name, text in arguments.items():
            if name not in self._hints:
                faults.append(f"unknown argument {excerpt(name)}{self._known()}")
                continue
            try:
                made[name] = self._from_text(name, text)
            except (ValueError, RecursionError) as error:
                faults += self._faults(name, text, error)
        return self._filled(made, faults, arguments)

    def _from_text(self, name: str, text: str) -> Any:
        hint = self._hints[name]
        try:
            return msgspec.convert(
                text, hint, strict=False, str_keys=True, dec_hook=LENIENT
            )
        except ValueError as error:
            try:
                # A template gives a list for a variable that is one.
                return self._one(name, loads(text) if type(text) is str else text)
            except JSONDecodeError:
                raise error from None

    def choices(self, name: str) -> list[str] | None:
        """Return what an argument may be, where its hint lists that."""
        parameter = self._by_name.get(name)
        if parameter is None:
            return None
        found: list[str] = []
        for member in members_of(parameter.hint):
            plain = bare(member)
            if plain is _NONE:
                continue
            listed = _listed(plain)
            if listed is None:
                return None
            found += listed
        return list(dict.fromkeys(found))


def _take_nothing(arguments: object) -> dict[str, Any]:
    if type(arguments) is not dict or arguments:
        raise ValueError
    return {}


def _default(default: Any) -> tuple[Any, ...]:
    """Return what a struct's field has for a default."""
    if default is MISSING:
        return ()
    if isinstance(default, _CONSTANTS):
        return (default,)
    return (msgspec.field(default_factory=lambda: default),)


def _hint(parameter: Parameter) -> Any:
    """Return the hint to convert by; ``= None`` makes None a value.

    Raises:
        TypeError: It cannot be read; names the parameter.
    """
    try:
        made = translate(parameter.hint, is_exact=True)
    except TypeError as error:
        raise _refused(parameter, error) from error
    takes_none = any(
        each is _NONE or each is None or each is Any
        for each in members_of(parameter.hint)
    )
    return made if takes_none or parameter.default is not None else made | None


def _is_simple(hint: Any) -> bool:
    return any(hint is each for each in _SIMPLE)


def _listed(plain: Any) -> list[str] | None:
    if plain is bool:
        return ["true", "false"]
    if isinstance(plain, type) and issubclass(plain, enum.Enum):
        return [str(member.value) for member in plain]
    if typing.get_origin(plain) is Literal:
        values = (value for value in typing.get_args(plain) if value is not None)
        return [
            str(value).lower() if isinstance(value, bool) else str(value)
            for value in values
        ]
    return None


# --- the schema


def _schema(parameters: Sequence[Parameter], hints: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of all arguments."""
    # 2025-11-25 server/tools, "Tool": a tool without arguments allows none.
    root: dict[str, Any] = {"type": "object", "properties": {}}
    schemas = Schemas(for_input=True)
    if parameters:
        made = _schemas_of(schemas, parameters, hints)
        root["properties"] = {
            each.name: _property(each, schema)
            for each, schema in zip(parameters, made, strict=True)
        }
    required = [each.name for each in parameters if each.default is MISSING]
    if required:
        root["required"] = required
    root["additionalProperties"] = False
    return schemas.finish(root)


def _schemas_of(
    schemas: Schemas, parameters: Sequence[Parameter], hints: Sequence[Any]
) -> list[dict[str, Any]]:
    made = []
    for parameter, hint in zip(parameters, hints, strict=True):
        try:
            made += schemas.of([hint])
        except TypeError as error:
            raise _refused(parameter, error) from error
    return made


def _refused(parameter: Parameter, error: TypeError) -> TypeError:
    return TypeError(f"the parameter {parameter.name!r}: {error}")


def _property(parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    if parameter.description is not None and "description" not in schema:
        schema = {**schema, "description": parameter.description}
    if parameter.default is None:
        return without_null(schema)
    if parameter.default is MISSING:
        return schema
    try:
        default = plain(parameter.default)
        encode(default)
    except (TypeError, ValueError, LocalProtocolError):
        return schema  # it has no JSON form, and needs none
    return {**schema, "default": default}
