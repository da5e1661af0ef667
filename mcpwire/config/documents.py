"""From documents to entries: the shapes there are, what their fields mean, layers.

An entry here is raw: its keys are ours, its values are as they were written. What it
takes from which layer is kept, so that whatever is wrong is said of the right file.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.config.fields import (
    FIELDS,
    HARMLESS,
    SPELLINGS,
    UNUSED,
    canonical,
    kind_of,
)
from mcpwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "RawEntry",
    "Repeating",
    "merge",
    "read_document",
    "sentence",
    "unknown",
]

SHAPES: Final[tuple[tuple[str, ...], ...]] = (
    ("mcpServers",),
    ("mcp_servers",),
    ("servers",),
    ("mcp", "servers"),
)
"""Where the servers stand in a document; each may be a list or a map by name."""

_NAMED: Final = "mcpServers, mcp_servers or servers"


class Repeating(dict[str, Any]):
    """A table of a file in which some keys stand more than once."""

    repeated: tuple[str, ...] = ()


@attrs.frozen
class RawEntry:
    """One server as files have it."""

    name: str

    place: str
    """What it is called where something is wrong with it."""

    values: dict[str, Any] = attrs.field(repr=lambda values: repr(sorted(values)))
    """By our names. They stay out of reprs: some of them are secrets."""

    files: dict[str, str | None]
    """Which file each of them is from."""

    spelled: dict[str, str]
    """What each of them is called there."""

    file: str | None
    """The last file that says something of it."""

    warnings: tuple[str, ...] = ()
    """What is odd about it, one sentence each."""

    mistyped: dict[str, str] = attrs.field(factory=dict)
    """Keys that are unknown, and the field that each of them may mean."""

    def fault(
        self, problem: str, field: str | None = None, at: str = ""
    ) -> ConfigError:
        """Return the error that says what is wrong with a field."""
        spelled = None if field is None else self.spelled.get(field, field) + at
        file = self.file if field is None else self.files.get(field, self.file)
        return ConfigError(problem, file=file, entry=self.place, field=spelled)


def sentence(problem: str, *where: str | None) -> str:
    """Return a warning in the words of `ConfigError`."""
    return ": ".join((*(part for part in where if part is not None), problem))


def read_document(document: Any, file: str | None) -> list[RawEntry]:
    """Return the servers of a document.

    Raises:
        ConfigError: It has none of the shapes, or a server in it has no name.
    """
    key, servers = _servers(document, file)
    if isinstance(servers, dict):
        for name in getattr(servers, "repeated", ()):
            raise ConfigError(
                "stands there twice", file=file, entry=_readable(name), field="name"
            )
        named = [_named(name, value, file, key) for name, value in servers.items()]
    elif isinstance(servers, (list, tuple)):
        named = [_listed(at, value, file, key) for at, value in enumerate(servers)]
    else:
        raise ConfigError(
            f"must be a list or a table of servers, got {kind_of(servers)}",
            file=file,
            field=key or None,
        )
    entries: dict[str, RawEntry] = {}
    for at, (name, place, table) in enumerate(named):
        if name in entries:
            raise ConfigError(
                f"stands there twice, the second time as {key or 'servers'}[{at}]",
                file=file,
                entry=place,
                field="name",
            )
        entries[name] = _raw(name, place, table, file)
    return list(entries.values())


def _servers(document: Any, file: str | None) -> tuple[str, Any]:
    """Return where in a document the servers stand, and them."""
    if isinstance(document, (list, tuple)):
        return "", document
    if not isinstance(document, dict):
        raise ConfigError(
            f"must be a table or a list of servers, got {kind_of(document)}", file=file
        )
    found = [
        (path, value)
        for path in SHAPES
        if (value := _follow(document, path)) is not None
    ]
    if len(found) > 1:
        first, second = (".".join(path) for path, _ in found[:2])
        raise ConfigError(f"{first} and {second} exclude each other", file=file)
    if not found:
        raise ConfigError(_nothing(document), file=file)
    path, servers = found[0]
    _check_repeated(document, file, None)
    return ".".join(path), servers


def _follow(document: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _nothing(document: dict[str, Any]) -> str:
    keys = list(map(str, document))
    for key in keys:
        close = get_close_matches(key, [path[-1] for path in SHAPES], 1, 0.8)
        if close:
            return f"holds no servers; {key!r} is unknown, did you mean {close[0]!r}?"
    if any(_follow(document, (key, word)) for key in keys for word in _REACHED):
        return "the servers must stand under mcpServers"
    return f"holds no servers: there is no {_NAMED}"


_REACHED: Final = ("command", "url")


def _check_repeated(
    value: Any, file: str | None, entry: str | None, before: str = ""
) -> None:
    for key in getattr(value, "repeated", ()):
        raise ConfigError(
            "stands there twice", file=file, entry=entry, field=before + _readable(key)
        )


def _readable(name: str) -> str:
    return name[:64] if name.isprintable() and name else repr(name[:64])


def _named(
    name: Any, value: Any, file: str | None, key: str
) -> tuple[str, str, dict[str, Any]]:
    if not isinstance(name, str):
        raise ConfigError(
            f"a server's name must be a string, got {kind_of(name)}",
            file=file,
            field=key,
        )
    table = _table(value, file, _readable(name))
    inner = table.get("name", name)
    if not isinstance(inner, str) or inner != name:
        raise ConfigError(
            "is another one than the key",
            file=file,
            entry=_readable(name),
            field="name",
        )
    _check_name(name, f"{key}[{name[:64]!r}]", file)
    return name, name, table


def _listed(
    at: int, value: Any, file: str | None, key: str
) -> tuple[str, str, dict[str, Any]]:
    place = f"{key or 'servers'}[{at}]"
    table = _table(value, file, place)
    name = table.get("name")
    if name is None:
        raise ConfigError("is missing", file=file, entry=place, field="name")
    if not isinstance(name, str):
        raise ConfigError(
            f"must be a string, got {kind_of(name)}",
            file=file,
            entry=place,
            field="name",
        )
    _check_name(name, place, file)
    return name, name, table


def _table(value: Any, file: str | None, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(
            f"must be a table, got {kind_of(value)}", file=file, entry=place
        )
    return value


def _check_name(name: str, place: str, file: str | None) -> None:
    if not name.strip():
        raise ConfigError("must not be empty", file=file, entry=place, field="name")
    if not name.isprintable() or name != name.strip():
        raise ConfigError(
            "must be one line without spaces around it",
            file=file,
            entry=place,
            field="name",
        )


def _raw(name: str, place: str, table: dict[str, Any], file: str | None) -> RawEntry:
    """Return an entry by our names; what has none is warned of."""
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    warnings: list[str] = []
    mistyped: dict[str, str] = {}
    _check_repeated(table, file, place)
    for key, given in table.items():
        if given is None:
            continue  # what other programs write for a field that is not there
        field, value = _translated(str(key), given)
        if field not in FIELDS:
            meant = _meant_by(field)
            warnings += _odd_key(str(key), field, meant, file, place)
            if meant is not None:
                mistyped[str(key)] = meant
            continue
        if field in values:
            if not (field == "headers" and _is_of_variables(str(key), spelled[field])):
                raise ConfigError(
                    f"says the same as {spelled[field]}: keep one of them",
                    file=file,
                    entry=place,
                    field=str(key),
                )
            value = _joined(values[field], value)
        _check_repeated(value, file, place, f"{key}.")
        values[field] = value
        spelled[field] = str(key)
    files: dict[str, str | None] = dict.fromkeys(values, file)
    return RawEntry(
        name, place, values, files, spelled, file, tuple(warnings), mistyped
    )


def _is_of_variables(*keys: str) -> bool:
    """Tell whether one of two names says which headers variables hold."""
    return sum(canonical(key) == "headers" for key in keys) == 1


def _joined(values: Any, more: Any) -> Any:
    """Return both tables as one; what is no table is for the check to find."""
    if isinstance(values, dict) and isinstance(more, dict):
        return {**values, **more}
    return more if isinstance(values, dict) else values


def _translated(key: str, value: Any) -> tuple[str, Any]:
    """Return our name and form of what other hosts have a field of its own for."""
    field = canonical(key)
    if field == "bearer_token_env_var":
        return "auth", {"token_env": value}
    if field == "oauth" and isinstance(value, dict):
        return "auth", {"type": "oauth", **value}
    if field == "env_http_headers" and isinstance(value, dict):
        return "headers", {
            name: f"${{{text}}}" if isinstance(text, str) else text
            for name, text in value.items()
        }
    return field, value


def _meant_by(field: str) -> str | None:
    """Return the field that an unknown one may mean."""
    if field in HARMLESS or field in UNUSED or field.startswith("_"):
        return None
    close = get_close_matches(field, SPELLINGS, 1, 0.7)
    return canonical(close[0]) if close else None


def _odd_key(
    key: str, field: str, meant: str | None, file: str | None, place: str
) -> Iterator[str]:
    if field in HARMLESS or field.startswith("_"):
        return
    problem = f"is not used: {UNUSED[field]}" if field in UNUSED else unknown(meant)
    yield sentence(problem, file, place, _readable(key))


def unknown(meant: str | None) -> str:
    """Say that a field is unknown, and which one it may mean."""
    return "is unknown" if meant is None else f"is unknown; did you mean {meant!r}?"


# Layers...


def merge(layers: list[list[RawEntry]]) -> dict[str, RawEntry]:
    """Return the servers of all layers by name: of the same name the last one counts.

    It takes the place of the one before, as a whole, or field by field where it says
    ``merge = "fields"``; new ones follow.
    """
    merged: dict[str, RawEntry] = {}
    for layer in layers:
        for entry in layer:
            before = merged.get(entry.name)
            is_part = entry.values.get("merge") == "fields"
            merged[entry.name] = (
                _over(before, entry) if before is not None and is_part else entry
            )
    return merged


_OPPOSITES: Final = {"enabled": "disabled", "disabled": "enabled"}


def _over(before: RawEntry, entry: RawEntry) -> RawEntry:
    values, files, spelled = before.values, before.files, before.spelled
    values, files, spelled = dict(values), dict(files), dict(spelled)
    for field, value in entry.values.items():
        old = values.get(field)
        values.pop(_OPPOSITES.get(field, ""), None)
        if isinstance(old, dict) and isinstance(value, dict) and field != "auth":
            values[field] = {**old, **value}
        else:
            values[field] = value
        files[field], spelled[field] = entry.files[field], entry.spelled[field]
    warnings = before.warnings + entry.warnings
    mistyped = before.mistyped | entry.mistyped
    return RawEntry(
        entry.name, entry.place, values, files, spelled, entry.file, warnings, mistyped
    )
