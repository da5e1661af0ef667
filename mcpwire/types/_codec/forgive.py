"""What mcpwire forgives: the one table of deviations that are read without complaint.

Everything that has no row here is refused with its path. The compiler of the decoders
and the mutation tests both read this table; a row that is taken out is refused at once.
Decoders refuse what is malformed; a caller that counts losses leaves it out with
`repair`, by the rows for it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs

__all__ = ["ANY_TYPE", "FORGIVEN", "Found", "Row", "forgives"]

Found: TypeAlias = Literal["missing", "null", "integral float", "malformed"]
"""What stands on the wire instead of the value that the schema asks for."""

ANY_TYPE: Final = "*"
OPTIONAL: Final = "<optional>"
INTEGER: Final = "<integer>"


@attrs.frozen
class Row:
    """One deviation that is forgiven; the attribute's default takes its place."""

    type: str
    """The wire type, or `ANY_TYPE`."""

    field: str
    """The field's name on the wire, or one of the two classes of fields."""

    found: tuple[Found, ...]
    reason: str


FORGIVEN: Final[tuple[Row, ...]] = (
    Row(
        ANY_TYPE,
        OPTIONAL,
        ("null",),
        "servers that dump models with unset members write null for absent",
    ),
    Row(
        ANY_TYPE,
        INTEGER,
        ("integral float",),
        "JSON Schema counts 5.0 as an integer, and some languages only have floats",
    ),
    Row(
        "CallToolResult",
        "content",
        ("missing", "null"),
        "servers send structuredContent alone; an empty answer is still an answer",
    ),
    Row(
        "ToolResultContent",
        "content",
        ("missing", "null"),
        "it is a CallToolResult carried in a message",
    ),
    Row(
        "Tool",
        "inputSchema",
        ("missing", "null"),
        "one tool that says nothing of its arguments must not cost the whole list",
    ),
    Row(
        "Tool",
        "annotations",
        ("malformed",),
        "they are hints, and one tool's must not cost the whole list",
    ),
    Row(
        "ToolAnnotations",
        OPTIONAL,
        ("malformed",),
        "a hint that cannot be read is no hint; the specification's default is safe",
    ),
    Row(
        "InitializeResult",
        "serverInfo",
        ("missing", "null"),
        "optional since 2026-07-28, and identity is for display only",
    ),
    Row(
        "InitializeResult",
        "capabilities",
        ("missing", "null"),
        "no capabilities said is no capabilities offered",
    ),
    Row(
        "DiscoverResult",
        "capabilities",
        ("missing", "null"),
        "no capabilities said is no capabilities offered",
    ),
    Row(
        "InitializeRequestParams",
        "capabilities",
        ("missing", "null"),
        "no capabilities said is no capabilities offered",
    ),
)

_ROWS: Final = {
    (row.type, row.field, found): row for row in FORGIVEN for found in row.found
}


def forgives(type_name: str, field: str, found: Found, *, optional: bool) -> bool:
    """Return whether that deviation of that field is forgiven."""
    if (type_name, field, found) in _ROWS:
        return True
    if found == "malformed":
        return (type_name, OPTIONAL, found) in _ROWS
    if found == "null":
        return optional and (ANY_TYPE, OPTIONAL, found) in _ROWS
    return found == "integral float" and (ANY_TYPE, INTEGER, found) in _ROWS
