"""URI templates (RFC 6570): parser, and matcher of URIs.

The parser reads all four levels. The RFC does not define matching. `UriMatcher` takes
the templates that match in one way only; it refuses all others at construction with an
error that contains the position and the remedy::

    {x}         one segment without slashes, plain or encoded
    {/x} {.x}   the same after that sign
    {x*} {/x*}  segments and the slashes between them
    {+x} {#x}   any characters
    {?x,y}      optional parameters of the query, in any order
    {&x}        the same after a query that the template begins

A value is percent-decoded once, as UTF-8; a value before the query is never empty. A
value that could lead out of a folder (``..``, an absolute path, an encoded separator,
NUL) does not match, unless its variable is `unchecked`.

URIs come from the peer, so there is no backtracking: each literal is searched once,
from the left up to the one variable that takes slashes, then from the right down to it.
All other variables take the same characters, so the nearest position of a literal
leaves the most text to the remaining variables: no other position matches more URIs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LENGTH: Final = 64 * 1024
"""Maximum length of a URI or template in characters; longer ones are refused."""

MAX_PARAMETERS: Final = 1_000
"""Maximum number of parameters in a query; a longer query does not match."""

_NAME: Final = re.compile(
    r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*"
)
_PREFIX: Final = re.compile(r"[1-9][0-9]{0,3}")
# RFC 6570, 2.1; its erratum 6937 allows the apostrophe.
_INVALID_LITERAL: Final = re.compile(r"[\x00-\x20\"<>\\^`|}\x7f]|%(?![0-9A-Fa-f]{2})")
_TRIPLET: Final = re.compile(r"(%[0-9A-Fa-f]{2})")
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
# RFC 3986: a scheme, then characters of its alphabet.
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[!#$&-;=?-Z\[\]_a-z~]|%[0-9A-Fa-f]{2})*"
)


class TemplateError(ValueError):
    """The template is malformed or cannot be matched; `position` is the place."""

    def __init__(self, problem: str, template: str, position: int) -> None:
        shown = template if len(template) <= _MAX_SHOWN else f"{template[:_MAX_SHOWN]}…"
        super().__init__(f"{problem} at index {position} of {shown!r}")
        self.template = template
        self.position = position


_MAX_SHOWN: Final = 100


def is_uri(text: str) -> bool:
    """Return whether a text is a URI with a scheme according to RFC 3986."""
    return len(text) <= MAX_LENGTH and _URI.fullmatch(text) is not None


# Parsing of templates


@attrs.frozen
class Variable:
    """A variable of an expression."""

    name: str
    prefix: int | None = None  # number of characters of the value that are used
    explode: bool = False  # expand each member of a list or mapping separately


@attrs.frozen
class Expression:
    """An expression between braces; `operator` is one of ``+#./;?&`` or empty."""

    operator: str
    variables: tuple[Variable, ...]
    position: int = attrs.field(eq=False)  # index of the opening brace


class UriTemplate:
    """A parsed template: its text, its parts, and the names of its variables."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise TemplateError("the template is too long", text, MAX_LENGTH)
        self.text = text
        self.parts: tuple[str | Expression, ...] = tuple(_parse(text))
        names = (
            variable.name
            for expression in self.expressions
            for variable in expression.variables
        )
        self.names: tuple[str, ...] = tuple(dict.fromkeys(names))

    @property
    def expressions(self) -> list[Expression]:
        """The expressions in the order of the template."""
        return [part for part in self.parts if isinstance(part, Expression)]

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"


def _parse(text: str) -> Iterator[str | Expression]:
    position = 0
    while position < len(text):
        start = text.find("{", position)
        literal = text[position:] if start < 0 else text[position:start]
        invalid = _INVALID_LITERAL.search(literal)
        if invalid is not None:
            problem = f"{invalid[0]!r} must be percent-encoded"
            raise TemplateError(problem, text, position + invalid.start())
        if literal:
            yield literal
        if start < 0:
            return
        end = text.find("}", start)
        if end < 0:
            raise TemplateError("the brace is never closed", text, start)
        position = start + 1
        operator = text[position] if text[position] in "+#./;?&" else ""
        position += len(operator)
        variables = []
        for varspec in text[position:end].split(","):
            variables.append(_parse_variable(text, position, varspec))
            position += len(varspec) + 1
        yield Expression(operator, tuple(variables), start)
        position = end + 1


def _parse_variable(text: str, position: int, varspec: str) -> Variable:
    match = _NAME.match(varspec)
    if match is None:
        raise TemplateError("a variable needs a name", text, position)
    name, modifier = match[0], varspec[match.end() :]
    if modifier in {"", "*"}:
        return Variable(name, explode=modifier == "*")
    if modifier[0] == ":" and _PREFIX.fullmatch(modifier, 1):
        return Variable(name, prefix=int(modifier[1:]))
    problem = f"{modifier[:20]!r} may not follow a variable's name"
    raise TemplateError(problem, text, position + match.end())


def encode_literal(text: str) -> str:
    """Percent-encode text, except for reserved characters and percent triplets."""
    pieces = _TRIPLET.split(text)
    pieces[::2] = [quote(piece, safe=_RESERVED) for piece in pieces[::2]]
    return "".join(pieces)


# Matching of URIs

_AFTER_QUERY: Final = "nothing may follow a query"
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@attrs.frozen
class _PathVariable:
    """A variable before the query."""

    name: str
    excluded: re.Pattern[str] | None  # matches characters that it cannot contain
    takes_slashes: bool  # its value may contain slashes


_SEGMENT_END: Final = re.compile(r"[/?#]")
_PATH_END: Final = re.compile(r"[?#]")
_OPERATOR_PREFIXES: Final = {"": "", "+": "", "#": "#", ".": ".", "/": "/"}
"""The text before the first variable, by operator; others cannot be matched."""

_ENCODED_SEPARATOR: Final = re.compile(r"%(?:2[Ff]|5[Cc])")
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:(?:[/\\]|\Z)")


class UriMatcher:
    """Finds the values of a template's variables in a URI; see the module's text.

    `unchecked` names the variables with values that may be any path.
    """

    def __init__(self, template: UriTemplate, unchecked: Iterable[str] = ()) -> None:
        self.template = template
        self._unchecked = frozenset(unchecked)
        self._literals: list[str] = [""]
        self._variables: list[_PathVariable] = []
        self._parameters: frozenset[str] | None = None
        self._required_pairs: list[tuple[str, str]] = []
        seen: set[str] = set()
        for part in template.parts:
            if isinstance(part, str):
                self._add_literal(part)
                continue
            problem: str | None = None
            for variable in part.variables:
                if variable.name in seen:
                    problem = f"{variable.name!r} occurs twice"
                seen.add(variable.name)
            if problem is None and part.operator in {"?", "&"}:
                problem = self._add_parameters(part)
            elif problem is None:
                problem = self._add_variable(part)
            if problem is not None:
                raise TemplateError(problem, template.text, part.position)
        unknown = self._unchecked - seen
        if unknown:
            raise TemplateError(f"unknown variable {min(unknown)!r}", template.text, 0)
        slash_indexes = [
            index for index, item in enumerate(self._variables) if item.takes_slashes
        ]
        self._pivot = slash_indexes[0] if slash_indexes else len(self._variables) - 1

    def _add_literal(self, literal: str) -> None:
        if self._parameters is not None:
            text = self.template.text
            raise TemplateError(_AFTER_QUERY, text, text.rfind(literal))
        self._literals[-1] += encode_literal(literal)

    def _add_variable(self, part: Expression) -> str | None:
        """Add the variable of a path; return why it cannot be matched, or ``None``."""
        variable = part.variables[0]
        is_open = part.operator in {"+", "#"}
        takes_slashes = is_open or variable.explode
        literal = self._literals[-1] + _OPERATOR_PREFIXES.get(part.operator, "")
        problem = None
        if self._parameters is not None:
            problem = _AFTER_QUERY
        elif part.operator not in _OPERATOR_PREFIXES:
            problem = "parameters of a path cannot be matched"
        elif len(part.variables) > 1:
            problem = "write each of these variables by itself"
        elif variable.prefix is not None:
            problem = "a prefix cannot be matched"
        elif self._variables and not literal:
            problem = "a sign must stand between two variables"
        elif takes_slashes and any(other.takes_slashes for other in self._variables):
            problem = "only one variable may take slashes"
        else:
            excluded = None if is_open else _PATH_END if takes_slashes else _SEGMENT_END
            self._variables.append(
                _PathVariable(variable.name, excluded, takes_slashes)
            )
            self._literals[-1:] = [literal, ""]
        return problem

    def _add_parameters(self, part: Expression) -> str | None:
        """Add query parameters; return why they cannot be matched, or ``None``."""
        if any(variable.explode or variable.prefix for variable in part.variables):
            return "a parameter of a query is matched as a whole"
        has_query = self._parameters is not None or any(
            "?" in literal for literal in self._literals
        )
        if part.operator == "?" and has_query:
            return "the query has begun: write {&…}"
        if self._parameters is None and part.operator == "&":
            # The beginning of the query is literal text of the template.
            path, mark, query = self._literals[-1].partition("?")
            if not mark:
                return "a query that is plain text must stand before it"
            self._literals[-1] = path
            pairs = [pair.partition("=") for pair in query.split("&") if pair]
            self._required_pairs = [(name, value) for name, _, value in pairs]
        names = {variable.name for variable in part.variables}
        self._parameters = (self._parameters or frozenset()) | names
        return None

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values by name, or ``None`` if the URI does not match."""
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
            value = self._decode_variable(variable, raw[variable.name])
            if value is None:
                return None
            values[variable.name] = value
        if self._parameters is not None and not self._add_query(query, values):
            return None
        return values

    def _split(self, path: str) -> dict[str, str] | None:
        """Split a path at the literals; return ``None`` if a literal is missing."""
        first, last = self._literals[0], self._literals[-1]
        if not self._variables:
            return {} if path == first else None
        start, end = len(first), len(path) - len(last)
        if not (path.startswith(first) and path.endswith(last)):
            return None
        raw = {}
        for number in range(self._pivot):
            literal = self._literals[number + 1]
            index = path.find(literal, start + 1, max(end, 0))
            if index < 0:
                return None
            raw[self._variables[number].name] = path[start:index]
            start = index + len(literal)
        for number in range(len(self._variables) - 1, self._pivot, -1):
            literal = self._literals[number]
            index = path.rfind(literal, start + 1, max(end - 1, 0))
            if index < 0:
                return None
            raw[self._variables[number].name] = path[index + len(literal) : end]
            end = index
        if end <= start:
            return None
        raw[self._variables[self._pivot].name] = path[start:end]
        return raw

    def _decode_variable(self, variable: _PathVariable, raw: str) -> str | None:
        if variable.excluded is not None and variable.excluded.search(raw):
            return None
        # After decoding, an encoded separator looks the same as a plain one.
        is_free = variable.takes_slashes and variable.name in self._unchecked
        if not is_free and _ENCODED_SEPARATOR.search(raw):
            return None
        return self._decode_value(variable.name, raw)

    def _decode_value(self, name: str, raw: str) -> str | None:
        """Return the decoded value; ``None`` if it is malformed or an unsafe path."""
        if _BAD_PERCENT.search(raw):
            return None
        try:
            value = unquote_to_bytes(raw).decode()
        except UnicodeError:  # not UTF-8
            return None
        return value if name in self._unchecked or _is_safe(value) else None

    def _add_query(self, query: str, values: dict[str, str]) -> bool:
        """Add the values of known parameters; return whether the query matches.

        A duplicate parameter does not match: programs disagree on which value counts.
        """
        if "#" in query or query.count("&") >= MAX_PARAMETERS:
            return False
        parameters = self._parameters or ()
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        parsed = [(name, value) for name, _, value in pairs]
        if any(parsed.count(pair) != 1 for pair in self._required_pairs):
            return False
        for name, raw in parsed:
            if name not in parameters:
                continue
            value = self._decode_value(name, raw)
            if name in values or value is None:
                return False
            values[name] = value
        return True


def _is_safe(value: str) -> bool:
    """Return whether a value, appended to a folder, stays in it on all platforms."""
    if _ABSOLUTE.match(value) or "\x00" in value:
        return False
    return ".." not in value or ".." not in re.split(r"[/\\]", value)
