"""JSON text to values and back; the only module that knows orjson.

orjson writes NaN and infinity as ``null``. `encode` and `encode_line` write standard
JSON or raise, and name the place of the offence in the value.

orjson writes ``dict``, ``list``, ``tuple``, ``str``, ``int``, ``float``, ``bool`` and
``None``; subclasses of ``dict``, ``list``, ``str`` and ``int``; `Fragment`, which is
trusted to be JSON on one line. An enum member is written as its value and a UUID as its
text: orjson has no switch for them. Dataclasses, dates, ``bytes``, sets, named tuples
and subclasses of ``float`` are refused, and so are keys of another type than ``str``.

When it reads, integers beyond 64 bit become floats, and the last of several members
with one name counts. Short text can stand for many values (60 MB of ``{}`` for 1.8 GB
of objects): a peer's message that is `LARGE` goes through `check_values` first.
`outline` finds the id of a message that is not decoded.
"""

from __future__ import annotations

import re
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import orjson
from orjson import Fragment, JSONDecodeError, loads

from mcpwire.errors import LocalProtocolError, MessageTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "LARGE",
    "Fragment",
    "JSONDecodeError",
    "Json",
    "check_values",
    "compact",
    "encode",
    "encode_line",
    "encode_sorted",
    "loads",
    "outline",
]

Json: TypeAlias = Any

_PLAIN: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME

_DEPTH_OUT: Final = 254  # dicts and lists within each other; orjson's own bound

_PATH_SPELLED: Final = 16  # levels of a path that an error message spells out

_dumps: Final = orjson.dumps


def _encoder(options: int) -> Callable[[Json], bytes]:
    def encode(value: Json) -> bytes:
        try:
            text = _dumps(value, None, options)
        except TypeError as error:
            raise _refusal(value, str(error)) from error
        if b"null" in text and _has_non_finite(value):
            raise _refusal(value, "not finite")
        return text

    return encode


encode: Final = _encoder(_PLAIN)
"""Return a value as JSON text.

Raises:
    LocalProtocolError: Something in the value has no JSON form; names its path.
"""

encode_sorted: Final = _encoder(_PLAIN | orjson.OPT_SORT_KEYS)
"""Return the one JSON text of a value, whatever the order of its objects' members."""

encode_line: Final = _encoder(_PLAIN | orjson.OPT_APPEND_NEWLINE)
"""As `encode`, with a newline at the end; the text itself contains none."""


def compact(text: bytes) -> bytes:
    """Return a copy that is as large as the text, to be kept.

    What orjson writes stays in the buffer that it wrote to, of 4 KiB and more.
    """
    return bytes(memoryview(text))


def _has_non_finite(value: Json) -> bool:
    """Tell whether orjson wrote a NaN or an infinity of the value as ``null``."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            if not isfinite(item):
                return True
        elif isinstance(item, (dict, list, tuple)):
            pending.extend(item.values() if isinstance(item, dict) else item)
        elif isinstance(item, Enum):
            pending.append(item.value)
    return False


def _refusal(value: Json, reason: str) -> LocalProtocolError:
    path, offence = _find_offence(value) or ("$", reason)
    return LocalProtocolError(f"cannot send {path}: {offence}")


def _find_offence(
    value: Json, path: str = "$", level: int = 1
) -> tuple[str, str] | None:
    """Return path and description of the first thing that has no JSON form."""
    while isinstance(value, Enum):
        value = value.value
    offence = _offence(value, level)
    if offence is not None:
        return path, offence
    is_dict = isinstance(value, dict)
    for key, member in value.items() if is_dict else _enumerated(value):
        name, offence = _examine_key(key) if is_dict else (f"[{key}]", None)
        if level > _PATH_SPELLED:
            name = "..." if level == _PATH_SPELLED + 1 else ""
        found = (path + name, offence) if offence is not None else None
        found = found or _find_offence(member, path + name, level + 1)
        if found is not None:
            return found
    return None


def _enumerated(value: Json) -> Iterable[tuple[int, Json]]:
    return enumerate(value) if isinstance(value, (list, tuple)) else ()


def _examine_key(key: object) -> tuple[str, str | None]:
    if type(key) is not str:
        kind = type(key).__name__
        return f"[{kind}]", f"a key must be str, got {kind}"
    name = f".{key[:40]}" if key.isidentifier() else f"[{key[:40]!r}]"
    offence = _str_offence(key)
    return name, f"in the key, {offence}" if offence else None


def _offence(item: object, level: int) -> str | None:
    """Say what keeps this value itself, not its members, from being JSON."""
    if level > _DEPTH_OUT and isinstance(item, (dict, list, tuple)):
        return f"nested deeper than {_DEPTH_OUT} levels"
    if isinstance(item, str):
        return _str_offence(item)
    if isinstance(item, int):
        fits = -(2**63) <= item < 2**64
        return None if fits else f"an integer of {item.bit_length()} bits is too large"
    if type(item) is float:
        return None if isfinite(item) else f"{item} has no JSON form"
    # orjson writes tuples and UUIDs, but not their subclasses.
    is_exact = type(item) in {type(None), tuple, UUID}
    if is_exact or isinstance(item, (dict, list, Fragment)):
        return None
    return f"a value of type {type(item).__name__} has no JSON form"


def _str_offence(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"a lone surrogate stands at index {error.start}"
    return None


LARGE: Final = slice(1024 * 1024, 1024 * 1024 + 1)
"""``text[LARGE]`` is empty unless the text needs `check_values`."""

_WINDOW: Final = 64 * 1024  # bytes looked at in one step; they stay in the cache


def check_values(text: bytes | bytearray, most: int) -> None:
    """Raise `MessageTooLarge` if JSON text holds more than so many values.

    Each value but the first stands behind a comma or an opening bracket. Those in
    strings do not count; they are only told apart where there are too many in all.
    """
    # A text that is no longer than that cannot hold more.
    marks = 0
    for start in range(0, len(text) if len(text) > most else 0, _WINDOW):
        marks += _marks(text[start : start + _WINDOW])
        if marks > most:
            break
    else:
        return
    if _has_more_outside_strings(text, most):
        raise MessageTooLarge(
            f"a message of {len(text)} bytes holds more than {most} values "
            "(Limits.values)",
            limit=most,
        )


def _has_more_outside_strings(text: bytes | bytearray, most: int) -> bool:
    # Without escapes, what follows an odd number of quotes stands in a string.
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = quotes = 0
    for start in range(0, len(text), _WINDOW):
        parts = text[start : start + _WINDOW].split(b'"')
        marks += _marks(b"".join(parts[quotes & 1 :: 2]))
        quotes += len(parts) - 1
        # With its name, a value has four quotes at most.
        if marks > most or quotes > 4 * (most + 1):
            return True
    return False


def _marks(text: bytes | bytearray) -> int:
    # Base64 has none: images and the like are searched at the speed of memory.
    if b"," in text or b"[" in text or b"{" in text:
        return len(text) - len(text.translate(None, b",[{"))
    return 0


_EDGE: Final = 1_000  # bytes at each end of a message
_MEMBER: Final = (
    rb'"[^"\\]*+"\s*+:\s*+(?:"[^"\\]*+"|-?[0-9][0-9.eE+-]*+|true|false|null)\s*+'
)
_HEAD: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(\{\s*+(?:" + _MEMBER + rb',\s*+)*+"[^"\\]*+"\s*+:)'
)
_TAIL: Final = re.compile(rb"[]}]\s*+((?:,\s*+" + _MEMBER + rb")*+\})\s*+\Z")


def outline(text: bytes | bytearray) -> dict[str, Json]:
    """Return the members around the first long one of an object, it as ``None``.

    For a message that cannot be decoded, or must not be; ``{}``: it cannot be read.
    """
    head = _HEAD.match(text[:_EDGE])
    tail = _TAIL.search(text[-_EDGE:])
    if head is None or tail is None:
        return {}
    try:
        found: dict[str, Json] = loads(head[1] + b"null" + tail[1])
    except JSONDecodeError:
        return {}
    return found
