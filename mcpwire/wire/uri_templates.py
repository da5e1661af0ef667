"""URI templates (RFC 6570): read, and expanded with values, on all four levels.

`uri_matching` turns it round: which values give a URI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "MAX_LENGTH",
    "Expression",
    "TemplateError",
    "UriTemplate",
    "Variable",
    "encode_literal",
    "is_uri",
]

MAX_LENGTH: Final = 64 * 1024
"""Characters of a URI or template; a longer one is not looked at."""

Value: TypeAlias = "str | int | float | Sequence[Any] | Mapping[str, Any] | None"
"""What a variable may stand for; ``None`` and what is empty are left out."""

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
    """A template that cannot be read, or not be matched.

    Attributes:
        template: The template.
        position: Where in it, counted from 0.
    """

    def __init__(self, problem: str, template: str, position: int) -> None:
        shown = template if len(template) <= _SHOWN else f"{template[:_SHOWN]}…"
        super().__init__(f"{problem} at index {position} of {shown!r}")
        self.template = template
        self.position = position


_SHOWN: Final = 100


def is_uri(text: str) -> bool:
    """Tell whether a text is a URI with a scheme, spelled as RFC 3986 has it."""
    return len(text) <= MAX_LENGTH and _URI.fullmatch(text) is not None


# What a template says...


@attrs.frozen
class Variable:
    """One variable within an expression."""

    name: str

    prefix: int | None = None
    """How many characters of its value are taken; ``None``: all."""

    explode: bool = False
    """Whether each member of a list or mapping stands by itself."""


@attrs.frozen
class Expression:
    """What stands between braces."""

    operator: str
    """``+``, ``#``, ``.``, ``/``, ``;``, ``?``, ``&``, or nothing."""

    variables: tuple[Variable, ...]

    position: int = attrs.field(eq=False)
    """Where its brace opens."""


@attrs.frozen
class _Style:
    """How one operator expands (RFC 6570, Appendix A)."""

    first: str
    separator: str
    is_named: bool = False
    if_empty: str = ""
    keeps_reserved: bool = False


_STYLES: Final[Mapping[str, _Style]] = {
    "": _Style("", ","),
    "+": _Style("", ",", keeps_reserved=True),
    "#": _Style("#", ",", keeps_reserved=True),
    ".": _Style(".", "."),
    "/": _Style("/", "/"),
    ";": _Style(";", ";", is_named=True),
    "?": _Style("?", "&", is_named=True, if_empty="="),
    "&": _Style("&", "&", is_named=True, if_empty="="),
}


class UriTemplate:
    """A template, read.

    Attributes:
        text: As it was written.
        parts: Literal texts and `Expression`s in their order.
        names: The names of its variables, each once, in their order.

    Raises:
        TemplateError: It is no template; says where.
    """

    __slots__ = ("names", "parts", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise TemplateError("the template is too long", text, MAX_LENGTH)
        self.text = text
        self.parts: tuple[str | Expression, ...] = tuple(_parse(text))
        named = (v.name for e in self.expressions for v in e.variables)
        self.names: tuple[str, ...] = tuple(dict.fromkeys(named))

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"UriTemplate({self.text!r})"

    @property
    def expressions(self) -> list[Expression]:
        """Its expressions in their order."""
        return [part for part in self.parts if isinstance(part, Expression)]

    def expand(self, values: Mapping[str, Value]) -> str:
        """Return the URI that these values give; those it does not name are left out.

        Raises:
            TypeError: A value is none that a URI can hold, or a list or mapping of
                which a prefix is wanted.
        """
        return "".join(
            encode_literal(part) if isinstance(part, str) else _expand(part, values)
            for part in self.parts
        )


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
        yield _expression(text, opened, closed)
        at = closed + 1


def _expression(text: str, opened: int, closed: int) -> Expression:
    at = opened + 1
    operator = text[at] if text[at] in _STYLES else ""
    at += len(operator)
    variables = []
    for each in text[at:closed].split(","):
        variables.append(_variable(text, at, each))
        at += len(each) + 1
    return Expression(operator, tuple(variables), opened)


def _variable(text: str, at: int, spelled: str) -> Variable:
    found = _NAME.match(spelled)
    if found is None:
        raise TemplateError("a variable needs a name", text, at)
    name, modifier = found[0], spelled[found.end() :]
    if not modifier:
        return Variable(name)
    if modifier == "*":
        return Variable(name, explode=True)
    if modifier[0] == ":" and _PREFIX.fullmatch(modifier, 1):
        return Variable(name, prefix=int(modifier[1:]))
    problem = f"{modifier[:20]!r} may not follow a variable's name"
    raise TemplateError(problem, text, at + found.end())


# Values into a template...


def _expand(expression: Expression, values: Mapping[str, Value]) -> str:
    style = _STYLES[expression.operator]
    expanded = [
        piece
        for variable in expression.variables
        for piece in _pieces(variable, values.get(variable.name), style)
    ]
    return style.first + style.separator.join(expanded) if expanded else ""


def _pieces(variable: Variable, value: Value, style: _Style) -> list[str]:
    """Return what a variable gives, in the pieces that separators stand between."""
    if value is None:
        return []
    if isinstance(value, (str, int, float)):
        text = _encode(_text(value)[: variable.prefix], style)
        return [_named(variable.name, text, style)]
    if variable.prefix is not None:
        raise TypeError(f"{variable.name!r} must be a text: a prefix of it is wanted")
    pairs = _pairs(value, style)
    if not pairs:
        return []
    if not variable.explode:
        joined = ",".join(
            piece for pair in pairs for piece in pair if piece is not None
        )
        return [f"{variable.name}={joined}" if style.is_named else joined]
    if isinstance(value, Mapping):
        ending = style.if_empty if style.is_named else "="
        return [f"{key}={text}" if text else f"{key}{ending}" for key, text in pairs]
    return [_named(variable.name, text, style) for _, text in pairs]


def _named(name: str, text: str, style: _Style) -> str:
    if not style.is_named:
        return text
    return f"{name}={text}" if text else f"{name}{style.if_empty}"


def _pairs(value: object, style: _Style) -> list[tuple[str | None, str]]:
    """Return the members of a list (without keys) or of a mapping, encoded."""
    if isinstance(value, Mapping):
        return [
            (_encode(_text(key), style), _encode(_text(member), style))
            for key, member in value.items()
            if member is not None
        ]
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"a URI cannot hold a {type(value).__name__}")
    return [
        (None, _encode(_text(member), style)) for member in value if member is not None
    ]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"a URI cannot hold a {type(value).__name__}")


def _encode(text: str, style: _Style) -> str:
    return encode_literal(text) if style.keeps_reserved else quote(text, safe="")


def encode_literal(text: str) -> str:
    """Encode what no URI holds; what is reserved, or encoded already, stays as it is.

    Raises:
        UnicodeEncodeError: There is half a surrogate pair in it.
    """
    pieces = _TRIPLET.split(text)
    pieces[::2] = [quote(piece, safe=_RESERVED) for piece in pieces[::2]]
    return "".join(pieces)
