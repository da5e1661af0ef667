"""`load`: reads sources and layers, and makes a `Configuration` of them."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.config.document import (
    RawEntry,
    TableWithDuplicates,
    check_entry,
    merge,
    read_document,
    read_variables,
)
from mcpwire.config.entry import HTTP_FIELDS, ServerEntry
from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import ConfigError, UnknownServer
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcpwire.group import Member

CONFIG_VARIABLE: Final = "MCPWIRE_CONFIG"
"""The environment variable with the path of the configuration."""

LOCAL_FILES: Final = ("mcpwire.toml", ".mcp.json", "mcp.json")
"""The files of the working directory, as layers."""


def default_files(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the default configuration files, as layers: a later one overrides.

    ``MCPWIRE_CONFIG`` names the only one, whether it exists or not. Without it they are
    the existing ones of ``~/.config/mcpwire/config.toml`` (or in ``XDG_CONFIG_HOME``),
    ``./mcpwire.toml``, ``./.mcp.json`` and ``./mcp.json``.
    """
    variables = os.environ if environment is None else environment
    if path := variables.get(CONFIG_VARIABLE):
        return (Path(path),)
    home = variables.get("XDG_CONFIG_HOME") or ""
    paths = [Path(name) for name in LOCAL_FILES]
    with contextlib.suppress(RuntimeError):  # the user has no home folder
        if not os.path.isabs(home):  # noqa: PTH117 - XDG: a relative path is ignored
            home = str(Path(variables.get("HOME") or Path.home(), ".config"))
        paths.insert(0, Path(home, "mcpwire", "config.toml"))
    return tuple(path for path in paths if path.is_file())


logger: Final = logging.getLogger("mcpwire.config")

Source: TypeAlias = (
    "str | os.PathLike[str] | Mapping[str, Any] | list[Any] | Configuration"
)
"""A file's path, the content of one, or a loaded configuration."""


@attrs.frozen
class Configuration:
    """Servers by name, in order."""

    servers: dict[str, ServerEntry] = attrs.field(factory=dict)
    """All entries, also disabled ones."""

    warnings: tuple[str, ...] = ()
    """Logged warnings: one sentence each, with file, entry and field."""

    files: tuple[str, ...] = ()
    """The files that were read, in the order of their layers."""

    raw: tuple[tuple[RawEntry, ...], ...] = attrs.field(
        default=(), repr=False, eq=False
    )
    """The entries of each layer, so that another layer can be added."""

    def __getitem__(self, name: str) -> ServerEntry:
        """Return the entry of that name.

        Raises:
            UnknownServer: There is none.
        """
        try:
            return self.servers[name]
        except KeyError:
            raise UnknownServer(name, known=self.servers) from None

    def __contains__(self, name: object) -> bool:
        return name in self.servers

    def __iter__(self) -> Iterator[str]:
        return iter(self.servers)

    def __len__(self) -> int:
        return len(self.servers)

    @property
    def enabled(self) -> dict[str, ServerEntry]:
        """The entries that are enabled."""
        return {name: entry for name, entry in self.servers.items() if entry.enabled}

    def document(self) -> dict[str, Any]:
        """Return all layers as one document that can be written as JSON.

        It has our names for fields and all servers, whatever `only` was. Variables are
        not expanded, so it holds none of their secrets.
        """
        raws = merge([list(layer) for layer in self.raw])
        return {
            "mcpServers": {
                name: {
                    field: "inf" if value == math.inf else value
                    for field, value in raw.values.items()
                    if field not in {"name", "merge"}
                }
                for name, raw in raws.items()
            }
        }

    def members(self) -> dict[str, Member]:
        """Return the enabled entries as members of a group."""
        return {name: entry.to_member() for name, entry in self.enabled.items()}


def load(
    source: Source,
    layers: Iterable[Source] = (),
    environment: Mapping[str, str] | None = None,
    *,
    only: Iterable[str] | None = None,
    deny_urls: UrlDenyList | Iterable[str] = (),
) -> Configuration:
    """Read a configuration and its layers, check them and expand their variables.

    Args:
        source: The path of a ``.toml`` or ``.json`` file, or the dict or list that such
            a file holds.
        layers: More sources. A later entry replaces an earlier one of the same name, or
            only single fields of it where it has ``merge = "fields"``.
        environment: The variables; those of this process by default.
        only: The names of the servers to check and return; all by default.
        deny_urls: URLs that no server may have, see `UrlDenyList`.

    Raises:
        ConfigError: A file cannot be read, or an entry breaks a rule.
        UnknownServer: `only` has an unknown name.
        ValueError: `layers` is not a list, or `deny_urls` not a list of URLs.
    """
    if isinstance(layers, (str, os.PathLike, Mapping, Configuration)):
        raise ValueError("layers must be a list of sources, got a single one")
    variables = os.environ if environment is None else environment
    deny = deny_urls if isinstance(deny_urls, UrlDenyList) else UrlDenyList(deny_urls)
    files: list[str] = []
    raw_layers = [
        layer for each in (source, *layers) for layer in _read_source(each, files)
    ]
    raws = merge(raw_layers)
    selected = (
        (only,) if isinstance(only, str) else tuple(raws if only is None else only)
    )
    for name in selected:
        if name not in raws:
            raise UnknownServer(name, known=raws)
    servers: dict[str, ServerEntry] = {}
    warnings: list[str] = []
    for name, raw in raws.items():
        if name in selected:
            fields, entry_warnings = check_entry(raw, variables, deny)
            warnings += (*raw.warnings, *entry_warnings)
            servers[name] = _make_entry(raw, fields)
    for warning in warnings:
        logger.warning("%s", warning)
    frozen_layers = tuple(tuple(layer) for layer in raw_layers)
    return Configuration(servers, tuple(warnings), tuple(files), frozen_layers)


def _read_source(source: Any, files: list[str]) -> list[list[RawEntry]]:
    """Return the layers of a source, and add its file to `files`."""
    if isinstance(source, Configuration):
        files.extend(source.files)
        return [list(layer) for layer in source.raw]
    if isinstance(source, (str, os.PathLike)):
        document, file = _read_file(source)
        files.append(file)
        return [read_document(document, file)]
    return [
        read_document(dict(source) if isinstance(source, Mapping) else source, None)
    ]


def _make_entry(raw: RawEntry, fields: dict[str, Any]) -> ServerEntry:
    path = fields.pop("env_file", None)
    if path is not None and fields["enabled"]:
        try:
            variables = read_variables(_read_text(path, repr(path)))
        except ConfigError as error:
            raise raw.error(str(error), "env_file") from error
        except ValueError as error:
            raise raw.error(f"{path!r}: {error}", "env_file") from error
        fields["env"] = {**variables, **fields.get("env", {})}
    entry = ServerEntry(name=raw.name, file=raw.file, **fields)
    if entry.enabled:
        _check_target(raw, entry)
    return entry


def _check_target(raw: RawEntry, entry: ServerEntry) -> None:
    """Make the target field by field, to find the one that it refuses."""
    if entry.roots is not None:
        from mcpwire.protocol.client_features import as_source

        _check_field(raw, "roots", lambda: as_source(entry.paths_of_roots()))
    if entry.transport == "stdio":
        entry.to_target()
        return
    from mcpwire.transports.http.target import Http

    options: dict[str, Any] = {}
    _check_field(raw, "url", lambda: Http(entry.url or ""))
    _check_field(raw, "auth", entry.http_options)
    for name in HTTP_FIELDS:
        options[name] = entry.http_options()[name]
        _check_field(raw, name, lambda: Http(entry.url or "", **options))


_FILE_WORDING: Final = (
    ("allow_insecure=True", "allow_insecure = true"),
    ("a grant such as mcpwire.OAuth()", "a table"),
    ("auth= and an authorization header", "it and a header Authorization"),
)
"""Words in the errors of the library, and the same for a configuration file."""


def _check_field(raw: RawEntry, field: str, make: Callable[[], object]) -> None:
    try:
        make()
    except ValueError as error:
        problem = str(error)
        for wording, replacement in _FILE_WORDING:
            problem = problem.replace(wording, replacement)
        # Errors of the library begin with the option, which `error` puts there itself.
        match = re.match(rf"{field}(\[[0-9]+\])?:? ", problem)
        position = (match[1] or "") if match is not None else ""
        problem = problem[match.end() :] if match is not None else problem
        raise raw.error(problem, field, position) from error


# Files...


def _read_file(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return a file's document, and the file's name for messages."""
    name = os.fspath(path)
    display_name = name if name.isprintable() else repr(name)
    suffix = Path(name).suffix.lower() or Path(name).name.lower()
    parse = {".toml": _parse_toml, ".json": _parse_json}.get(suffix)
    if parse is None:
        raise ConfigError("must be named .toml or .json", file=display_name)
    return parse(_read_text(name, display_name), display_name), display_name


def _read_text(path: str, display_name: str) -> str:
    """Return a file's text; `display_name` is its name for messages."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise ConfigError("does not exist", file=display_name) from error
    except IsADirectoryError as error:
        raise ConfigError("is a directory", file=display_name) from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ConfigError(f"cannot be read: {reason}", file=display_name) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        position = error.start + 1
    # Outside of the handler: its error holds the whole text, with its secrets.
    raise ConfigError(f"is not UTF-8 (at byte {position})", file=display_name)


def _parse_toml(text: str, display_name: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of endless length, too
        problem = _lower_first(str(error))
    raise ConfigError(f"is not TOML: {problem}", file=display_name)


_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def _parse_json(text: str, display_name: str) -> Any:
    for pattern in (_COMMENT, _TRAILING_COMMA):  # those of editors, as spaces
        text = pattern.sub(
            lambda at: at[0] if at[0][0] == '"' else re.sub(r"[^\n]", " ", at[0]), text
        )
    try:
        loads(text)
    except JSONDecodeError as error:
        problem = _lower_first(error.msg)
        location = f"(at line {error.lineno}, column {error.colno})"
    else:
        try:  # again, because only this parser shows repeated keys
            return json.loads(text, object_pairs_hook=_make_table)
        except RecursionError:
            raise ConfigError("is nested too deeply", file=display_name) from None
    # Outside of the handler: its error holds the whole text, with its secrets.
    raise ConfigError(f"is not JSON: {problem} {location}", file=display_name)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _make_table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        table = TableWithDuplicates(table)
        table.duplicates = tuple(key for key, count in counts.items() if count > 1)
    return table
