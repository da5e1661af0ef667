"""Reading of a function's signature, once, at its registration.

The type hints of the parameters form one `msgspec` struct, so that a call converts all
of its arguments at once. Only if that fails is each argument converted separately, to
report all errors. An explicit schema is checked by jsonschema-rs; if that is missing,
only its top level is. Descriptions of parameters come from the docstring.

Errors in a function's declaration are raised here, with its name and location.
"""

from __future__ import annotations

import enum
import inspect
import re
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import attrs
import msgspec

from mcpwire.protocol.json_schema import properties_of, required_of
from mcpwire.server.authoring.conversion import (
    LENIENT,
    STRICT,
    BadArguments,
    convert,
    describe_choices,
    describe_value,
    excerpt,
    faults_of,
    is_json,
    read_whole,
    to_json_value,
    validator_of,
)
from mcpwire.server.authoring.injection import (
    Dependencies,
    describe_function,
    hints_of,
    injection_of,
    target_of,
)
from mcpwire.server.authoring.results import Returns, read_returns
from mcpwire.server.authoring.schemas import (
    Schemas,
    members_of,
    translate,
    without_null,
)
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.server.authoring.injection import Injected

_SECTION_NAMES: Final = frozenset(
    {"args", "arguments", "parameters", "params", "other parameters", "keyword args"}
)
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_GOOGLE_ITEM: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?")
_NUMPY_ITEM: Final = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX_ITEM: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:\s]+\s+)*?\*{0,2}(\w+)\s*:"
    r"\s*(.*)"
)
_SPHINX_TYPE: Final = re.compile(r":(?:type|vartype)\s[^:]*:")
_MAX_LINE: Final = 2_000  # characters of a line that the patterns search


def read_docstring(text: str | None) -> tuple[str | None, dict[str, str]]:
    """Return the description in a docstring, and those of its parameters."""
    lines = inspect.cleandoc(text or "").splitlines()
    prose: list[str] = []
    descriptions: dict[str, list[str]] = {}
    index = 0
    while index < len(lines):
        line, after = lines[index], "".join(lines[index + 1 : index + 2])
        title = line.strip().lower()
        sphinx = _SPHINX_ITEM.match(line[:_MAX_LINE])
        end = _end_of_block(lines, index + 1)
        if sphinx is not None:
            descriptions[sphinx[1]] = [sphinx[2], *lines[index + 1 : end]]
        elif _SPHINX_TYPE.match(line[:_MAX_LINE]):
            pass
        elif title in _SECTION_NAMES and _UNDERLINE.fullmatch(after):
            rest = range(index + 2, len(lines) - 1)
            titles = (n for n in rest if _UNDERLINE.fullmatch(lines[n + 1]))
            end = next(titles, len(lines))
            _read_items(lines[index + 2 : end], _NUMPY_ITEM, descriptions)
        elif (
            title.endswith(":")
            and title[:-1] in _SECTION_NAMES
            and (not _indent(line) and after.strip() and _indent(after))
        ):
            _read_items(lines[index + 1 : end], _GOOGLE_ITEM, descriptions)
        else:
            prose.append(line)
            end = index + 1
        index = end
    description = "\n".join(prose).strip()
    return description or None, {
        name: joined
        for name, texts in descriptions.items()
        if (joined := " ".join(filter(None, map(str.strip, texts))))
    }


def _end_of_block(lines: list[str], start: int) -> int:
    """Return the end of a block of indented lines, which may contain blank lines."""
    end = start
    for number in range(start, len(lines)):
        if lines[number].strip():
            if not _indent(lines[number]):
                break
            end = number + 1
    return end


def _read_items(
    body: list[str], pattern: re.Pattern[str], descriptions: dict[str, list[str]]
) -> None:
    """Parse a list of parameters: each begins at the least indented column."""
    lines = [line for line in body if line.strip()]
    indent = min(map(_indent, lines), default=0)
    names: list[str] = []
    for line in lines:
        item = pattern.match(line[indent:][:_MAX_LINE])
        if _indent(line) == indent and item is not None:
            names = [name.strip() for name in item[1].split(",")]
            first = item[2] if pattern.groups > 1 else ""
            descriptions |= {name: [first or ""] for name in names}
        else:
            for name in names:
                descriptions[name].append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_NONE: Final = type(None)


MISSING: Final = inspect.Parameter.empty
"""The default of a required parameter."""

# Types of defaults that a struct stores unchanged; it would copy or refuse others.
_IMMUTABLE: Final = (str, int, float, bool, bytes, _NONE, tuple, frozenset, enum.Enum)

# What msgspec raises for a value; `TypeError` for an array or object in a `set`.
_FAILURES: Final = (ValueError, TypeError, RecursionError)


@attrs.frozen(eq=False)
class Parameter:
    """One parameter of a function."""

    name: str
    hint: Any
    default: Any = MISSING
    description: str | None = None


class HintedParameters:
    """Parameters that type hints describe."""

    def __init__(self, parameters: Sequence[Parameter], *, coerce: bool) -> None:
        self.names = tuple(each.name for each in parameters)
        self.required = frozenset(
            each.name for each in parameters if each.default is MISSING
        )
        self._by_name = {each.name: each for each in parameters}
        self._hints: dict[str, Any] = {}
        # 2025-11-25 server/tools, "Tool": a tool without arguments allows none.
        root: dict[str, Any] = {"type": "object", "properties": {}}
        schemas = Schemas(for_input=True)
        for each in parameters:
            try:
                hint = self._hints[each.name] = _hint(each)
                schema = schemas.of(hint)
            except TypeError as error:
                raise TypeError(f"the parameter {each.name!r}: {error}") from error
            root["properties"][each.name] = _property(each, schema)
        if self.required:
            root["required"] = [name for name in self.names if name in self.required]
        self.schema = schemas.finish({**root, "additionalProperties": False})
        self._options: dict[str, Any] = {
            "strict": not coerce,
            "str_keys": True,
            "dec_hook": LENIENT if coerce else STRICT,
        }
        # In a class of another name, `__a` would get another name itself.
        self._struct = msgspec.defstruct(
            "_",
            [
                (name, hint, *_default(self._by_name[name].default))
                for name, hint in self._hints.items()
            ],
            kw_only=True,
            forbid_unknown_fields=True,
            gc=False,
        )

    def convert(self, arguments: object) -> dict[str, Any]:
        """Return the keyword arguments of a call. Raises `BadArguments`."""
        if arguments is None:
            arguments = {}
        try:
            converted = msgspec.convert(arguments, self._struct, **self._options)
        except _FAILURES:
            # Not always an error, see `read_whole`.
            read = self._convert_one if self._options["strict"] else self._convert_text
            return self._convert_separately(arguments, read)
        return msgspec.structs.asdict(converted)

    def convert_strings(
        self, arguments: Mapping[str, str | Sequence[str]]
    ) -> dict[str, Any]:
        """Convert texts to keyword arguments; a text that does not fit may be JSON."""
        return self._convert_separately(arguments, self._convert_text)

    def _convert_separately(
        self, arguments: object, read: Callable[[str, Any], Any]
    ) -> dict[str, Any]:
        if not isinstance(arguments, dict):
            raise BadArguments(
                [f"arguments: expected object, got {describe_value(arguments)}"]
            )
        converted: dict[str, Any] = {}
        faults: list[str] = []
        for name, value in arguments.items():
            if name not in self._hints:
                existing = f", there are {', '.join(self.names)}" if self.names else ""
                faults.append(f"unknown argument {excerpt(name)}{existing}")
                continue
            try:
                converted[name] = read(name, value)
            except _FAILURES as error:
                schema = self.schema["properties"][name]
                faults += faults_of(name, value, error, schema)
        for name in self.names:
            if name not in arguments:
                converted[name] = self._by_name[name].default
                if converted[name] is MISSING:
                    faults.append(f"{name} is missing")
        if faults:
            raise BadArguments(faults)
        return converted

    def _convert_one(self, name: str, value: Any) -> Any:
        read = partial(msgspec.convert, type=self._hints[name], **self._options)
        return read_whole(read, value)

    def _convert_text(self, name: str, text: str) -> Any:
        hint = self._hints[name]
        try:
            return convert(text, hint, strict=False)
        except ValueError as error:
            try:
                # An exploded variable of a URI template is a list.
                return self._convert_one(
                    name, loads(text) if type(text) is str else text
                )
            except JSONDecodeError:
                raise error from None


def _default(default: Any) -> tuple[Any, ...]:
    if default is MISSING:
        return ()
    if isinstance(default, _IMMUTABLE):
        return (default,)
    return (msgspec.field(default_factory=lambda: default),)


def _hint(parameter: Parameter) -> Any:
    """Return the hint for conversions; a default of ``None`` makes ``None`` valid."""
    result = translate(parameter.hint, is_exact=True)
    members = members_of(parameter.hint)
    takes_none = any(member in (_NONE, None, Any) for member in members)
    return result if takes_none or parameter.default is not None else result | None


def _property(parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    if parameter.description is not None and "description" not in schema:
        schema = {**schema, "description": parameter.description}
    if parameter.default is None:
        return without_null(schema)
    if parameter.default is MISSING:
        return schema
    try:
        default = to_json_value(parameter.default)
    except (TypeError, ValueError):
        return schema  # a default without a JSON form is left out
    return {**schema, "default": default} if is_json(default) else schema


_IS_TYPE: Final[Mapping[str, Callable[[Any], bool]]] = {
    "array": lambda value: type(value) is list,
    "boolean": lambda value: type(value) is bool,
    # JSON Schema 2020-12 validation, 6.1.1: a number without a fraction is an integer.
    "integer": lambda value: (
        type(value) is int or (type(value) is float and value.is_integer())
    ),
    "null": lambda value: value is None,
    "number": lambda value: type(value) in {int, float},
    "object": lambda value: type(value) is dict,
    "string": lambda value: type(value) is str,
}


def _flat_faults(schema: Mapping[str, Any], arguments: dict[str, Any]) -> list[str]:
    """Return the violations of a flat object's types, values and bounds.

    It ignores `$ref` and unknown keywords.
    """
    properties = properties_of(schema)
    required = required_of(schema)
    faults = [f"{name} is missing" for name in required if name not in arguments]
    for name, value in arguments.items():
        rule = properties.get(name)
        if name not in properties and schema.get("additionalProperties") is False:
            faults.append(f"unknown argument {excerpt(name)}")
        elif type(rule) is dict and (expected := _expected(value, rule)):
            faults.append(f"{name}: expected {expected}, got {describe_value(value)}")
    return faults


def _expected(value: Any, rule: Mapping[str, Any]) -> str | None:
    """Return the rule that a value violates, in words; ``None``: it is valid."""
    kind = rule.get("type", ())
    kinds = [kind] if isinstance(kind, str) else kind
    checks = [_IS_TYPE[item] for item in kinds if item in _IS_TYPE]
    if checks and not any(fits(value) for fits in checks):
        return " or ".join(kinds)
    allowed = _allowed_values(rule)
    if allowed is not None and not any(_is_same(value, item) for item in allowed):
        return describe_choices(allowed)
    if _IS_TYPE["number"](value):
        if value < rule.get("minimum", value):
            return f"number >= {rule['minimum']}"
        if value > rule.get("maximum", value):
            return f"number <= {rule['maximum']}"
    return None


def _allowed_values(rule: Mapping[str, Any]) -> list[Any] | None:
    values: list[Any] | None = rule.get("enum")
    return [rule["const"]] if values is None and "const" in rule else values


def choices_of(schema: Mapping[str, Any]) -> list[str] | None:
    """Return the texts that an argument's schema allows; ``None``: no finite list."""
    choices: list[str] = []
    for member in schema.get("anyOf", [schema]):
        kind = member.get("type")
        values = [True, False] if kind == "boolean" else _allowed_values(member)
        if values is not None:
            choices += [
                str(value).lower() if isinstance(value, bool) else str(value)
                for value in values
                if value is not None
            ]
        elif kind != "null":
            return None
    return list(dict.fromkeys(choices))


def _add_defaults(
    properties: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arguments with the defaults of a schema; integers become `int`."""
    rules = {name: rule for name, rule in properties.items() if type(rule) is dict}
    filled = {n: rule["default"] for n, rule in rules.items() if "default" in rule}
    for name, value in arguments.items():
        is_whole = rules.get(name, {}).get("type") == "integer"
        filled[name] = int(value) if is_whole else value
    return filled


def _is_same(value: Any, other: Any) -> bool:
    # In Python 1 equals True, in JSON it does not.
    return (type(value) is bool) is (type(other) is bool) and bool(value == other)


class ExplicitParameters:
    """Parameters that an explicit schema describes; the function gets one dict."""

    def __init__(self, schema: Mapping[str, Any], argument: str | None) -> None:
        if not isinstance(schema, dict) or schema.get("type") != "object":
            # 2025-11-25 server/tools, "Tool": an object, its root of type "object".
            raise ValueError('input_schema: expected an object with "type": "object"')
        self.schema: dict[str, Any] = deepcopy(schema)
        self._argument = argument
        self._validator = validator_of(self.schema, "input_schema")
        self._properties = properties_of(self.schema)
        self.names = tuple(self._properties)
        self.required = frozenset(required_of(self.schema))

    def convert(self, arguments: object) -> dict[str, Any]:
        """Check the arguments and add defaults; return the keyword arguments."""
        if arguments is None:
            arguments = {}
        if type(arguments) is not dict:
            raise BadArguments(
                [f"arguments: expected object, got {describe_value(arguments)}"]
            )
        if self._validator is None:
            faults = _flat_faults(self.schema, arguments)
        else:
            fault = self._validator.check(arguments, "arguments")
            faults = [] if fault is None else [fault]
        if faults:
            raise BadArguments(faults)
        checked = _add_defaults(self._properties, arguments)
        return {} if self._argument is None else {self._argument: checked}

    def convert_strings(
        self, arguments: Mapping[str, str | Sequence[str]]
    ) -> dict[str, Any]:
        """Check arguments that are texts, without converting them."""
        return self.convert(dict(arguments))


Parameters: TypeAlias = "HintedParameters | ExplicitParameters"
"""The parameters of a function that a client fills, with their conversion."""

_UNSUPPORTED: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, which cannot be "
    "described",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, which cannot be "
    "described",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only: remove the '/'",
}


@attrs.frozen(eq=False)
class Signature:
    """The signature of a registered function."""

    function: Callable[..., Any]

    parameters: Parameters
    """The parameters that the client fills."""

    dependencies: Dependencies | None
    """The parameters that the server fills; ``None``: there are none."""

    returns: Returns

    is_async: bool

    description: str | None
    """The docstring, without the descriptions of parameters."""


def read_signature(
    function: Callable[..., Any],
    *,
    coerce: bool = False,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    structured: bool | None = None,
    validate: bool = True,
) -> Signature:
    """Read a function's parameters, hints and docstring."""
    target = target_of(function)
    try:
        _check_kind(function, target)
        hints = hints_of(target)
        client_parameters, injected = _split_parameters(function, hints)
        dependencies = Dependencies(injected) if injected else None
        description, texts = read_docstring(inspect.getdoc(target))
        parameters: Parameters
        if input_schema is not None:
            parameters = ExplicitParameters(
                input_schema, _single_parameter(client_parameters)
            )
        else:
            parameters = HintedParameters(
                [
                    _parameter(parameter, hints, texts)
                    for parameter in client_parameters
                ],
                coerce=coerce,
            )
        returns = read_returns(
            hints.get("return", Any),
            output_schema=output_schema,
            structured=structured,
            validate=validate,
        )
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{describe_function(function)}: {error}") from error
    return Signature(
        function, parameters, dependencies, returns, _is_async(function), description
    )


def _check_kind(function: Any, target: Any) -> None:
    if not callable(function):
        raise TypeError("it cannot be called")
    if inspect.isclass(target):
        raise TypeError("it is a class: register a function")
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise TypeError("it is a generator: return everything at once, in a list")


def _is_async(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - as above
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function) and inspect.iscoroutinefunction(call)
    )


# --- hints


def _split_parameters(
    function: Callable[..., Any], hints: Mapping[str, Any]
) -> tuple[list[inspect.Parameter], dict[str, Injected]]:
    """Return the parameters that the client fills, and those that the server fills."""
    client_parameters: list[inspect.Parameter] = []
    injected: dict[str, Injected] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        injection = injection_of(parameter, hints.get(name))
        if injection is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
            injected[name] = injection
            continue
        if parameter.kind in _UNSUPPORTED:
            raise TypeError(f"the parameter {name!r} {_UNSUPPORTED[parameter.kind]}")
        if name in {"self", "cls"} and not client_parameters and name not in hints:
            raise TypeError(
                f"the parameter {name!r}: register the method of an object, or a "
                "function"
            )
        client_parameters.append(parameter)
    return client_parameters, injected


def _single_parameter(parameters: list[inspect.Parameter]) -> str | None:
    """Return the name of the one parameter that gets all arguments."""
    required = [each for each in parameters if each.default is each.empty] or parameters
    if len(required) > 1:
        raise TypeError(
            f"the parameter {required[1].name!r} is one too many: with a schema of its "
            "own, a function takes all arguments in one dict"
        )
    return required[0].name if required else None


def _parameter(
    parameter: inspect.Parameter, hints: Mapping[str, Any], texts: Mapping[str, str]
) -> Parameter:
    hint, default = hints.get(parameter.name, Any), parameter.default
    if _is_field(default):
        hint, default = Annotated[hint, default], MISSING
    for field in filter(_is_field, getattr(hint, "__metadata__", ())):
        if default is not MISSING:
            break
        if field.default_factory is not None:
            raise TypeError(
                f"the parameter {parameter.name!r} has a Field with a default_factory: "
                "give it a default"
            )
        if not field.is_required():
            default = field.default
    return Parameter(parameter.name, hint, default, texts.get(parameter.name))


def _is_field(item: Any) -> bool:
    """Return whether an object is a ``Field(...)`` of pydantic."""
    kind = type(item)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic.")
