"""Files of variables: ``NAME=VALUE`` lines, as `envFile` of other hosts names them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["read_variables"]

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

    A value may stand in quotes; in double ones ``\n``, ``\r`` and ``\t`` are what they
    are elsewhere. ``#`` begins a comment, ``export`` before a name is passed over, and
    nothing is filled in.

    Raises:
        ValueError: A line is no such line; shows its number only.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not NAME=VALUE")
        name, single, double, plain = match.groups()
        if double is not None:
            single = _ESCAPED.sub(lambda m: _ESCAPES.get(m[1], m[1]), double)
        found[name] = single if single is not None else (plain or "")
    return found
