"""The methods ``prompts/list`` and ``prompts/get``, for prompts made of functions.

On the wire every argument is a text. A function may take other types: texts are
converted to them, and the listed description of the argument explains its format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.errors import InvalidParams
from mcpwire.server.authoring.conversion import BadArguments
from mcpwire.server.authoring.results import prompt_result
from mcpwire.server.authoring.signature import (
    Parameters,
    Signature,
    choices_of,
    read_signature,
)
from mcpwire.server.components import (
    Component,
    check_options,
    compose,
    name_of,
    object_of,
)
from mcpwire.server.request import EXCERPT, RequestContext, member_of
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcpwire.server.components import Table


@attrs.define(eq=False, kw_only=True, repr=False)
class Prompt(Component):
    """A prompt: messages that a function returns and that a user may select."""

    wire_type: ClassVar[str] = "Prompt"

    @property
    def arguments(self) -> Sequence[str]:
        """The names of its arguments, in the listed order."""
        parameters: Parameters = self.signature.parameters
        return parameters.names

    def convert(self, arguments: object) -> dict[str, Any]:
        """Return the keyword arguments of its function. Raises `InvalidParams`."""
        arguments = {} if arguments is None else arguments
        if type(arguments) is not dict:
            raise InvalidParams("params.arguments must be an object")
        parameters: Parameters = self.signature.parameters
        errors = [
            f"the argument {name!r} is missing"
            for name in parameters.names
            if name in parameters.required and name not in arguments
        ]
        for name, value in arguments.items():
            if len(errors) >= _MAX_ERRORS:
                break
            if name not in parameters.names:
                errors.append(f"unknown argument {name[:EXCERPT]!r}")
            elif type(value) is not str:
                errors.append(f"the argument {name!r} must be a string")
        if errors:
            raise InvalidParams(f"prompt {self.key!r}: {'; '.join(errors)}")
        try:
            return parameters.convert_strings(arguments)
        except BadArguments as error:
            raise InvalidParams(f"prompt {self.key!r}: {error}") from error


_MAX_ERRORS: Final = 10
"""The maximum number of faults in one error message."""


def make_prompt(function: Callable[..., Any], options: Mapping[str, Any]) -> Prompt:
    """Return a prompt; the options are those of `Server.prompt`."""
    check_options("prompt", options)
    name = options.get("name") or name_of(function)
    explicit = options.get("arguments")
    if explicit is None:
        signature = read_signature(function, structured=False)
        arguments = _derive_arguments(signature)
    else:
        arguments = [
            {"name": each} if isinstance(each, str) else object_of(each)
            for each in explicit
        ]
        schema = _schema(arguments)
        signature = read_signature(function, input_schema=schema, structured=False)
    definition = compose(
        {"name": name},
        options,
        description=signature.description,
        arguments=arguments or None,
    )
    return Prompt.of(name, definition, options, function, signature, make=make_prompt)


def _schema(arguments: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {argument["name"]: {"type": "string"} for argument in arguments},
        "required": [a["name"] for a in arguments if a.get("required")],
        "additionalProperties": False,
    }


def _derive_arguments(signature: Signature) -> list[dict[str, Any]]:
    parameters = signature.parameters
    properties = parameters.schema.get("properties", {})
    arguments = []
    for name in parameters.names:
        schema = properties.get(name, {})
        sentences = filter(None, [schema.get("description"), _format(schema)])
        argument = {
            "name": name,
            "description": " ".join(sentences),
            "required": name in parameters.required,
        }
        arguments.append({key: value for key, value in argument.items() if value})
    return arguments


_FORMATS: Final = {
    "integer": "An integer.",
    "number": "A number.",
    "boolean": "true or false.",
}


def _format(schema: Mapping[str, Any]) -> str | None:
    """Return a description of an argument's format, if not every text is valid."""
    if choices := choices_of(schema):
        return f"One of: {', '.join(choices)}."
    kind = schema.get("type")
    if kind == "string":
        return f"Format: {schema['format']}." if "format" in schema else None
    if isinstance(kind, str) and kind in _FORMATS:
        return _FORMATS[kind]
    keywords = {k: v for k, v in schema.items() if k not in {"description", "default"}}
    if not keywords:
        return None
    return f"JSON that fits {encode(keywords).decode()}."


async def get_prompt(
    table: Table[Prompt], params: dict[str, Any], request: RequestContext
) -> dict[str, Any]:
    """Handle ``prompts/get``."""
    prompt = table.usable(member_of(params, "name", str), request)
    arguments = prompt.convert(params.get("arguments"))
    value = await prompt.call(arguments, request)
    description = prompt.definition.get("description")
    return prompt_result(value, description, request.revision)
