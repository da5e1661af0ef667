"""One field of a form: what is said of it, and what a typed line means for it.

Which values fit stands in `mcpwire.protocol.elicitation`; here words become values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.cli.schemas import literal
from mcpwire.cli.text.escape import shorten
from mcpwire.cli.text.quoting import plain, quoted
from mcpwire.protocol.elicitation import check_value, choices_of, format_problem
from mcpwire.types.elicitation import (
    BooleanSchema,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    UnknownSchema,
    UntitledMultiSelectEnumSchema,
)

if TYPE_CHECKING:
    from mcpwire.protocol.elicitation import Value
    from mcpwire.types import PrimitiveSchemaDefinition

__all__ = ["Field"]

LISTS: Final = (UntitledMultiSelectEnumSchema, TitledMultiSelectEnumSchema)
WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False}
WORDS["false"] = False
SHOWN: Final = 60
"""How much of a value or a title one line shows, in characters."""


class Field:
    """One field, by its name.

    Attributes:
        name: What it is called in the answer.
        title: What it is called on the terminal; harmless.
        is_required: Whether the answer must have it.
    """

    def __init__(
        self, name: str, schema: PrimitiveSchemaDefinition, *, is_required: bool
    ) -> None:
        self.name = name
        self.is_required = is_required
        self._schema = schema
        self._choices = list(choices_of(schema).items())
        title = getattr(schema, "title", None)
        shown = plain(shorten(name, SHOWN))
        self.title = f"{plain(shorten(title, SHOWN))} ({shown})" if title else shown

    # What is said of it...

    def lines(self, width: int) -> list[str]:
        """Describe it, below its title."""
        description = getattr(self._schema, "description", None)
        lines = quoted(description, width, "    ") if description else []
        digits = len(str(len(self._choices)))
        for number, (value, title) in enumerate(self._choices, 1):
            label = plain(shorten(title, SHOWN))
            if title != value:
                label += f"  ({plain(shorten(value, SHOWN))})"
            lines.append(f"    {number:>{digits}}  {label}")
        return lines

    @property
    def kind(self) -> str:
        """What it takes, as in "an integer, 1 to 10"."""
        schema = self._schema
        if isinstance(schema, LISTS):
            bounds = _range(schema.min_items, schema.max_items)
            how_many = f"{bounds} of these" if bounds else "any of these"
            return f"{how_many}, by numbers with commas between"
        if self._choices:
            return "one of these, by its number"
        if isinstance(schema, BooleanSchema):
            return "yes or no"
        if isinstance(schema, NumberSchema):
            noun = "an integer" if schema.type == "integer" else "a number"
            return _joined(noun, _range(schema.minimum, schema.maximum))
        if isinstance(schema, StringSchema):
            length = _range(schema.min_length, schema.max_length)
            noun = format_problem("", schema.format) or "text"
            return _joined(noun, f"{length} characters" if length else "")
        return "text, or a value as JSON"

    def shown(self, value: Value | None) -> str:
        """Write a value of it, harmless and not too long."""
        if value is None:
            return "(left out)"
        if isinstance(value, list):
            return ", ".join(map(self._shown_choice, value)) or "(none)"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self._choices and isinstance(value, str):
            return self._shown_choice(value)
        return plain(value if isinstance(value, str) and value else literal(value))

    def _shown_choice(self, value: str) -> str:
        return plain(shorten(dict(self._choices).get(value, value), SHOWN))

    # What a typed line means...

    def read(self, text: str) -> Value:
        """Return the value that a line stands for.

        Raises:
            ValueError: It does not fit; says why.
        """
        return check_value(self._schema, self._value(text))

    def empty(self) -> Value:
        """Return the value that is nothing, and is there all the same.

        Raises:
            ValueError: It does not fit; says why.
        """
        return check_value(self._schema, [] if isinstance(self._schema, LISTS) else "")

    def _value(self, text: str) -> Any:
        schema = self._schema
        if isinstance(schema, LISTS):
            return [self._choice(part) for part in _parts(text)]
        if self._choices:
            return self._choice(text)
        if isinstance(schema, BooleanSchema):
            if text.lower() not in WORDS:
                raise ValueError(f"expected yes or no, got {shorten(text, SHOWN)!r}")
            return WORDS[text.lower()]
        if isinstance(schema, NumberSchema):
            return _typed(text, schema.type)
        if isinstance(schema, UnknownSchema):
            return _json_or_text(text)
        return text

    def _choice(self, text: str) -> str:
        """Return the choice of that number, or of that very text."""
        if text.isascii() and text.isdigit() and len(text) < SHOWN:
            number = int(text)
            if 1 <= number <= len(self._choices):
                return self._choices[number - 1][0]
        for value, title in self._choices:
            if text in {value, title}:
                return value
        raise ValueError(
            f"expected a number from 1 to {len(self._choices)}, "
            f"got {shorten(text, SHOWN)!r}"
        )


def _joined(noun: str, rest: str) -> str:
    return f"{noun}, {rest}" if rest else noun


def _range(low: float | None, high: float | None) -> str:
    """Say which numbers are meant."""
    if low is not None and low == high:
        return f"exactly {low:g}"
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return f"at most {high:g}" if high is not None else ""


def _parts(text: str) -> list[str]:
    """Cut a line at its commas, or where it has none but only numbers, at spaces."""
    if re.fullmatch(r"[0-9 ]+", text):
        return text.split()
    return [part.strip() for part in text.split(",") if part.strip()]


def _typed(text: str, kind: str) -> Any:
    from mcpwire.cli.arguments import coerce
    from mcpwire.cli.schemas import SchemaReader

    return coerce(text, {"type": kind}, SchemaReader({}))


def _json_or_text(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
