"""Elicitation forms from Python types, and validation of the answers.

client/elicitation, "Requested Schema": a flat object of strings, numbers, booleans and
choices. A type with any other field is refused, with the name of the field. Shapes
differ by revision: since 2025-11-25 there are defaults, titles as `oneOf`, and lists of
choices; earlier revisions have titles in `enumNames`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.server.authoring.conversion import BadArguments, describe_value, excerpt
from mcpwire.server.authoring.schemas import (
    TITLES,
    Field,
    Schemas,
    fields_of,
    translate,
    without_null,
)
from mcpwire.server.authoring.signature import HintedParameters, Parameter
from mcpwire.versions import LATEST, REVISIONS, Revision

_NOV_2025: Final = REVISIONS[3]

VALUE: Final = "value"
"""The name of the field in a form for a single value."""

_SHARED: Final = ("type", "title", "description", "default")
_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "array": (*_SHARED, "minItems", "maxItems", "items"),
    "boolean": _SHARED,
    "integer": (*_SHARED, "minimum", "maximum"),
    "number": (*_SHARED, "minimum", "maximum"),
    "string": (*_SHARED, "minLength", "maxLength", "format"),
}
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


def form_schema(form_type: Any, revision: Revision) -> dict[str, Any]:
    """Return the form schema of a type, or of a schema, in the shape of a revision."""
    raw = _schema_of(form_type)
    properties, required = raw.get("properties", {}), raw.get("required", ())
    if raw.get("type") != "object" or not isinstance(properties, dict):
        raise LocalProtocolError("a form is an object with properties")
    for name in required:
        if name not in properties:
            raise _field_error(name, "it is required, but the form has no such field")
    form: dict[str, Any] = {
        "type": "object",
        "properties": {
            name: _field(name, field, revision) for name, field in properties.items()
        },
    }
    if required:
        form["required"] = list(required)
    if "$schema" in raw and revision >= _NOV_2025:
        form["$schema"] = raw["$schema"]
    return form


def _field_error(name: object, reason: str) -> LocalProtocolError:
    return LocalProtocolError(f"the form's field {excerpt(name)}: {reason}")


# --- from types


def _schema_of(form_type: Any) -> dict[str, Any]:
    if form_type is None:
        return {"type": "object", "properties": {}}
    if isinstance(form_type, Mapping):
        return dict(form_type)
    is_class = isinstance(form_type, type) and not issubclass(form_type, tuple)
    if is_class and (fields := fields_of(form_type)):
        schemas = Schemas(for_input=True, has_titles=True)
        properties = {field.name: _field_schema(field, schemas) for field in fields}
        required = [field.name for field in fields if field.is_needed]
        return {"type": "object", "properties": properties, "required": required}
    schema = _full_schema(form_type)
    if schema.get("type") == "object":
        if "properties" not in schema:
            raise LocalProtocolError(f"cannot make a form of {form_type!r}: no fields")
        return schema
    return {"type": "object", "properties": {VALUE: schema}, "required": [VALUE]}


def _field_schema(field: Field, schemas: Schemas) -> dict[str, Any]:
    """Return a field's schema with its default."""
    schema = schemas.of(translate(field.hint, is_exact=True))
    has_default = field.default_keyword.get("default") is not None
    return {**schema, **field.default_keyword} if has_default else schema


def _full_schema(form_type: Any) -> dict[str, Any]:
    try:
        translated = translate(form_type, is_exact=True)
        return Schemas(for_input=True, has_titles=True).document(translated)
    except TypeError as error:
        raise LocalProtocolError(
            f"cannot make a form of {form_type!r}: {error}"
        ) from error


# --- fields


def _field(name: str, raw: Any, revision: Revision) -> dict[str, Any]:
    """Return a field in the shape that the revision defines."""
    field = without_null(raw) if isinstance(raw, dict) else {}
    if "const" in field:
        field = {**field, "enum": [field["const"]]}
    titles = _titles(name, field)
    shaped: dict[str, Any]
    if titles is not None:
        shared: dict[str, Any] = {key: field[key] for key in _SHARED if key in field}
        shaped = {"type": "string", **shared, **_choice(titles, field, revision)}
    else:
        shaped = _plain_field(name, field, revision)
    if revision < _NOV_2025 and shaped["type"] != "boolean":
        # 2025-06-18 schema, PrimitiveSchemaDefinition: only booleans have a default.
        shaped.pop("default", None)
    return shaped


def _titles(name: str, field: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the allowed choices with their titles; ``None``: no choices."""
    declared = field.get(TITLES, {})
    options = field.get("oneOf", field.get("anyOf"))
    if isinstance(options, list):
        titles: dict[Any, Any] = {
            option["const"]: option.get("title")
            for option in options
            if isinstance(option, dict) and "const" in option
        }
        if len(titles) != len(options):
            raise _field_error(name, "it may be one of several kinds; a field has one")
    elif isinstance(field.get("enum"), list):
        names = field.get("enumNames") or []
        titles = dict.fromkeys(field["enum"])
        titles.update(zip(field["enum"], names, strict=False))
    else:
        return None
    if not all(isinstance(value, str) for value in titles):
        raise _field_error(name, "its choices have to be texts")
    return {value: declared.get(value) or title for value, title in titles.items()}


def _choice(
    titles: dict[str, str], field: Mapping[str, Any], revision: Revision
) -> dict[str, Any]:
    """Return the choices without titles, with `enumNames` or as `oneOf`."""
    values = list(titles)
    if not any(titles.values()):
        return {"enum": values}
    if "enumNames" in field or revision < _NOV_2025:
        names = [title or value for value, title in titles.items()]
        return {"enum": values, "enumNames": names}
    return {"oneOf": _options(titles)}


def _options(titles: dict[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": titles[value] or value} for value in titles]


def _plain_field(
    name: str, field: Mapping[str, Any], revision: Revision
) -> dict[str, Any]:
    kind = field.get("type")
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        raise _field_error(
            name, "it must be a text, a number, yes or no, or a choice of texts"
        )
    shaped = {key: field[key] for key in _KEYWORDS[kind] if key in field}
    if kind == "array":
        if revision < _NOV_2025:
            raise _field_error(name, f"lists of choices exist since {_NOV_2025}")
        shaped["items"] = _items(name, field.get("items"))
    elif kind == "integer":
        # Forms have inclusive bounds only.
        if "exclusiveMinimum" in field:
            shaped.setdefault("minimum", field["exclusiveMinimum"] + 1)
        if "exclusiveMaximum" in field:
            shaped.setdefault("maximum", field["exclusiveMaximum"] - 1)
    elif shaped.get("format", "uri") not in _FORMATS:
        del shaped["format"]
    return shaped


def _items(name: str, items: Any) -> dict[str, Any]:
    titles = _titles(name, items) if isinstance(items, dict) else None
    if titles is None:
        raise _field_error(name, "a list is of texts that may be chosen")
    if not any(titles.values()):
        return {"type": "string", "enum": list(titles)}
    return {"anyOf": _options(titles)}


# --- answers


def read_answer(form_type: Any, content: object) -> Any:
    """Return a user's answer as the given type, or as a dict for a schema."""
    # client/elicitation, "Security Considerations": both sides validate.
    if not isinstance(content, Mapping):
        raise BadArguments([f"content: expected object, got {describe_value(content)}"])
    form = form_schema(form_type, LATEST)
    checked = _check_content(form, content)
    if form_type is None or isinstance(form_type, Mapping):
        return checked
    is_record = (
        isinstance(form_type, type) and _full_schema(form_type).get("type") == "object"
    )
    is_single = list(form["properties"]) == [VALUE] and not is_record
    parameter = Parameter(VALUE if is_single else "content", form_type)
    arguments = HintedParameters([parameter], coerce=False).convert(
        checked if is_single else {"content": checked}
    )
    return arguments[parameter.name]


def _check_content(form: dict[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an answer, without empty ones. Raises `BadArguments`."""
    from mcpwire.protocol.elicitation import check_value
    from mcpwire.types import RequestedSchema, decode

    try:
        fields = decode(RequestedSchema, form).properties
    except InvalidMessage as error:
        raise LocalProtocolError(f"the form is not valid: {error}") from error
    required = form.get("required", ())
    values: dict[str, Any] = {}
    faults = [
        f"content.{name} is missing" for name in required if content.get(name) is None
    ]
    for name, value in content.items():
        # Unknown members are valid (JSON Schema 2020-12 core, 10.3.2.3), but they are
        # dropped: the form did not request them.
        if name in fields and value is not None:
            try:
                values[name] = check_value(fields[name], value)
            except ValueError as error:
                faults.append(f"content.{name}: {error}")
    if faults:
        raise BadArguments(faults)
    return values
