"""Writes the ``WWW-Authenticate`` field (RFC 9110 section 11.6.1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["format_challenge"]

_UNQUOTABLE: Final = re.compile(r"[^ -~]")
_ESCAPED: Final = re.compile(r'(["\\])')


def format_challenge(scheme: str, params: Mapping[str, str | None]) -> str:
    """Return one challenge; parameters without a value are left out.

    Whatever the values are, the field stays one field: characters that cannot stand
    between quotation marks become question marks.
    """
    written = [f'{name}="{_quote(value)}"' for name, value in params.items() if value]
    return f"{scheme} {', '.join(written)}" if written else scheme


def _quote(value: str) -> str:
    return _ESCAPED.sub(r"\\\1", _UNQUOTABLE.sub("?", value))
