"""URI templates (RFC 6570): read, and matched with a URI.

All four levels are read. The RFC does not define matching. `UriMatcher` does it for the
templates where one answer is the right one; any other is refused when the
matcher is made, with the place and what to write instead::

    {x}         one segment: no slash, also none encoded
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
from urllib.parse import quote, unquote_to_bytes

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "MAX_LENGTH",
    "MAX_PARAMETERS",
    "Expression",
    "TemplateError",
    "UriMatcher",
    "UriTemplate",
    "Variable",
    "encode_literal",
    "is_uri",
]

MAX_LENGTH: Final = 64 * 1024
"""Characters of a URI or template; a longer one is not looked at."""

MAX_PARAMETERS: Final = 1_000
"""How many parameters of one query are looked at."""

_NAME: Final = re.compile(
    r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*"
)
_PREFIX: Final = re.compile(r"[1-9][0-9]{0,3}")
# RFC 6570, 2.1, and the apostrophe, which its erratum 6937 gives back.
_NO_LITERAL: Final = re.compile(r"[\x00-\x20\"<>\\^`|}\x7f]|%(?![0-9A-Fa-f]{2})")
_TRIPLET: Final = re.compile(r"(%[0-9A-Fa-f]{2})")
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
# RFC 3986: a scheme, and then nothing outside its alphabet.
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[!#$&-;=?-Z\[\]_a-z~]|%[0-9A-Fa-f]{2})*"
)


class TemplateError(ValueError):
    """A template that cannot be read or matched, with the position in it."""

    def __init__(self, problem: str, template: str, position: int) -> None:
        shown = template if len(template) <= _SHOWN else f"{template[:_SHOWN]}…"
        super().__init__(f"{problem} at index {position} of {shown!r}")
        self.template = template
        self.position = position


_SHOWN: Final = 100


def is_uri(text: str) -> bool:
    """Tell whether a text is a URI with a scheme, spelled as RFC 3986 has it."""
    return len(text) <= MAX_LENGTH and _URI.fullmatch(text) is not None


# Reading a template...


@attrs.frozen
class Variable:
    """One variable within an expression."""

    name: str
    prefix: int | None = None  # how many characters of its value are taken
    explode: bool = False  # each member of a list or mapping stands by itself


@attrs.frozen
class Expression:
    """An expression between braces; `operator` is one of ``+#./;?&`` or empty."""

    operator: str
    variables: tuple[Variable, ...]
    position: int = attrs.field(eq=False)  # where its brace opens


class UriTemplate:
    """A template, read: its text, its parts, and the names of its variables."""

    __slots__ = ("names", "parts", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise TemplateError("the template is too long", text, MAX_LENGTH)
        self.text = text
        self.parts: tuple[str | Expression, ...] = tuple(_parse(text))
        named = (v.name for e in self.expressions for v in e.variables)
        self.names: tuple[str, ...] = tuple(dict.fromkeys(named))

    @property
    def expressions(self) -> list[Expression]:
        """Its expressions in their order."""
        return [part for part in self.parts if isinstance(part, Expression)]

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"


def _parse(text: str) -> Iterator[str | Expression]:
    at = 0
    while at < len(text):
        opened = text.find("{", at)
        literal = text[at:] if opened < 0 else text[at:opened]
        foreign = _NO_LITERAL.search(literal)
        if foreign is not None:
            problem = f"{foreign[0]!r} must be percent-encoded"
            raise TemplateError(problem, text, at + foreign.start())
        if literal:
            yield literal
        if opened < 0:
            return
        closed = text.find("}", opened)
        if closed < 0:
            raise TemplateError("the brace is never closed", text, opened)
        at = opened + 1
        operator = text[at] if text[at] in "+#./;?&" else ""
        at += len(operator)
        variables = []
        for each in text[at:closed].split(","):
            variables.append(_variable(text, at, each))
            at += len(each) + 1
        yield Expression(operator, tuple(variables), opened)
        at = closed + 1


def _variable(text: str, at: int, spelled: str) -> Variable:
    found = _NAME.match(spelled)
    if found is None:
        raise TemplateError("a variable needs a name", text, at)
    name, modifier = found[0], spelled[found.end() :]
    if modifier in {"", "*"}:
        return Variable(name, explode=modifier == "*")
    if modifier[0] == ":" and _PREFIX.fullmatch(modifier, 1):
        return Variable(name, prefix=int(modifier[1:]))
    problem = f"{modifier[:20]!r} may not follow a variable's name"
    raise TemplateError(problem, text, at + found.end())


def encode_literal(text: str) -> str:
    """Percent-encode what no URI may hold; keep reserved characters and triplets."""
    pieces = _TRIPLET.split(text)
    pieces[::2] = [quote(piece, safe=_RESERVED) for piece in pieces[::2]]
    return "".join(pieces)


# Matching...

_BEHIND_QUERY: Final = "nothing may follow a query"
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@attrs.frozen
class _PathVariable:
    """A variable before the query."""

    name: str
    stop: re.Pattern[str] | None  # matches the characters that end its value
    is_wide: bool  # it may hold slashes


_SEGMENT: Final = re.compile(r"[/?#]")
_SEGMENTS: Final = re.compile(r"[?#]")
_LEADING: Final = {"": "", "+": "", "#": "#", ".": ".", "/": "/"}
"""The text that a matchable operator puts before its first variable."""

_ENCODED_SEPARATOR: Final = re.compile(r"%(?:2[Ff]|5[Cc])")
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:(?:[/\\]|\Z)")


class UriMatcher:
    """Finds the values with which a template gives a URI; see the module's text.

    `unchecked` names the variables that may hold any path.
    """

    def __init__(self, template: UriTemplate, unchecked: Iterable[str] = ()) -> None:
        self.template = template
        self._unchecked = frozenset(unchecked)
        self._literals: list[str] = [""]
        self._variables: list[_PathVariable] = []
        self._parameters: frozenset[str] | None = None
        self._fixed: list[tuple[str, str]] = []
        seen: set[str] = set()
        for part in template.parts:
            if isinstance(part, str):
                self._add_literal(part)
                continue
            problem: str | None = None
            for variable in part.variables:
                if variable.name in seen:
                    problem = f"{variable.name!r} comes twice"
                seen.add(variable.name)
            if problem is None and part.operator in {"?", "&"}:
                problem = self._add_parameters(part)
            elif problem is None:
                problem = self._add_variable(part)
            if problem is not None:
                raise TemplateError(problem, template.text, part.position)
        unknown = self._unchecked - seen
        if unknown:
            raise TemplateError(
                f"there is no variable {min(unknown)!r}", template.text, 0
            )
        wide = [at for at, each in enumerate(self._variables) if each.is_wide]
        self._pivot = wide[0] if wide else len(self._variables) - 1

    def _add_literal(self, literal: str) -> None:
        if self._parameters is not None:
            text = self.template.text
            raise TemplateError(_BEHIND_QUERY, text, text.rfind(literal))
        self._literals[-1] += encode_literal(literal)

    def _add_variable(self, part: Expression) -> str | None:
        """Add the variable of a path, or say why it cannot be matched."""
        variable = part.variables[0]
        is_open = part.operator in {"+", "#"}
        is_wide = is_open or variable.explode
        literal = self._literals[-1] + _LEADING.get(part.operator, "")
        problem = None
        if self._parameters is not None:
            problem = _BEHIND_QUERY
        elif part.operator not in _LEADING:
            problem = "parameters of a path cannot be matched"
        elif len(part.variables) > 1:
            problem = "write each of these variables by itself"
        elif variable.prefix is not None:
            problem = "a prefix cannot be matched"
        elif self._variables and not literal:
            problem = "a sign must stand between two variables"
        elif is_wide and any(each.is_wide for each in self._variables):
            problem = "only one variable may take slashes"
        else:
            stop = None if is_open else _SEGMENTS if is_wide else _SEGMENT
            self._variables.append(_PathVariable(variable.name, stop, is_wide))
            self._literals[-1:] = [literal, ""]
        return problem

    def _add_parameters(self, part: Expression) -> str | None:
        """Add the parameters of a query, or say why they cannot be matched."""
        if any(variable.explode or variable.prefix for variable in part.variables):
            return "a parameter of a query is matched as a whole"
        has_begun = self._parameters is not None or any(
            "?" in x for x in self._literals
        )
        if part.operator == "?" and has_begun:
            return "the query has begun: write {&…}"
        if self._parameters is None and part.operator == "&":
            # The template spells out the beginning of the query.
            path, mark, query = self._literals[-1].partition("?")
            if not mark:
                return "a query that is plain text must stand before it"
            self._literals[-1] = path
            pairs = [pair.partition("=") for pair in query.split("&") if pair]
            self._fixed = [(name, value) for name, _, value in pairs]
        names = {variable.name for variable in part.variables}
        self._parameters = (self._parameters or frozenset()) | names
        return None

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values by name, or ``None`` where the URI does not match."""
        if len(uri) > MAX_LENGTH:
            return None
        path, query = uri, ""
        if self._parameters is not None:
            path, _, query = uri.partition("?")
        raw = self._split(path)
        if raw is None:
            return None
        values = {}
        for variable in self._variables:
            value = self._value(variable, raw[variable.name])
            if value is None:
                return None
            values[variable.name] = value
        if self._parameters is not None and not self._add_query(query, values):
            return None
        return values

    def _split(self, path: str) -> dict[str, str] | None:
        """Cut a path at the literals; ``None``: they are not all there."""
        first, last = self._literals[0], self._literals[-1]
        if not self._variables:
            return {} if path == first else None
        start, end = len(first), len(path) - len(last)
        if not (path.startswith(first) and path.endswith(last)):
            return None
        raw = {}
        for at in range(self._pivot):
            literal = self._literals[at + 1]
            found = path.find(literal, start + 1, max(end, 0))
            if found < 0:
                return None
            raw[self._variables[at].name] = path[start:found]
            start = found + len(literal)
        for at in range(len(self._variables) - 1, self._pivot, -1):
            literal = self._literals[at]
            found = path.rfind(literal, start + 1, max(end - 1, 0))
            if found < 0:
                return None
            raw[self._variables[at].name] = path[found + len(literal) : end]
            end = found
        if end <= start:
            return None
        raw[self._variables[self._pivot].name] = path[start:end]
        return raw

    def _value(self, variable: _PathVariable, raw: str) -> str | None:
        if variable.stop is not None and variable.stop.search(raw):
            return None
        if "%" not in raw:
            return self._decoded(variable.name, raw)
        # Decoded, an encoded separator could not be told from one that separates.
        is_free = variable.is_wide and variable.name in self._unchecked
        if not is_free and _ENCODED_SEPARATOR.search(raw):
            return None
        return self._decoded(variable.name, raw)

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
        """Add the parameters that the template names; tell whether they fit it.

        One that comes twice is refused: two readers may choose differently.
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
