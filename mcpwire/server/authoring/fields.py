"""What a type hint cannot say of a parameter: `Arg`, and what other libraries write.

An annotation may carry a plain text (the description), an `Arg`, a `msgspec.Meta`, a
pydantic ``Field`` or the constraints of `annotated_types`. Only the first two are known
here; the others are read by the names of their attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["BOUNDS", "Arg", "facts_of"]

BOUNDS: Final = (
    "ge",
    "gt",
    "le",
    "lt",
    "min_length",
    "max_length",
    "multiple_of",
    "pattern",
)
"""What a value may be bounded by; `msgspec.Meta` has the same names."""

_SHOWN: Final = ("title", "description", "examples", "extra_json_schema")


@attrs.frozen(kw_only=True, eq=False)  # hints have to be hashable
class Arg:
    """Says more about a parameter or a field, within ``Annotated``.

    ::

        def search(limit: Annotated[int, Arg("How many", ge=1, le=100)] = 10): ...
    """

    description: str | None = attrs.field(default=None, kw_only=False)
    """What it means."""

    title: str | None = None
    """What to call it in front of people."""

    ge: float | None = None
    """The smallest number."""

    gt: float | None = None
    """What a number is above."""

    le: float | None = None
    """The largest number."""

    lt: float | None = None
    """What a number is below."""

    multiple_of: float | None = None
    """What a number can be divided by."""

    min_length: int | None = None
    """The fewest characters, items or members."""

    max_length: int | None = None
    """The most characters, items or members."""

    pattern: str | None = None
    """A regular expression that is found in a text. It is Python's: one that can take
    exponential time is a danger, so bound the length as well."""

    examples: Sequence[Any] | None = None
    """Values that could be given."""

    header: str | None = None
    """HTTP repeats the argument in the header field ``Mcp-Param-<header>`` (from
    2026-07-28 on), so that intermediaries can route by it."""

    choices: Mapping[str, str] | None = None
    """Titles of the values that a form offers."""


def facts_of(metadata: Iterable[Any]) -> dict[str, Any]:
    """Return what the metadata of an annotation says, by the names of `Arg`.

    What says nothing that is known is passed over. The last one counts.
    """
    facts: dict[str, Any] = {}
    for item in metadata:
        facts.update(_facts(item))
    return facts


def _facts(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, str):
        yield "description", item
    elif isinstance(item, Arg):
        yield from _given(item, attrs.fields_dict(Arg))
    elif not isinstance(item, type):
        # pydantic's `Field` keeps its constraints in a list of `annotated_types`.
        inner = getattr(item, "metadata", None)
        if isinstance(inner, (list, tuple)):
            for constraint in inner:
                yield from _facts(constraint)
        yield from _given(item, (*BOUNDS, *_SHOWN))
        documentation = getattr(item, "documentation", None)  # PEP 727
        if isinstance(documentation, str):
            yield "description", documentation


def _given(item: Any, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for name in names:
        value = getattr(item, name, None)
        if value is not None and not callable(value):
            yield name, value
