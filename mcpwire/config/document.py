"""Reads a document of servers, merges layers, checks entries and expands variables.

::

    document ─► read_document ─► RawEntry, by layer ─► merge ─► check_entry ─► fields

A `RawEntry` has our names for its keys and unchanged values, and remembers the file of
each field, so that an error names the right file. No message shows a value that could
be a secret.
"""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.config.schema import (
    FIELDS,
    IGNORED_FIELDS,
    KNOWN_KEYS,
    UNUSED_FIELDS,
    UNUSED_OAUTH_FIELDS,
    auth_form,
    canonical_name,
    printable,
    snake_case,
    transport_of_type,
    type_name,
)
from mcpwire.errors import ConfigError
from mcpwire.protocol.http_headers import POST_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcpwire.config.url_deny_list import UrlDenyList

PATHS: Final[tuple[tuple[str, ...], ...]] = (
    ("mcpServers",),
    ("mcp_servers",),
    ("servers",),
    ("mcp", "servers"),
)
"""The paths at which a document may hold its servers, as a list or a map by name."""


class TableWithDuplicates(dict[str, Any]):
    """A table of a file in which some keys stand more than once."""

    duplicates: tuple[str, ...] = ()


@attrs.define
class RawEntry:
    """One server as files have it."""

    name: str

    label: str
    """Its name in messages: the name, or its position in a list."""

    file: str | None
    """The last file that has a field of it."""

    values: dict[str, Any] = attrs.field(
        factory=dict, repr=lambda values: repr(sorted(values))
    )
    """By our names. The repr leaves them out: some are secrets."""

    files: dict[str, str | None] = attrs.field(factory=dict)
    """The file of each field."""

    spellings: dict[str, str] = attrs.field(factory=dict)
    """The spelling of each field there."""

    warnings: tuple[str, ...] = ()

    suggestions: dict[str, str] = attrs.field(factory=dict)
    """Unknown keys, and the field that each of them may mean."""

    def error(
        self, problem: str, field: str | None = None, at: str = ""
    ) -> ConfigError:
        """Return the error for a field."""
        spelling = None if field is None else self.spellings.get(field, field) + at
        file = self.file if field is None else self.files.get(field, self.file)
        return ConfigError(problem, file=file, entry=self.label, field=spelling)

    def warning(self, problem: str, field: str) -> str:
        """Return a warning about a field, in the form of `ConfigError`."""
        return str(self.error(problem, field))


def read_document(document: Any, file: str | None) -> list[RawEntry]:
    """Return the servers of a document."""
    key, servers = _find_servers(document, file)
    if isinstance(servers, dict):
        for name in getattr(servers, "duplicates", ()):
            raise ConfigError(
                "is given twice", file=file, entry=printable(name), field="name"
            )
        items = [(name, value, "") for name, value in servers.items()]
    elif isinstance(servers, (list, tuple)):
        items = [
            (None, value, f"{key or 'servers'}[{index}]")
            for index, value in enumerate(servers)
        ]
    else:
        raise ConfigError(
            f"must be a list or a table of servers, got {type_name(servers)}",
            file=file,
            field=key or None,
        )
    entries: dict[str, RawEntry] = {}
    for name, value, label in items:
        entry = _read_entry(name, value, label, key, file)
        if entry.name in entries:
            problem = f"is given twice, the second time as {label}"
            raise entry.error(problem, "name")
        entries[entry.name] = entry
    return list(entries.values())


def _find_servers(document: Any, file: str | None) -> tuple[str, Any]:
    """Return the servers of a document and the key that they stand under."""
    if isinstance(document, (list, tuple)):
        return "", document
    if not isinstance(document, dict):
        problem = f"must be a table or a list of servers, got {type_name(document)}"
        raise ConfigError(problem, file=file)
    matches = [
        (".".join(path), value)
        for path in PATHS
        if (value := _follow(document, path)) is not None
    ]
    if len(matches) > 1:
        first, second = (path for path, _ in matches[:2])
        raise ConfigError(f"{first} and {second} exclude each other", file=file)
    if not matches:
        raise ConfigError(_no_servers_message(document), file=file)
    for table in (document, document.get("mcp")):
        for key in getattr(table, "duplicates", ()):
            raise ConfigError("is given twice", file=file, field=printable(key))
    return matches[0]


def _follow(document: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _no_servers_message(document: dict[str, Any]) -> str:
    keys = list(map(str, document))
    for key in keys:
        close = get_close_matches(key, [path[-1] for path in PATHS], 1, 0.8)
        if close:
            return (
                f"contains no servers; {key!r} is unknown, did you mean {close[0]!r}?"
            )
    paths = [(key, field) for key in keys for field in ("command", "url")]
    if any(_follow(document, path) for path in paths):
        return "the servers must be under mcpServers"
    return "contains no servers: there is no mcpServers, mcp_servers or servers"


def _read_entry(
    key: Any, value: Any, label: str, servers_key: str, file: str | None
) -> RawEntry:
    """Return the entry of a table, with our names for its fields."""
    if key is not None and not isinstance(key, str):
        problem = f"a server's name must be a string, got {type_name(key)}"
        raise ConfigError(problem, file=file, field=servers_key)
    entry = RawEntry("", label or printable(str(key)), file)
    if not isinstance(value, dict):
        raise entry.error(f"must be a table, got {type_name(value)}")
    entry.name = entry.label = _read_name(entry, value, key, servers_key)
    _refuse_duplicates(entry, value, "")
    for field, field_value in value.items():
        if field_value is not None:  # other programs write null for a missing field
            _read_field(entry, str(field), field_value)
    return entry


def _read_name(
    entry: RawEntry, table: dict[str, Any], key: Any, servers_key: str
) -> str:
    """Return the name of an entry: one line, and equal to the key in a map."""
    name = table.get("name", key)
    if name is None:
        raise entry.error("is missing", "name")
    if key is not None and name != key:
        raise entry.error("differs from the key", "name")
    if not isinstance(name, str):
        raise entry.error(f"must be a string, got {type_name(name)}", "name")
    if key is not None:
        entry.label = f"{servers_key}[{name[:64]!r}]"
    if not name.strip():
        raise entry.error("must not be empty", "name")
    if not name.isprintable() or name != name.strip():
        raise entry.error("must be one line without spaces around it", "name")
    return name


def _refuse_duplicates(entry: RawEntry, value: Any, prefix: str) -> None:
    for key in getattr(value, "duplicates", ()):
        raise entry.error("is given twice", prefix + printable(key))


def _read_field(entry: RawEntry, key: str, given: Any) -> None:
    raw_value = given
    if key == "oauth" and isinstance(raw_value, dict):
        _refuse_duplicates(entry, raw_value, "oauth.")
        raw_value = _read_oauth(entry, raw_value)
        if raw_value is None:
            return
    field, value = _translate(key, raw_value)
    if field not in FIELDS:
        _warn_about_key(entry, key, field)
        return
    if field in entry.values:
        spelling = entry.spellings[field]
        names = [canonical_name(key), canonical_name(spelling)]
        if field != "headers" or names.count("headers") != 1:
            raise entry.error(f"duplicates {spelling}: keep one of them", key)
        value = _merge_tables(entry.values[field], value)
    _refuse_duplicates(entry, given, f"{key}.")
    entry.values[field] = value
    entry.spellings[field] = key
    entry.files[field] = entry.file


def _merge_tables(table: Any, new: Any) -> Any:
    """Return both tables as one; a value that is not a table is left to the check."""
    if isinstance(table, dict) and isinstance(new, dict):
        return {**table, **new}
    return new if isinstance(table, dict) else table


def _read_oauth(entry: RawEntry, table: dict[str, Any]) -> dict[str, Any] | None:
    """Return the `oauth` of another host without fields that have no effect here."""
    if table.get("enabled", True) is False:
        return None
    unused = [name for name in table if snake_case(name) in UNUSED_OAUTH_FIELDS]
    problem = "is not used: where to log in is found out from the server"
    entry.warnings += tuple(entry.warning(problem, f"oauth.{name}") for name in unused)
    return {
        name: value for name, value in table.items() if name not in {*unused, "enabled"}
    }


def _translate(key: str, value: Any) -> tuple[str, Any]:
    """Return our name and form of a field, also of those that only other hosts have."""
    field = canonical_name(key)
    # Codex: approval by tool; names of variables, or tables with them
    if key == "tools" and isinstance(value, dict):
        return "default_tools_approval_mode", value
    if snake_case(key) == "env_vars" and isinstance(value, list):
        names = [v.get("name", v) if isinstance(v, dict) else v for v in value]
        return field, names
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


def _warn_about_key(entry: RawEntry, key: str, field: str) -> None:
    """Add the warning about a key that has no effect."""
    if field in IGNORED_FIELDS or field.startswith("_"):
        return
    if field in UNUSED_FIELDS:
        problem = f"is not used: {UNUSED_FIELDS[field]}"
    else:
        close = get_close_matches(field, KNOWN_KEYS, 1, 0.7)
        if close:
            entry.suggestions[key] = canonical_name(close[0])
        problem = _unknown_message(entry.suggestions.get(key))
    entry.warnings += (entry.warning(problem, printable(key)),)


def _unknown_message(meant: str | None) -> str:
    return "is unknown" if meant is None else f"is unknown; did you mean {meant!r}?"


# Layers...


def merge(layers: list[list[RawEntry]]) -> dict[str, RawEntry]:
    """Return the servers of all layers by name; a later entry replaces an earlier one.

    With ``merge = "fields"`` it replaces single fields, or else the whole entry.
    """
    merged: dict[str, RawEntry] = {}
    for layer in layers:
        for entry in layer:
            base = merged.get(entry.name)
            is_partial = entry.values.get("merge") == "fields"
            merged[entry.name] = (
                _merge_fields(base, entry) if base is not None and is_partial else entry
            )
    return merged


_OPPOSITES: Final = {"enabled": "disabled", "disabled": "enabled"}


def _merge_fields(base: RawEntry, entry: RawEntry) -> RawEntry:
    values = dict(base.values)
    for field, value in entry.values.items():
        values.pop(_OPPOSITES.get(field, ""), None)
        old = values.get(field)
        if isinstance(old, dict) and isinstance(value, dict) and field != "auth":
            values[field] = {**old, **value}
        else:
            values[field] = value
    return attrs.evolve(
        entry,
        values=values,
        files=base.files | entry.files,
        spellings=base.spellings | entry.spellings,
        warnings=base.warnings + entry.warnings,
        suggestions=base.suggestions | entry.suggestions,
    )


# Checks...


_NON_MEMBER_FIELDS: Final = frozenset({"name", "type", "enabled", "disabled", "merge"})


def check_entry(
    raw: RawEntry, variables: Mapping[str, str], deny: UrlDenyList | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return an entry's checked and expanded fields, and the warnings about it.

    ``transport`` is ``"stdio"`` or ``"http"``, ``enabled`` a bool; fields that are not
    given are left out. The variables of a disabled entry are not expanded.
    """
    values = raw.values
    for name, field in FIELDS.items():
        fault = field.kind.check(values[name]) if name in values else None
        if fault is not None:
            raise raw.error(fault.problem, name, fault.position)
    transport = _transport(raw)
    for name, other in (("revision", "mode"), ("disabled", "enabled")):
        if name in values and other in values:
            raise raw.error(f"duplicates {other}: keep one of them", name)
    checked: dict[str, Any] = {
        name: values[name]
        for name in FIELDS
        if name in values and name not in _NON_MEMBER_FIELDS
    }
    for name in ("timeout", "connect_timeout"):
        if checked.get(name) == "inf":
            checked[name] = math.inf
    if "headers" in checked:
        headers = checked["headers"].items()
        checked["headers"] = {k: v for k, v in headers if k.lower() not in POST_FIELDS}
    warnings = list(_warnings(raw, transport))
    checked["transport"] = transport
    checked["enabled"] = values.get("enabled", not values.get("disabled", False))
    if checked["enabled"]:
        _expand_fields(raw, checked, variables)
        refused = deny.refuses(checked["url"]) if deny and "url" in checked else None
        if refused is not None:
            raise raw.error(f"is refused by the deny list ({refused})", "url")
    return checked, warnings


def _transport(raw: RawEntry) -> str:
    """Return the transport of an entry: of its `type`, or of `command` or `url`."""
    has_command, has_url = "command" in raw.values, "url" in raw.values
    if has_command and has_url:
        spelling = raw.spellings.get("command", "command")
        problem = f"{spelling} is given too, and they exclude each other"
        raise raw.error(problem, "url")
    kind = raw.values.get("type")
    transport = transport_of_type(kind)
    if transport is None:
        if not has_command and not has_url:
            raise _missing_error(raw, "is missing, and so is url", "command", "url")
        return "stdio" if has_command else "http"
    needed = "command" if transport == "stdio" else "url"
    if needed not in raw.values:
        raise _missing_error(raw, f"is missing, and the type is {kind!r}", needed)
    return transport


def _missing_error(raw: RawEntry, problem: str, *fields: str) -> ConfigError:
    """Return the error for a missing field, or for a key that may be a misspelling."""
    for key, suggestion in raw.suggestions.items():
        if suggestion in fields:
            return raw.error(_unknown_message(suggestion), key)
    return raw.error(problem, fields[0])


_UNUSED_REASONS: Final = {
    "http": "it applies to servers that are started, not to a server at a URL",
    "stdio": "it applies to servers at a URL, not to a server that is started",
}


def _warnings(raw: RawEntry, transport: str) -> Iterator[str]:
    for name in raw.values:
        if FIELDS[name].transport not in {"any", transport}:
            yield raw.warning(f"is not used: {_UNUSED_REASONS[transport]}", name)
    for name in ("timeout", "connect_timeout"):
        value = raw.values.get(name)
        if isinstance(value, int) and value and value % 1_000 == 0:
            problem = f"is in seconds, {value} is meant as milliseconds?"
            yield raw.warning(problem, name)
    yield from _pair_warnings(raw)
    if raw.values.get("allowed_tools") in ([], ()):
        problem = "is empty, so no tool is allowed: leave it out to allow all"
        yield raw.warning(problem, "allowed_tools")
    if transport == "stdio" and not raw.values.get("args"):
        program, space, _ = raw.values["command"].partition(" ")
        if space and not {"/", "\\"} & set(program):
            problem = "contains spaces: put the program's arguments into args"
            yield raw.warning(problem, "command")


def _pair_warnings(raw: RawEntry) -> Iterator[str]:
    for name in ("env", "headers"):
        for key, value in raw.values.get(name, {}).items():
            problem = ""
            if BARE_VARIABLE.search(value):
                problem = "a variable is written ${NAME}, and this $ stays as it is"
            elif name == "headers" and key.lower() in POST_FIELDS:
                problem = "is not used: mcpwire sets it"
            if problem:
                yield str(raw.error(problem, name, f".{printable(key)}"))


# Variables: ``${NAME}``, ``${NAME:-default}`` and ``$${``. A variable's value is
# inserted unchanged and not expanded again. No message repeats the text around a
# variable, which may be a secret.

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


def _expand_fields(
    raw: RawEntry, checked: dict[str, Any], variables: Mapping[str, str]
) -> None:
    for name, field in FIELDS.items():
        if name in checked and field.expands:
            checked[name] = _expand_value(raw, name, "", checked[name], variables)
            fault = field.kind.check(checked[name])
            if fault is not None:
                raise raw.error(fault.problem, name, fault.position)
    if "auth" in checked:
        checked["auth"] = _resolve_auth(raw, checked["auth"], variables)
    if any("=" in name or "\0" in name for name in checked.get("env", ())):
        raise raw.error("holds a name with = or NUL in it", "env")


def _expand_value(
    raw: RawEntry, name: str, position: str, value: Any, variables: Mapping[str, str]
) -> Any:
    """Return a value with the variables in its strings expanded."""
    if isinstance(value, (list, tuple)):
        return [
            _expand_value(raw, name, f"{position}[{index}]", item, variables)
            for index, item in enumerate(value)
        ]
    if isinstance(value, dict):
        return {
            key: _expand_value(raw, name, f"{position}.{key}", item, variables)
            for key, item in value.items()
        }
    if not isinstance(value, str):
        return value
    try:
        text = expand(value, variables)
    except ValueError as error:
        raise raw.error(str(error), name, position) from error
    if "\0" in text:
        raise raw.error("must not hold a NUL character", name, position)
    return text if name in _SECRET_FIELDS else ExpandedText.of(text, value)


_SECRET_FIELDS: Final = frozenset({"env", "headers", "auth"})
"""Fields that no message shows; the others are shown with their variables."""

_VARIABLE_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
"""The characters of a variable's name; another name may be the secret itself."""


def _resolve_auth(raw: RawEntry, auth: Any, variables: Mapping[str, str]) -> Any:
    """Return ``"oauth"``, a token, or a table with its `type` by our names."""
    if isinstance(auth, str):
        return "oauth" if auth.lower() == "oauth" else auth
    table = {snake_case(key): value for key, value in auth.items()}
    form = auth_form(table)
    if form == "token":
        return table["token"]
    if form == "token_env":
        name = table["token_env"]
        token = variables.get(name)
        if not token:
            is_name = set(name) <= _VARIABLE_CHARACTERS
            description = f"the variable {name}" if is_name else "its variable"
            raise raw.error(f"{description} is not set", "auth", ".token_env")
        return token
    return {**table, "type": form}
