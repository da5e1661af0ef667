"""Schemas that an author writes by hand, for arguments and for results.

With jsonschema-rs they are checked as they say; without, arguments get the simple check
of `mcpwire.server.arguments`, and results none.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from mcpwire.errors import LocalProtocolError, RemoteProtocolError, ToolError
from mcpwire.server.arguments import check_arguments
from mcpwire.server.authoring.faults import BadArguments, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.output_validation import SchemaValidator

__all__ = ["ExplicitParameters", "validator_of"]


def validator_of(schema: Mapping[str, Any], what: str) -> SchemaValidator | None:
    """Return what checks values; ``None`` where jsonschema-rs is not installed.

    Raises:
        ValueError: The schema is none.
    """
    from mcpwire.protocol.output_validation import SchemaValidator

    try:
        return SchemaValidator(schema)
    except LocalProtocolError:
        return None
    except RemoteProtocolError as error:
        raise ValueError(f"{what}: {error}") from error


class ExplicitParameters:
    """Arguments that a function takes as they are, in one dict.

    Raises:
        ValueError: The schema is not one of a tool's arguments.
    """

    def __init__(self, schema: Mapping[str, Any], argument: str | None) -> None:
        """Take the schema, and the name of the parameter that gets the dict."""
        if not isinstance(schema, dict) or schema.get("type") != "object":
            # 2025-11-25 server/tools, "Tool": an object, its root of type "object".
            raise ValueError('input_schema: expected an object with "type": "object"')
        self.schema: dict[str, Any] = deepcopy(schema)
        self._argument = argument
        self._validator = validator_of(self.schema, "input_schema")
        properties = self.schema.get("properties", {})
        self._properties: dict[str, Any] = {
            name: rule for name, rule in properties.items() if isinstance(rule, dict)
        }
        self.names = tuple(properties)
        self.required = frozenset(self.schema.get("required", ()))

    def convert(self, arguments: object) -> dict[str, Any]:
        """Return what the function is called with, by keyword.

        Defaults of the schema stand where an argument is not given.

        Raises:
            BadArguments: They break the schema; says where.
        """
        if arguments is None:
            arguments = {}
        if type(arguments) is not dict:
            raise BadArguments([f"arguments: expected object, got {shown(arguments)}"])
        checked = self._checked(arguments)
        return {} if self._argument is None else {self._argument: checked}

    def _checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._validator is None:
            try:
                return check_arguments(self.schema, arguments)
            except ToolError as error:
                raise BadArguments([str(error)]) from error
        fault = self._validator.check(arguments, "arguments")
        if fault is not None:
            raise BadArguments([fault])
        made = {
            name: rule["default"]
            for name, rule in self._properties.items()
            if "default" in rule
        }
        for name, value in arguments.items():
            is_whole = self._properties.get(name, {}).get("type") == "integer"
            made[name] = int(value) if is_whole else value
        return made

    def convert_strings(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return the same; texts are what they are.

        Raises:
            BadArguments: They break the schema; says where.
        """
        return self.convert(dict(arguments))

    def choices(self, name: str) -> list[str] | None:
        """Return what an argument may be, where its schema lists texts."""
        values = self._properties.get(name, {}).get("enum")
        if not isinstance(values, list):
            return None
        return [value for value in values if isinstance(value, str)]
