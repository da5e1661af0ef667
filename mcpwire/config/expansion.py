"""Variables in a configuration: ``${NAME}``, ``${NAME:-default}`` and ``$${``.

A variable's value is inserted unchanged and not expanded again. No message repeats the
text around a variable, which may be a secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NESTING: Final = 8
"""How deeply defaults may hold variables with defaults."""

BARE_VARIABLE: Final = re.compile(r"(?<![$\w])\$[A-Z][A-Z0-9_]+")
"""A variable as shells write it, and Gemini CLI; here it is a text."""

_OPENING: Final = re.compile(r"\$?\$\{")
_BRACE: Final = re.compile(r"\$?\$\{|\}")
_EXPRESSION: Final = re.compile(
    r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL
)
_EDITOR_EXPRESSION: Final = re.compile(
    r"(input|command|config|file|workspaceFolder):.*", re.DOTALL
)

EDITOR_NAMES: Final = frozenset(
    {
        "workspaceFolder",
        "workspaceFolderBasename",
        "workspaceRoot",
        "userHome",
        "pathSeparator",
        "/",
    }
)
"""Variables that only editors set."""


class ExpandedText(str):
    """A text with expanded variables; its repr is the text before that.

    Messages that mask URLs and show commands use its `unexpanded`, too.
    """

    __slots__ = ("unexpanded",)

    unexpanded: str

    @classmethod
    def of(cls, text: str, unexpanded: str) -> str:
        """Return a text that keeps its source, where the two differ."""
        if text == unexpanded:
            return text
        expanded = cls(text)
        expanded.unexpanded = unexpanded
        return expanded

    def __repr__(self) -> str:
        return repr(self.unexpanded)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with the values of its variables.

    ``${NAME}`` (editors write ``${env:NAME}``) is the variable's value.
    ``${NAME:-default}`` is the default where the variable is not set or is empty; it
    may hold variables itself. ``$${`` is a literal ``${``; any other ``$`` is itself.

    Raises:
        ValueError: A variable is not set, or a ``${`` begins no variable; shows only
            the variable's name.
    """
    return _expand(text, variables, MAX_NESTING) if "${" in text else text


def _expand(text: str, variables: Mapping[str, str], depth: int) -> str:
    parts = []
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        parts.append(text[position : opening.start()])
        position = opening.end()
        if opening[0] == "$${":
            parts.append("${")
            continue
        end = _find_closing_brace(text, position)
        if depth == 0:
            raise ValueError(f"variables are nested more than {MAX_NESTING} deep")
        parts.append(_variable_value(text[position:end], variables, depth - 1))
        position = end + 1
    return "".join((*parts, text[position:]))


def _find_closing_brace(text: str, start: int) -> int:
    level = 1
    for brace in _BRACE.finditer(text, start):
        level += -1 if brace[0] == "}" else 1
        if level == 0:
            return brace.start()
    raise ValueError("a ${ has no } that closes it ($${ is a literal one)")


def _variable_value(expression: str, variables: Mapping[str, str], depth: int) -> str:
    match = _EXPRESSION.fullmatch(expression)
    name, default = match.groups() if match is not None else ("", None)
    value = variables.get(name)
    if default is not None and not value:
        return _expand(default, variables, depth)
    if match is not None and value is not None:
        return value
    of_editor = _EDITOR_EXPRESSION.fullmatch(expression)
    shown = f"{of_editor[1]}:..." if of_editor is not None else name or expression
    if of_editor is not None or shown in EDITOR_NAMES:
        raise ValueError(
            f"${{{shown}}} is set by editors only: use a variable such as ${{NAME}}"
        )
    if match is None:
        raise ValueError(
            "a ${ is followed by no variable's name ($${ is a literal one)"
        )
    raise ValueError(f"the variable {name} is not set")


_LINE: Final = re.compile(
    r"""\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*
    (?: '([^']*)' | "((?:[^"\\]|\\.)*)" | ([^'"\#\s](?:.*?\S)??)? )
    (?:\s+\#.*)?\s*""",
    re.VERBOSE,
)
_ESCAPED: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def read_variables(text: str) -> dict[str, str]:
    r"""Return the variables of a file.

    A value may have quotes; ``\n``, ``\r`` and ``\t`` are escapes in double ones. ``#``
    begins a comment, ``export`` before a name is ignored. Variables are not expanded.
    """
    variables: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not NAME=VALUE")
        name, single, double, unquoted = match.groups()
        if double is not None:
            single = _ESCAPED.sub(lambda m: _ESCAPES.get(m[1], m[1]), double)
        variables[name] = single if single is not None else (unquoted or "")
    return variables
