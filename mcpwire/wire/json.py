"""JSON encoding and decoding; the only module that imports orjson.

orjson writes NaN and infinity as ``null``. `encode` and `encode_line` write standard
JSON or raise an error that contains the path of the invalid value.

Encoded types: ``dict``, ``list``, ``tuple``, ``str``, ``int``, ``float``, ``bool`` and
``None``; subclasses of ``dict``, ``list``, ``str`` and ``int``; `Fragment`, which must
be JSON on one line and is not checked. An enum member is written as its value and a
UUID as its text: orjson has no option to refuse them. Dataclasses, dates, ``bytes``,
sets, named tuples and subclasses of ``float`` are refused, and so are non-``str`` keys.

When decoding, integers beyond 64 bits become floats, and the last of duplicate members
wins. Short text can hold many values (60 MB of ``{}`` for 1.8 GB of objects):
`check_values` checks a `LARGE` message of a peer first. `peek_members` finds the id of
a message that is not decoded.
"""

from __future__ import annotations

# orjson imports these; Ctrl-C during an import by orjson would crash the process.
import dataclasses  # noqa: F401
import datetime as dt  # noqa: F401
import json  # noqa: F401
import re
from enum import Enum
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import orjson

from mcpwire.errors import LocalProtocolError, MessageTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Json: TypeAlias = Any

Fragment = orjson.Fragment
JSONDecodeError = orjson.JSONDecodeError
loads = orjson.loads

_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME

_MAX_DEPTH: Final = 254  # nesting of dicts and lists; the limit of orjson

_MAX_PATH_LEVELS: Final = 16  # levels of a path that an error message contains

_dumps: Final = orjson.dumps


def _make_encoder(options: int) -> Callable[[Json], bytes]:
    def encode(value: Json) -> bytes:
        try:
            text = _dumps(value, None, options)
        except TypeError as error:
            raise _encode_error(value, str(error)) from error
        # Visiting the few values of a long text takes less time than searching it, up
        # to a quarter of that of a large answer.
        may_have = (
            not text[LARGE]
            or text.find(b"null", 0, 4096) >= 0
            or _has_non_finite(value, len(text) // 256)
        )
        if may_have and b"null" in text and _has_non_finite(value):
            raise _encode_error(value, "not finite")
        return text

    return encode


encode: Final = _make_encoder(_OPTIONS)
"""Return a value as JSON text.

Raises:
    LocalProtocolError: Part of the value has no JSON form; the message has its path.
"""

encode_sorted: Final = _make_encoder(_OPTIONS | orjson.OPT_SORT_KEYS)
"""Return a value as canonical JSON text: the members of objects are sorted by name."""

encode_line: Final = _make_encoder(_OPTIONS | orjson.OPT_APPEND_NEWLINE)
"""Return a value as one line of JSON text with a newline at its end; see `encode`."""


def loads_object(text: bytes) -> dict[str, Json] | None:
    """Return the object in a JSON text, or ``None`` for anything else."""
    try:
        value = loads(text)
    except JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def compact(text: bytes) -> bytes:
    """Return a copy of encoded text without spare memory, for long-term storage.

    The bytes that orjson returns keep its output buffer, at least 4 KiB, allocated.
    """
    return bytes(memoryview(text))


def _has_non_finite(value: Json, max_values: float = inf) -> bool:
    """Return whether a value holds NaN or infinity, which orjson writes as ``null``.

    Also ``True`` if it holds more than `max_values` values, which are not all visited.
    """
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            if not isfinite(item):
                return True
        elif isinstance(item, (dict, list, tuple)):
            max_values -= len(item)
            if max_values < 0:
                return True
            pending.extend(item.values() if isinstance(item, dict) else item)
        elif isinstance(item, Enum):
            pending.append(item.value)
    return False


def _encode_error(value: Json, reason: str) -> LocalProtocolError:
    path, problem = _find_problem(value) or ("$", reason)
    return LocalProtocolError(f"cannot send {path}: {problem}")


def _find_problem(
    value: Json, path: str = "$", level: int = 1
) -> tuple[str, str] | None:
    """Return path and description of the first item that has no JSON form."""
    while isinstance(value, Enum):
        value = value.value
    problem = _value_problem(value, level)
    if problem is not None:
        return path, problem
    is_dict = isinstance(value, dict)
    for key, member in value.items() if is_dict else _enumerate_items(value):
        name, problem = _check_key(key) if is_dict else (f"[{key}]", None)
        if level > _MAX_PATH_LEVELS:
            name = "..." if level == _MAX_PATH_LEVELS + 1 else ""
        result = (path + name, problem) if problem is not None else None
        result = result or _find_problem(member, path + name, level + 1)
        if result is not None:
            return result
    return None


def _enumerate_items(value: Json) -> Iterable[tuple[int, Json]]:
    return enumerate(value) if isinstance(value, (list, tuple)) else ()


def _check_key(key: object) -> tuple[str, str | None]:
    if type(key) is not str:
        kind = type(key).__name__
        return f"[{kind}]", f"a key must be str, got {kind}"
    name = f".{key[:40]}" if key.isidentifier() else f"[{key[:40]!r}]"
    problem = _str_problem(key)
    return name, f"in the key, {problem}" if problem else None


def _value_problem(item: object, level: int) -> str | None:
    """Return why a value has no JSON form, regardless of its members, or ``None``."""
    if level > _MAX_DEPTH and isinstance(item, (dict, list, tuple)):
        return f"nested deeper than {_MAX_DEPTH} levels"
    if isinstance(item, str):
        return _str_problem(item)
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


def _str_problem(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"a lone surrogate stands at index {error.start}"
    return None


LARGE: Final = slice(1024 * 1024, 1024 * 1024 + 1)
"""A slice: if ``text[LARGE]`` is not empty, `check_values` must check the text."""

_CHUNK_BYTES: Final = 64 * 1024  # bytes scanned per step; fits the processor cache


def check_values(text: bytes | bytearray, max_values: int) -> None:
    """Raise `MessageTooLarge` if JSON text holds more than `max_values` values.

    Each value but the first follows a comma or an opening bracket. Such characters in
    strings are excluded by a second scan, only if the total exceeds `max_values`.
    """
    # A text of at most `max_values` bytes cannot hold more values.
    count = 0
    for start in range(0, len(text) if len(text) > max_values else 0, _CHUNK_BYTES):
        count += _count_separators(text[start : start + _CHUNK_BYTES])
        if count > max_values:
            break
    else:
        return
    if _has_more_outside_strings(text, max_values):
        raise MessageTooLarge(
            f"a message of {len(text)} bytes holds more than {max_values} values "
            "(Limits.values)",
            limit=max_values,
        )


def _has_more_outside_strings(text: bytes | bytearray, max_values: int) -> bool:
    # Without escapes, a character after an odd number of quotes is in a string.
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    count = quotes = 0
    for start in range(0, len(text), _CHUNK_BYTES):
        parts = text[start : start + _CHUNK_BYTES].split(b'"')
        count += _count_separators(b"".join(parts[quotes & 1 :: 2]))
        quotes += len(parts) - 1
        # A value and its member name have at most four quotes.
        if count > max_values or quotes > 4 * (max_values + 1):
            return True
    return False


def _count_separators(text: bytes | bytearray) -> int:
    # Base64 contains none of them: `in` scans images faster than `translate`.
    if b"," in text or b"[" in text or b"{" in text:
        return len(text) - len(text.translate(None, b",[{"))
    return 0


_END_BYTES: Final = 1_000  # bytes that `peek_members` reads at each end of a message
_MEMBER: Final = (
    rb'"[^"\\]*+"\s*+:\s*+(?:"[^"\\]*+"|-?[0-9][0-9.eE+-]*+|true|false|null)\s*+'
)
_HEAD: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(\{\s*+(?:" + _MEMBER + rb',\s*+)*+"[^"\\]*+"\s*+:)'
)
_TAIL: Final = re.compile(rb"[]}]\s*+((?:,\s*+" + _MEMBER + rb")*+\})\s*+\Z")


def peek_members(text: bytes | bytearray) -> dict[str, Json]:
    """Return the short members at both ends of an object, with a long one as ``None``.

    For a message that cannot or must not be decoded; ``{}`` if its ends are unreadable.
    """
    head = _HEAD.match(text[:_END_BYTES])
    tail = _TAIL.search(text[-_END_BYTES:])
    if head is None or tail is None:
        return {}
    try:
        members: dict[str, Json] = loads(head[1] + b"null" + tail[1])
    except JSONDecodeError:
        return {}
    return members
