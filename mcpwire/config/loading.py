"""`load`: sources and layers to a `Configuration`."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.config.checks import check_entry
from mcpwire.config.documents import RawEntry, merge, read_document
from mcpwire.config.entry import HTTP_FIELDS, ServerEntry
from mcpwire.config.reading import read_file, read_text
from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import ConfigError, UnknownServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcpwire.group import Member

__all__ = [
    "Configuration",
    "Source",
    "default_files",
    "load",
]

VARIABLE: Final = "MCPWIRE_CONFIG"
"""The variable that names the one configuration to be read."""

HERE: Final = ("mcpwire.toml", ".mcp.json", "mcp.json")
"""What is read of the working directory; of the same name the last one counts."""


def default_files(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the files to be read, as layers: what a later one says counts.

    ``MCPWIRE_CONFIG`` names the only one, whether it exists or not. Else they are those
    that exist of ``~/.config/mcpwire/config.toml`` (or in ``XDG_CONFIG_HOME``),
    ``./mcpwire.toml``, ``./.mcp.json`` and ``./mcp.json``.
    """
    variables = os.environ if environment is None else environment
    if named := variables.get(VARIABLE):
        return (Path(named),)
    home = variables.get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(home):  # noqa: PTH117 - the XDG rules: a relative one is none
        home = str(Path(variables.get("HOME") or "~").expanduser() / ".config")
    places = (Path(home, "mcpwire", "config.toml"), *map(Path, HERE))
    return tuple(place for place in places if place.is_file())


logger: Final = logging.getLogger("mcpwire.config")

Source: TypeAlias = (
    "str | os.PathLike[str] | Mapping[str, Any] | list[Any] | Configuration"
)
"""A file's path, or what stands in one, or what was loaded before."""


@attrs.frozen
class Configuration:
    """Servers by name, in order."""

    servers: dict[str, ServerEntry] = attrs.field(factory=dict)
    """All entries, those that are not enabled among them."""

    warnings: tuple[str, ...] = ()
    """What is odd, one sentence each with file, entry and field; it was logged, too."""

    files: tuple[str, ...] = ()
    """The files that were read, in order of their layers."""

    raw: tuple[tuple[RawEntry, ...], ...] = attrs.field(
        default=(), repr=False, eq=False
    )
    """What was read, by layers; another layer may come on top of it."""

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
        """Return what was read as one document, by our names, to be written as JSON.

        All layers are one in it; variables are not filled in, so that their secrets
        stay where they are. All servers are in it, whichever were wanted.
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
    """Read a configuration and the layers over it; check it and fill its variables in.

    A source is the path of a ``.toml`` or ``.json`` file, or the dict or list that
    stands in one. An entry of a later layer takes the place of one of the same name, as
    a whole, or only the fields that it has where it says ``merge = "fields"``.

    Variables are those of `environment`, by default of this process. `only` names the
    servers that are wanted: no other one is checked. `deny_urls` are the URLs that are
    refused, see `UrlDenyList`.

    Raises:
        ConfigError: A file cannot be read, or an entry breaks a rule.
        UnknownServer: `only` names one that there is none of.
        ValueError: `layers` or `deny_urls` are none.
    """
    if isinstance(layers, (str, os.PathLike, Mapping, Configuration)):
        raise ValueError("layers must be a list of sources, got a single one")
    variables = os.environ if environment is None else environment
    deny = deny_urls if isinstance(deny_urls, UrlDenyList) else UrlDenyList(deny_urls)
    warnings: list[str] = []
    files: list[str] = []
    read = [layer for each in (source, *layers) for layer in _read(each, files)]
    raws = merge(read)
    servers = {
        name: _entry(raw, variables, deny, warnings)
        for name, raw in _chosen(raws, only).items()
    }
    for warning in warnings:
        logger.warning("%s", warning)
    kept = tuple(tuple(layer) for layer in read)
    return Configuration(servers, tuple(warnings), tuple(files), kept)


def _read(source: Any, files: list[str]) -> list[list[RawEntry]]:
    """Return the layers of a source."""
    if isinstance(source, Configuration):
        files.extend(source.files)
        return [list(layer) for layer in source.raw]
    file: str | None = None
    document = source
    if isinstance(source, (str, os.PathLike)):
        document, file = read_file(source)
        files.append(file)
    elif isinstance(source, Mapping):
        document = dict(source)
    return [read_document(document, file)]


def _chosen(
    raws: dict[str, RawEntry], only: Iterable[str] | None
) -> dict[str, RawEntry]:
    if only is None:
        return raws
    wanted = (only,) if isinstance(only, str) else tuple(only)
    for name in wanted:
        if name not in raws:
            raise UnknownServer(name, known=raws)
    return {name: raw for name, raw in raws.items() if name in wanted}


def _entry(
    raw: RawEntry, variables: Mapping[str, str], deny: UrlDenyList, warnings: list[str]
) -> ServerEntry:
    checked, found = check_entry(raw, variables, deny)
    warnings.extend((*raw.warnings, *found))
    env_file = checked.pop("env_file", None)
    if env_file is not None and checked["enabled"]:
        checked["env"] = {**_variables(raw, env_file), **checked.get("env", {})}
    entry = ServerEntry(name=raw.name, file=raw.file, **checked)
    if entry.enabled:
        _try(raw, entry)
    return entry


def _variables(raw: RawEntry, path: str) -> dict[str, str]:
    from mcpwire.config.expansion import read_variables

    try:
        return read_variables(read_text(path, repr(path)))
    except ConfigError as error:
        raise raw.fault(str(error), "env_file") from error
    except ValueError as error:
        raise raw.fault(f"{path!r}: {error}", "env_file") from error


def _try(raw: RawEntry, entry: ServerEntry) -> None:
    """Make the target field by field, so that it is known which one is wrong.

    Raises:
        ConfigError: One is.
    """
    if entry.roots is not None:
        from mcpwire.protocol.client_features import as_source

        _attempt(raw, "roots", lambda: as_source(entry.paths_of_roots()))
    if entry.transport == "stdio":
        entry.to_target()
        return
    from mcpwire.transports.http.target import Http

    options: dict[str, Any] = {}
    _attempt(raw, "url", lambda: Http(entry.url or ""))
    _attempt(raw, "auth", entry.http_options)
    for name in HTTP_FIELDS:
        options[name] = entry.http_options()[name]
        _attempt(raw, name, lambda: Http(entry.url or "", **options))


IN_WORDS_OF_FILES: Final = (
    ("allow_insecure=True", "allow_insecure = true"),
    ("a grant such as mcpwire.OAuth()", "a table"),
    ("auth= and an authorization header", "it and a header Authorization"),
)
"""What the library calls things, and what they are called here."""


def _attempt(raw: RawEntry, field: str, make: Callable[[], object]) -> None:
    try:
        make()
    except ValueError as error:
        said = str(error)
        for word, ours in IN_WORDS_OF_FILES:
            said = said.replace(word, ours)
        # Errors of the library begin with the option, as messages here do anyway.
        match = re.match(rf"{field}(\[[0-9]+\])?:? ", said)
        at = (match[1] or "") if match is not None else ""
        problem = said[match.end() :] if match is not None else said
        raise raw.fault(problem, field, at) from error
