"""Which values of a URI template give a URI: RFC 6570 turned round.

The RFC does not define that. It is done for the templates where one answer is the right
one; any other is refused when the matcher is made, with the place and what to write
instead::

    {x}         one segment: no slash, be it encoded
    {/x} {.x}   the same after that sign
    {x*} {/x*}  segments, with the slashes between them
    {+x} {#x}   anything at all
    {?x,y}      parameters of the query, in any order, none of them needed
    {&x}        the same behind a query that the template begins

A value is decoded once, as UTF-8, and before the query it is never empty. One that
could lead out of a folder (``..``, an absolute path, an encoded separator, NUL) matches
nothing, unless its variable was named as unchecked.

URIs come from the peer, so there is no backtracking: each literal is looked for once,
from the left up to the one variable that takes slashes, and from the right down to it.
All other variables take the same characters, so the nearest place for a literal leaves
the most to those behind it, and no place farther away could do better.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import attrs

from mcpwire.wire.uri_templates import MAX_LENGTH, TemplateError, encode_literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.wire.uri_templates import Expression, UriTemplate, Variable

__all__ = ["UriMatcher"]

_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

MAX_PARAMETERS: Final = 1_000
"""How many parameters of one query are looked at."""


@attrs.frozen
class _Taker:
    """A variable before the query, and which characters it takes."""

    name: str

    stop: re.Pattern[str] | None
    """Finds a character that it never holds."""

    is_wide: bool
    """Whether it may hold slashes."""


_SEGMENT: Final = re.compile(r"[/?#]")
_SEGMENTS: Final = re.compile(r"[?#]")
_LEADING: Final = {"": "", "+": "", "#": "#", ".": ".", "/": "/"}
"""What an operator puts before its first variable, where that can be matched."""

_ENCODED_SEPARATOR: Final = re.compile(r"%(?:2[Ff]|5[Cc])")
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:(?:[/\\]|\Z)")


class UriMatcher:
    """Finds the values with which a template gives a URI; see the module's text.

    Args:
        template: The template.
        unchecked: Names of the variables that may hold any path.

    Attributes:
        template: The template.

    Raises:
        TemplateError: It can be matched in several ways, or not at all.
    """

    def __init__(self, template: UriTemplate, unchecked: Iterable[str] = ()) -> None:
        self.template = template
        self._unchecked = frozenset(unchecked)
        self._literals: list[str] = [""]
        self._takers: list[_Taker] = []
        self._parameters: frozenset[str] | None = None
        self._fixed: list[tuple[str, str]] = []
        seen: set[str] = set()
        for part in template.parts:
            if isinstance(part, str):
                self._add_literal(part)
                continue
            for variable in part.variables:
                if variable.name in seen:
                    raise self._refused(f"{variable.name!r} comes twice", part)
                seen.add(variable.name)
            self._add(part)
        unknown = self._unchecked - seen
        if unknown:
            raise TemplateError(
                f"there is no variable {min(unknown)!r}", template.text, 0
            )
        wide = [at for at, taker in enumerate(self._takers) if taker.is_wide]
        self._turn = wide[0] if wide else len(self._takers) - 1

    def _refused(self, problem: str, part: Expression) -> TemplateError:
        return TemplateError(problem, self.template.text, part.position)

    def _add_literal(self, literal: str) -> None:
        if self._parameters is not None:
            at = self.template.text.rfind(literal)
            raise TemplateError("nothing may follow a query", self.template.text, at)
        self._literals[-1] += encode_literal(literal)

    def _add(self, part: Expression) -> None:
        if part.operator in {"?", "&"}:
            self._add_parameters(part)
            return
        if self._parameters is not None:
            raise self._refused("nothing may follow a query", part)
        if part.operator not in _LEADING:
            raise self._refused("parameters of a path cannot be matched", part)
        if len(part.variables) > 1:
            raise self._refused("write each of these variables by itself", part)
        (variable,) = part.variables
        if variable.prefix is not None:
            raise self._refused("a prefix cannot be matched", part)
        self._add_taker(part, variable)

    def _add_taker(self, part: Expression, variable: Variable) -> None:
        self._literals[-1] += _LEADING[part.operator]
        if self._takers and not self._literals[-1]:
            raise self._refused("a sign must stand between two variables", part)
        is_open = part.operator in {"+", "#"}
        is_wide = is_open or variable.explode
        if is_wide and any(taker.is_wide for taker in self._takers):
            raise self._refused("only one variable may take slashes", part)
        stop = None if is_open else _SEGMENTS if is_wide else _SEGMENT
        self._takers.append(_Taker(variable.name, stop, is_wide))
        self._literals.append("")

    def _add_parameters(self, part: Expression) -> None:
        if any(variable.explode or variable.prefix for variable in part.variables):
            raise self._refused("a parameter of a query is matched as a whole", part)
        names = {variable.name for variable in part.variables}
        if self._parameters is None:
            self._parameters = frozenset()
            if part.operator == "&":
                self._begin_query(part)
            elif any("?" in literal for literal in self._literals):
                raise self._refused("the query has begun: write {&…}", part)
        elif part.operator == "?":
            raise self._refused("the query has begun: write {&…}", part)
        self._parameters |= names

    def _begin_query(self, part: Expression) -> None:
        """Take what the template's own text says of the query."""
        path, mark, query = self._literals[-1].partition("?")
        if not mark:
            raise self._refused("a query that is plain text must stand before it", part)
        self._literals[-1] = path
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        self._fixed = [(name, value) for name, _, value in pairs]

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values by name, or ``None`` where the URI is another's.

        Parameters of the query that were not given are left out.
        """
        if len(uri) > MAX_LENGTH:
            return None
        path, query = uri, ""
        if self._parameters is not None:
            path, _, query = uri.partition("?")
        raw = self._split(path)
        if raw is None:
            return None
        values = {}
        for taker in self._takers:
            value = self._value(taker, raw[taker.name])
            if value is None:
                return None
            values[taker.name] = value
        if self._parameters is not None and not self._add_query(query, values):
            return None
        return values

    def _split(self, path: str) -> dict[str, str] | None:
        """Cut a path at the literals; ``None``: they are not all there."""
        first, last = self._literals[0], self._literals[-1]
        if not self._takers:
            return {} if path == first else None
        start, end = len(first), len(path) - len(last)
        if not (path.startswith(first) and path.endswith(last)):
            return None
        raw = {}
        for at in range(self._turn):
            literal = self._literals[at + 1]
            found = path.find(literal, start + 1, max(end, 0))
            if found < 0:
                return None
            raw[self._takers[at].name] = path[start:found]
            start = found + len(literal)
        for at in range(len(self._takers) - 1, self._turn, -1):
            literal = self._literals[at]
            found = path.rfind(literal, start + 1, max(end - 1, 0))
            if found < 0:
                return None
            raw[self._takers[at].name] = path[found + len(literal) : end]
            end = found
        if end <= start:
            return None
        raw[self._takers[self._turn].name] = path[start:end]
        return raw

    def _value(self, taker: _Taker, raw: str) -> str | None:
        if taker.stop is not None and taker.stop.search(raw):
            return None
        if "%" not in raw:
            return self._decoded(taker.name, raw)
        # Decoded, an encoded separator could not be told from one that separates.
        is_free = taker.is_wide and taker.name in self._unchecked
        if not is_free and _ENCODED_SEPARATOR.search(raw):
            return None
        return self._decoded(taker.name, raw)

    def _decoded(self, name: str, raw: str) -> str | None:
        """Return a value, decoded once; ``None``: no text, or one that leads away."""
        if "%" not in raw and raw.isascii():
            value = raw
        elif _BAD_PERCENT.search(raw):
            return None
        else:
            try:
                value = unquote_to_bytes(raw).decode()
            except UnicodeError:  # half a letter, or half a surrogate pair
                return None
        return value if name in self._unchecked or _is_safe(value) else None

    def _add_query(self, query: str, values: dict[str, str]) -> bool:
        """Add the parameters; ``False``: they are not what the template asks for.

        Others than it names are passed over. One that comes twice is refused: two
        readers may choose differently.
        """
        if "#" in query or query.count("&") >= MAX_PARAMETERS:
            return False
        parameters = self._parameters or ()
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        given = [(name, value) for name, _, value in pairs]
        if any(given.count(pair) != 1 for pair in self._fixed):
            return False
        for name, raw in given:
            if name not in parameters:
                continue
            value = self._decoded(name, raw)
            if name in values or value is None:
                return False
            values[name] = value
        return True


def _is_safe(value: str) -> bool:
    """Tell whether a value, put behind a folder, stays in it on every system."""
    if _ABSOLUTE.match(value) or "\x00" in value:
        return False
    return ".." not in value or ".." not in re.split(r"[/\\]", value)
