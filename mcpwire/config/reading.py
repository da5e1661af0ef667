"""Reads the files of a configuration: TOML by its ending, JSON by its ending."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from mcpwire.config.documents import Repeating
from mcpwire.errors import ConfigError
from mcpwire.wire.json import JSONDecodeError, loads

__all__ = ["read_file", "read_text"]


def read_file(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return a file's document, and the file's name for messages.

    Raises:
        ConfigError: It cannot be read, or is neither TOML nor JSON.
    """
    name = os.fspath(path)
    shown = name if name.isprintable() else repr(name)
    ending = Path(name).suffix.lower() or Path(name).name.lower()
    parse = {".toml": _toml, ".json": _json}.get(ending)
    if parse is None:
        raise ConfigError("must be named .toml or .json", file=shown)
    return parse(read_text(name, shown), shown), shown


def read_text(path: str, shown: str) -> str:
    """Return a file's text.

    Raises:
        ConfigError: It cannot be read; `shown` is what the message calls it.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise ConfigError("does not exist", file=shown) from error
    except IsADirectoryError as error:
        raise ConfigError("is a directory", file=shown) from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ConfigError(f"cannot be read: {reason}", file=shown) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = error.start
    # Not from within: such errors carry the whole text with them, and its secrets.
    raise ConfigError(f"is not UTF-8 (at byte {at + 1})", file=shown)


def _toml(text: str, shown: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of endless length, too
        said = str(error)
    raise ConfigError(f"is no TOML: {_lowered(said)}", file=shown)


def _json(text: str, shown: str) -> Any:
    try:
        loads(text)
    except JSONDecodeError as error:
        line, column = error.lineno, error.colno
        hint = _hint(text[error.pos :], text[: error.pos])
        said = f"is no JSON: {hint or _lowered(error.msg)}"
    else:
        return _with_repeated(text, shown)
    # Not from within: such errors carry the whole text with them, and its secrets.
    raise ConfigError(f"{said} (at line {line}, column {column})", file=shown)


def _hint(rest: str, before: str) -> str | None:
    if rest.startswith(("/", "#")) or before.endswith("/"):
        return "comments are none, take them out or write TOML"
    return None


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _with_repeated(text: str, shown: str) -> Any:
    """Read JSON once more, by what tells whether a key stands there twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ConfigError("is nested too deeply", file=shown) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) == len(pairs):
        return table
    found = Repeating(table)
    counts = Counter(key for key, _ in pairs)
    found.repeated = tuple(key for key, count in counts.items() if count > 1)
    return found
