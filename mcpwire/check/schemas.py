"""JSON schemas of the specification, and validation of messages.

`schemas.json.xz` contains the definitions of all revisions without descriptions;
`tests/check/make_schemas.py` generates it from the specification.
"""

from __future__ import annotations

import lzma
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from mcpwire.check.subject import Message

DATA_FILE: Final = "schemas.json.xz"
_MAX_ERROR_CHARS: Final = 300


def load_validators() -> ModuleType:
    """Import jsonschema-rs.

    Raises:
        LocalProtocolError: jsonschema-rs is not installed.
    """
    try:
        import jsonschema_rs
    except ImportError as error:
        raise LocalProtocolError(
            "mcpwire check needs jsonschema-rs: pip install jsonschema-rs"
        ) from error
    return jsonschema_rs


class ProtocolSchema:
    """Definitions of one revision; each validator is compiled on first use.

    Attributes:
        definitions: Name -> definition.
        sendable: Role -> method -> name of the definition of the message.
        allows_no_id: Whether an error response may omit an id that could not be read.
        error: Name of the definition of an error response.
        answer: Name of the definition of a response with a result.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._key = "$defs" if "$defs" in document else "definitions"
        self.definitions: dict[str, Any] = dict(document[self._key])
        if (result := self.definitions.get("ElicitResult")) is not None:
            # schema.ts has `number` there, from which the generated schema.json makes
            # `integer`; a form may ask for 3.14 (SEP-1034 does).
            text = encode(result).replace(b'"integer"', b'"number"')
            self.definitions["ElicitResult"] = loads(text)
        is_new = self._key == "$defs"
        self.answer = "JSONRPCResultResponse" if is_new else "JSONRPCResponse"
        self.error = "JSONRPCErrorResponse" if is_new else "JSONRPCError"
        self.allows_no_id = "id" not in self.definitions[self.error]["required"]
        self._draft = "Draft202012Validator" if is_new else "Draft7Validator"
        self._validators: dict[str, Any] = {}
        self.sendable = {
            "client": self._methods_of_union("ClientRequest")
            | self._methods_of_union("ClientNotification"),
            "server": self._methods_of_union("ServerRequest")
            | self._methods_of_union("ServerNotification"),
        }

    def _methods_of_union(self, name: str) -> dict[str, str]:
        methods = {}
        definition = self.definitions.get(name, {})
        for part in definition.get("anyOf", [{"$ref": f"/{name}"}]):
            member = part["$ref"].rpartition("/")[2]
            properties = self.definitions.get(member, {}).get("properties", {})
            if "method" in properties:
                methods[properties["method"]["const"]] = member
        return methods

    def result_definition(self, method: str) -> str | None:
        """Return the name of the definition of a method's result; ``None``: unknown."""
        for table in self.sendable.values():
            request = table.get(method)
            if request is not None:
                stem = request.removesuffix("Request")
                for name in (f"{stem}ResultResponse", f"{stem}Result"):
                    if name in self.definitions:
                        return name
                return "EmptyResult"
        return None

    def problem(self, name: str, value: object) -> str | None:
        """Return the first validation error of a value; ``None``: it is valid."""
        return next(self.problems(name, value), None)

    def problems(self, name: str, value: object, base: str = "$") -> Iterator[str]:
        """Yield the validation errors of a value; `base`: the value's JSON path."""
        if name not in self._validators:
            compiled = getattr(load_validators(), self._draft)
            self._validators[name] = compiled(
                {"$ref": f"#/{self._key}/{name}", self._key: self.definitions}
            )
        for error in self._validators[name].iter_errors(value):
            path = base + "".join(
                f"[{part}]" if isinstance(part, int) else f".{part}"
                for part in error.instance_path
            )
            yield f"{path}: {error.message[:_MAX_ERROR_CHARS]} ({name})"


def stem_of(name: str) -> str:
    """Return a definition name that is the same in the schemas of all revisions."""
    return "Error" if name.startswith("JSONRPCError") else name.removesuffix("Response")


@cache
def load_schemas() -> dict[str, ProtocolSchema]:
    """Return the schemas of all revisions, by revision name."""
    text = lzma.decompress((files(__package__) / DATA_FILE).read_bytes())
    return {name: ProtocolSchema(document) for name, document in loads(text).items()}


@attrs.define
class ValidationState:
    """Validation state of the messages of one definition."""

    message: Message | None = None
    """The first invalid message."""
    problem: str = ""


class MessageValidator:
    """Validator of messages against the schema of their revision.

    Args:
        sender: The role that sends the messages.

    Attributes:
        states: Revision -> name of a definition -> validation state.
    """

    def __init__(self, sender: Literal["server", "client"] = "server") -> None:
        load_validators()
        self._sender = sender
        self._schemas = load_schemas()
        self.states: dict[str, dict[str, ValidationState]] = {}

    def validate(self, revision: str, message: Message, method: str | None) -> None:
        """Validate a message; `method`: the method of the request that it answers."""
        if not isinstance(message.value, dict):
            return
        schema = self._schemas[revision]
        name = self._definition(schema, message, method)
        if name is None:
            return
        state = self.states.setdefault(revision, {}).setdefault(name, ValidationState())
        if not state.problem:
            is_bare = message.is_answer and name.endswith("Result")
            value = message.value.get("result") if is_bare else message.value
            problem = schema.problem(name, value)
            if name == schema.error and "result" in message.value:
                problem = problem or "$: `result` beside `error`"
            if problem is not None:
                state.message, state.problem = message, problem

    def find_state(self, revision: str, stem: str) -> ValidationState | None:
        """Return the validation state for a common name as `stem_of` returns it."""
        for name, state in self.states.get(revision, {}).items():
            if stem_of(name) == stem:
                return state
        return None

    def invalid_messages(self, revision: str) -> list[Message]:
        """Return the first invalid message of each definition."""
        states = self.states.get(revision, {}).values()
        return [state.message for state in states if state.message is not None]

    def _definition(
        self, schema: ProtocolSchema, message: Message, method: str | None
    ) -> str | None:
        if not message.is_answer:
            return schema.sendable[self._sender].get(str(message.method))
        if "error" in message.value:
            if message.value.get("id", "") is None:
                return None  # JSON-RPC 2.0 requires null; the schema forbids it
            # Before 2025-11-25 the schema requires an id even if none could be read.
            has_id = "id" in message.value
            return schema.error if has_id or schema.allows_no_id else None
        if method is None:
            return None
        if method == "tools/call" and (
            name := _task_definition(message.value.get("result"))
        ):
            return name if name in schema.definitions else None
        return schema.result_definition(method)


def _task_definition(result: object) -> str | None:
    """Return the definition of a task in a result; ``None``: the result is no task.

    In 2026-07-28 tasks belong to an extension, which the schema does not contain.
    """
    if not isinstance(result, dict):
        return None
    if result.get("resultType") == "task":
        return "no definition"
    return "CreateTaskResult" if "task" in result and "content" not in result else None
