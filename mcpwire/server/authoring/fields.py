"""What a type hint cannot say of a parameter: `Arg`, and what other libraries write.

An annotation may carry a plain text (the description), an `Arg`, a `msgspec.Meta`, a
pydantic ``Field`` or the constraints of `annotated_types`. Only the first two are known
here; the others are read by the names of their attributes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["BOUNDS", "PATTERN_LENGTH", "Arg", "check_pattern", "facts_of"]

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

PATTERN_LENGTH: Final = 1_024
"""The most characters that a pattern is searched in, unless `max_length` says more."""

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
    """A regular expression that is found in a text. It is Python's, and may take much
    time: the text has 1,024 characters at most, unless `max_length` is given. One that
    repeats without limit what it already repeats, as ``(a+)*``, is refused when the
    function is registered."""

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


# --- patterns

_TOKEN: Final = re.compile(
    r"(?P<repeat>(?:[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})[+?]?)"
    r"|(?P<other>\(\?(?:#[^)]*|P=\w+|[aiLmsux]+)\)|[\^$|]|\\(?:[AbBZ]|[1-9]\d?))"
    r"|(?P<open>\((?:\?(?:P<\w+>|[aiLmsux-]*:|[=!>]|<[=!]|\(\w+\)))?)"
    r"|(?P<close>\))"
    r"|(?P<one>\\(?:x\w{2}|u\w{4}|U\w{8}|N\{[^}]*\}|[0-7]{1,3}|.)"
    r"|\[\^?\]?(?:[^\]\\]|\\.)*\]|.)",
    re.DOTALL,
)
"""The parts of a regular expression; `one` stands for one character of the text."""


_CHARACTERS: Final = range(0x10000)
"""Those that patterns are about."""


@attrs.define
class _Group:
    """A group of a pattern, as far as it has been read."""

    start: int = 0
    is_atomic: bool = False
    """Whether what it took is never tried in another way."""
    repeated: str = ""
    """Something in it that is repeated without limit."""
    ones: list[str] = attrs.field(factory=list)
    repeats: set[int] = attrs.field(factory=set)
    """Which of these are repeated."""
    is_plain: bool = True
    """Whether it holds nothing else."""

    def is_open(self) -> bool:
        """Tell whether there may be many ways to cut a text into repeats of it.

        There is one where it begins or ends with what none of the rest stands for, such
        as the hyphen of ``(-[a-z]+)*``, and only one part of that is repeated.
        """
        if not self.repeated or self.is_atomic:
            return False
        if not self.is_plain or len(self.repeats) != 1:
            return True
        first, last = self.ones[0], self.ones[-1]
        return not (
            (0 not in self.repeats and _is_apart(first, self.ones[1:]))
            or (
                len(self.ones) - 1 not in self.repeats
                and _is_apart(last, self.ones[:-1])
            )
        )


def check_pattern(pattern: str) -> None:
    """Check that a regular expression does not repeat what it repeats, without limits.

    Such a one can take time that doubles with each character of a text. It must be one
    that `re` takes.

    Raises:
        TypeError: It does.
    """
    groups = [_Group()]
    before = ""
    closed: _Group | None = None  # a group that ends just before the token
    for token in _TOKEN.finditer(pattern):
        group, kind, text = groups[-1], token.lastgroup, token[0]
        if kind == "repeat":
            if _is_unlimited(text):
                if closed is not None and closed.is_open():
                    raise TypeError(
                        f"the pattern {pattern!r} repeats {before!r} without limit and "
                        f"in it {closed.repeated!r}, which can take exponential time: "
                        "limit one of them, such as {0,20}"
                    )
                group.repeated = before + text
            group.repeats.add(len(group.ones) - 1)
            continue
        before, closed = text, None
        if kind == "open":
            groups.append(_Group(token.start(), is_atomic=text == "(?>"))
        elif kind == "close":
            closed = groups.pop()
            before = pattern[closed.start : token.end()]
            groups[-1].is_plain = False
            if not closed.is_atomic:
                groups[-1].repeated = groups[-1].repeated or closed.repeated
        elif kind == "one":
            group.ones.append(text)
        else:
            group.is_plain = False


def _is_unlimited(repeat: str) -> bool:
    """Tell whether it has no upper limit, and can give back what it took."""
    return (repeat[0] in "*+" or ",}" in repeat) and not repeat[1:].endswith("+")


def _is_apart(one: str, others: list[str]) -> bool:
    """Tell whether no character that it stands for is one of the others'."""
    both = re.compile(f"(?={one})(?:{'|'.join(others)})", re.IGNORECASE | re.DOTALL)
    return both.search("".join(map(chr, _CHARACTERS))) is None
