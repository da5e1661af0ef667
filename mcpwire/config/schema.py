"""The table of the fields of a server's entry: checks, schema and docs read it.

It has our names, the names of other hosts for the same fields, and the fields of other
hosts that have no effect here, with the reason for the warning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import attrs

from mcpwire.protocol.negotiation import MODES
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Fault(NamedTuple):
    """An error in a value: the position behind the field's name, and the problem."""

    position: str
    problem: str


class Kind(NamedTuple):
    """A kind of value: its name in messages, and its rule as JSON Schema.

    The rule has `anyOf`, `const`, `enum`, `type`, `minLength`, `minimum`,
    `exclusiveMinimum`, `items` and string-valued objects only: `check` reads no more.
    """

    expected: str
    schema: Mapping[str, Any]
    custom_check: Callable[[Any], Fault | None] | None = None
    """The check of a rule that is more than its schema."""

    def check(self, value: Any) -> Fault | None:
        """Return the first error of a value, or ``None``."""
        if self.custom_check is not None:
            return self.custom_check(value)
        for schema in self.schema.get("anyOf", (self.schema,)):
            if _is_of_type(value, schema):
                return _find_fault(value, schema)
        return _type_fault(self.expected, value)


_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "true or false"),
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (tuple, "a list"),
    (dict, "a table"),
)


def type_name(value: object) -> str:
    """Return the name of a value's type, for messages that must not show the value."""
    if value is None:
        return "null"
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return f"a {type(value).__name__}"


def printable(name: str) -> str:
    """Return a name for a message: on one line, at most 64 characters."""
    return name[:64] if name.isprintable() and name else repr(name[:64])


def _type_fault(expected: str, value: object, position: str = "") -> Fault:
    return Fault(position, f"must be {expected}, got {type_name(value)}")


_PYTHON_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": (list, tuple),
    "object": dict,
}


def _is_of_type(value: Any, schema: Mapping[str, Any]) -> bool:
    if "const" in schema:
        return bool(value == schema["const"])
    name = schema.get("type", "string")  # the words of an enum
    is_boolean = isinstance(value, bool)
    return isinstance(value, _PYTHON_TYPES[name]) and is_boolean == (name == "boolean")


def _find_fault(value: Any, schema: Mapping[str, Any]) -> Fault | None:
    """Return the first error of a value that has the type of its schema."""
    problem = ""
    items: Iterable[tuple[str, Any]] = ()
    match schema:
        case {"enum": words} if value not in words:
            problem = f"must be {_join_choices(words)}, got {value[:40]!r}"
        case {"minLength": _} if not value:
            problem = "must not be empty"
        case {"exclusiveMinimum": _} if not value > 0:
            problem = f"must be above zero, got {value!r}"
        case {"minimum": _} if value < 0:
            problem = f"must be 0 or more, got {value!r}"
        case {"items": _}:
            items = ((f"[{index}]", item) for index, item in enumerate(value))
        case {"additionalProperties": _}:
            if not all(isinstance(name, str) and name for name in value):
                problem = "holds a name that is empty or no string"
            items = ((f".{printable(name)}", item) for name, item in value.items())
    if problem:
        return Fault("", problem)
    return _find_item_fault(items, may_be_empty=schema.get("items") != _STRING)


def _find_item_fault(
    items: Iterable[tuple[str, Any]], *, may_be_empty: bool
) -> Fault | None:
    for position, item in items:
        if not isinstance(item, str):
            return _type_fault("a string", item, position)
        if not item and not may_be_empty:
            return Fault(position, "must not be empty")
    return None


def _join_choices(words: Iterable[str]) -> str:
    *others, last = map(repr, words)
    return f"{', '.join(others)} or {last}"


_STRING: Final = {"type": "string", "minLength": 1}
_NAME_LIST: Final = {"type": "array", "items": _STRING}
_BOOLEAN: Final = {"type": "boolean"}

TEXT: Final = Kind("a string", _STRING)
TEXT_LIST: Final = Kind(
    "a list of strings", {"type": "array", "items": {"type": "string"}}
)
NAMES: Final = Kind("a list of names", _NAME_LIST)
STRING_MAP: Final = Kind(
    "a table of names and strings",
    {
        "type": "object",
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "string"},
    },
)
SECONDS: Final = Kind(
    'a number of seconds or "inf"',
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "inf"}]},
)
FLAG: Final = Kind("true or false", _BOOLEAN)
COUNT: Final = Kind("an integer", {"type": "integer", "minimum": 0})
FLAG_OR_NAMES: Final = Kind(
    "true, false or a list of names", {"anyOf": [_BOOLEAN, _NAME_LIST]}
)
CONFIRM: Final = Kind(
    'true, false, "mutating" or a list of names',
    {"anyOf": [_BOOLEAN, {"const": "mutating"}, _NAME_LIST]},
)
TEXT_OR_LIST: Final = Kind("a list of names", {"anyOf": [_STRING, _NAME_LIST]})


def _choice(*choices: str) -> Kind:
    """Return the kind of a field that is one of a few words."""
    return Kind(_join_choices(choices), {"enum": list(choices)})


_COMMON_AUTH_FIELDS: Final = {"issuer": TEXT, "scopes": TEXT_OR_LIST, "profile": TEXT}

AUTH_FORMS: Final[dict[str, dict[str, Kind]]] = {
    "oauth": {
        **_COMMON_AUTH_FIELDS,
        "client_id": TEXT,
        "client_secret": TEXT,
        "client_metadata_url": TEXT,
        "client_name": TEXT,
        "redirect_uri": TEXT,
        "prompt": TEXT,
        "callback_port": COUNT,
        "interactive": FLAG,
        "open_browser": FLAG,
        "timeout": SECONDS,
        "max_step_ups": COUNT,
        "dpop": FLAG,
    },
    "client_credentials": {
        **_COMMON_AUTH_FIELDS,
        "client_id": TEXT,
        "client_secret": TEXT,
        "private_key_pem": TEXT,
        "signing_algorithm": TEXT,
    },
    "workload_identity": {**_COMMON_AUTH_FIELDS, "client_id": TEXT, "assertion": TEXT},
    "enterprise_managed": {
        **_COMMON_AUTH_FIELDS,
        "client_id": TEXT,
        "client_secret": TEXT,
        "idp_client_id": TEXT,
        "idp_client_secret": TEXT,
        "idp_token_endpoint": TEXT,
        "idp_issuer": TEXT,
        "id_token": TEXT,
    },
    "token": {"token": TEXT},
    "token_env": {"token_env": TEXT},
}
"""The forms of an `auth` table, and the fields of each beside its `type`."""

_TYPELESS_FORMS: Final = ("token", "token_env")
"""Forms that need no `type`: their only field names them."""

_FORM_TYPES: Final = tuple(form for form in AUTH_FORMS if form not in _TYPELESS_FORMS)


def snake_case(key: str) -> str:
    """Return a key in snake case (``clientId`` is ``client_id``)."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()


def auth_form(table: dict[str, Any]) -> str | None:
    """Return the form of an `auth` table with keys in snake case."""
    if "type" not in table:
        typeless = (*_TYPELESS_FORMS, "client_id")  # Cursor writes no type
        form_found = next((form for form in typeless if form in table), None)
        return "oauth" if form_found == "client_id" else form_found
    kind = table["type"]
    form_name = kind.lower().replace("-", "_") if isinstance(kind, str) else None
    if form_name == "bearer":
        return next((form for form in _TYPELESS_FORMS if form in table), "token")
    return form_name if form_name in _FORM_TYPES else None


def _check_auth(value: Any) -> Fault | None:
    if isinstance(value, str):
        return TEXT.check(value)
    if not isinstance(value, dict):
        return _type_fault("a string or a table", value)
    table = {snake_case(str(key)): item for key, item in value.items()}
    if len(table) < len(value):
        return Fault("", "has duplicate fields")
    form = auth_form(table)
    if form is None:
        listed = ", ".join(map(repr, _FORM_TYPES))
        return Fault(
            ".type", f"must be one of {listed}; without it token_env is required"
        )
    return _check_form(form, table)


def _check_form(form: str, table: dict[str, Any]) -> Fault | None:
    for key, item in table.items():
        kind = AUTH_FORMS[form].get(key)
        fault = None if kind is None else kind.check(item)
        if kind is None and key != "type":
            return Fault("", f"{key[:40]!r} is not part of {form!r}")
        if fault is not None:
            return Fault(f".{key}{fault.position}", fault.problem)
    is_missing = form in _TYPELESS_FORMS and form not in table
    return Fault(f".{form}", "is missing") if is_missing else None


def _auth_schema() -> dict[str, Any]:
    forms: list[dict[str, Any]] = []
    for form, fields in AUTH_FORMS.items():
        is_typeless = form in _TYPELESS_FORMS
        type_names = ["bearer"] if is_typeless else [form, form.replace("_", "-")]
        properties = {"type": {"enum": list(dict.fromkeys(type_names))}}
        forms.append(
            {
                "type": "object",
                "properties": properties | {k: v.schema for k, v in fields.items()},
                "anyOf": [
                    {"required": [form if is_typeless else "type"]},
                    *([{"required": ["client_id"]}] if form == "oauth" else []),
                ],
                "additionalProperties": False,
            }
        )
    return {"anyOf": [_STRING, *forms]}


AUTH: Final = Kind("a string or a table", _auth_schema(), _check_auth)


TransportScope: TypeAlias = Literal["any", "stdio", "http"]

_TRANSPORTS: Final = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "sse": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "url": "http",
}
"""The transport of each `type`, in lower case; hosts name both variously."""


def transport_of_type(value: Any) -> str | None:
    """Return ``"stdio"`` or ``"http"`` for a `type`; ``None`` if it is unknown."""
    return _TRANSPORTS.get(value.lower()) if isinstance(value, str) else None


_TYPE_PATTERN: Final = "|".join(
    "".join(f"[{c.upper()}{c}]" if c.isalpha() else c for c in word)
    for word in _TRANSPORTS
)

_TYPE_WORDS: Final = _join_choices(("stdio", "http", "sse", "streamable-http", "url"))


def _check_type(value: Any) -> Fault | None:
    if not isinstance(value, str):
        return _type_fault(_TYPE_WORDS, value)
    if transport_of_type(value) is None:
        return Fault("", f"must be {_TYPE_WORDS}, got {value[:40]!r}")
    return None


TYPE: Final = Kind(
    _TYPE_WORDS, {"type": "string", "pattern": f"^(?:{_TYPE_PATTERN})$"}, _check_type
)


@attrs.frozen
class Field:
    """One field of an entry."""

    kind: Kind
    meaning: str
    """Its description in the docs and in the schema."""

    transport: TransportScope = attrs.field(default="any", kw_only=True)
    """The servers that use it: child processes, servers at a URL, or both."""

    expands: bool = attrs.field(default=False, kw_only=True)
    """Whether its variables are expanded."""

    aliases: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Its names in other hosts, in snake case."""


def _process_field(kind: Kind, meaning: str, *aliases: str) -> Field:
    """Return a field of servers that are started, with variables."""
    return Field(kind, meaning, transport="stdio", expands=True, aliases=aliases)


def _url_field(kind: Kind, meaning: str, *aliases: str) -> Field:
    """Return a field of servers at a URL, with variables."""
    return Field(kind, meaning, transport="http", expands=True, aliases=aliases)


FIELDS: Final[dict[str, Field]] = {
    "name": Field(TEXT, "the server's name; in a map, its key"),
    "type": Field(
        TYPE,
        "the kind of transport; by default set by `command` or `url`",
        aliases=("transport", "transport_type"),
    ),
    "command": _process_field(TEXT, "the program to start, without a shell"),
    "args": _process_field(TEXT_LIST, "its list of arguments"),
    "env": _process_field(STRING_MAP, "environment variables to set"),
    "env_file": _process_field(
        TEXT, "a file of NAME=VALUE lines with further variables; `env` wins"
    ),
    "inherit_env": Field(
        FLAG_OR_NAMES,
        "variables of this process to pass on; true: all",
        transport="stdio",
        aliases=("env_vars",),
    ),
    "cwd": _process_field(
        TEXT,
        "its working directory; by default that of this process",
        "working_directory",
    ),
    "url": _url_field(TEXT, "the server's URL", "server_url", "http_url"),
    "headers": _url_field(STRING_MAP, "header fields of every request", "http_headers"),
    "auth": _url_field(AUTH, "authorization, see below"),
    "ca_file": _url_field(TEXT, "a PEM file with the trusted authorities"),
    "client_cert": _url_field(TEXT, "a PEM file with the client certificate and key"),
    "proxy": _url_field(TEXT, "the URL of a proxy"),
    "allow_insecure": Field(
        FLAG, "whether secrets may go to http on other machines", transport="http"
    ),
    "timeout": Field(
        SECONDS, "time limit of each request, in seconds", aliases=("tool_timeout_sec",)
    ),
    "connect_timeout": Field(
        SECONDS,
        "time limit of connecting, in seconds",
        aliases=("startup_timeout_sec",),
    ),
    "allowed_tools": Field(
        NAMES,
        "globs of the visible and callable tools",
        aliases=("include_tools", "enabled_tools", "tools"),
    ),
    "denied_tools": Field(
        NAMES, "globs of hidden tools", aliases=("exclude_tools", "disabled_tools")
    ),
    "require_confirmation": Field(
        CONFIRM, 'tools that need confirmation: true, "mutating" or globs'
    ),
    "strip_arguments": Field(NAMES, "arguments to remove from calls"),
    "trace_context": Field(FLAG, "whether calls carry trace context, in `_meta`"),
    "trace_argument": Field(TEXT, "an argument that also carries it"),
    "mode": Field(
        _choice(*MODES),
        'which protocol eras to use: "auto", "session", "stateless" or '
        '"prefer-session"',
    ),
    "revision": Field(
        _choice(*(revision.name for revision in REVISIONS)),
        "the only protocol revision to use; instead of `mode`",
    ),
    "roots": Field(
        NAMES, "folders, or file:// URIs, that the server may work in", expands=True
    ),
    "enabled": Field(FLAG, "false: omit the server"),
    "disabled": Field(FLAG, "true: omit the server"),
    "merge": Field(
        _choice("fields", "entry"),
        '"fields": change single fields of an earlier layer\'s entry',
    ),
}
"""All fields of an entry, in the order in which they are checked."""

IGNORED_FIELDS: Final = frozenset(
    {
        *("$schema", "comment", "description", "gallery", "homepage", "icon", "icons"),
        *("id", "metadata", "tags", "title", "version"),
    }
)
"""Fields that only people read."""

_NO_CONFIRMATION: Final = (
    "no tool needs confirmation unless require_confirmation says so"
)

UNUSED_FIELDS: Final[dict[str, str]] = {
    "always_allow": _NO_CONFIRMATION,
    "auto_approve": _NO_CONFIRMATION,
    "trust": _NO_CONFIRMATION,
    "auth_provider_type": "auth says how to log in",
    "default_tools_approval_mode": _NO_CONFIRMATION,
    "dev": "it is for editors",
    "headers_helper": "no program is asked for headers; a variable can hold them",
    "required": "on_error of the group says what a failure means",
    "sandbox": "mcpwire has no sandbox",
    "sandbox_enabled": "mcpwire has no sandbox",
}
"""Fields of other hosts that have no effect here, and why."""

UNUSED_OAUTH_FIELDS: Final = frozenset(
    {
        "audiences",
        "auth_server_metadata_url",
        "authorization_url",
        "registration_url",
        "token_param_name",
        "token_url",
    }
)
"""Fields of `oauth` in other hosts that have no effect here: the server says them."""

_CANONICAL_NAMES: Final = {
    **{name: name for name in FIELDS},
    **{other: name for name, field in FIELDS.items() for other in field.aliases},
}

KNOWN_KEYS: Final = tuple(_CANONICAL_NAMES)
"""All names of fields, ours and those of other hosts."""


def canonical_name(key: str) -> str:
    """Return our name for a key (``serverUrl`` is ``url``), or else its snake case."""
    snake = snake_case(key)
    return _CANONICAL_NAMES.get(snake, snake)


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a configuration.

    It accepts a document that `load` accepts; variables, files and layers are checked
    only by `load`. The names of fields in other hosts are part of it, and unknown keys
    are accepted.
    """
    entry = _entry_schema()
    named = {**entry, "required": ["name"]}
    servers = {
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/listed"}},
            {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/server"},
                "propertyNames": {"pattern": r"^\S(.*\S)?$"},
            },
        ]
    }
    keys = ("mcpServers", "mcp_servers", "servers")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Servers of the Model Context Protocol",
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/listed"}},
            {
                "type": "object",
                "properties": {key: {"$ref": "#/$defs/servers"} for key in keys},
                "oneOf": [{"required": [key]} for key in keys],
            },
        ],
        "$defs": {"server": entry, "listed": named, "servers": servers},
    }


def _entry_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, field in FIELDS.items():
        field_schema = {**field.kind.schema, "description": field.meaning}
        for spelled in _key_spellings(name, field.aliases):
            properties[spelled] = {"anyOf": [field_schema, {"type": "null"}]}
    # Codex: the approval of tools, and tables with the names of variables
    properties["tools"]["anyOf"].append({"type": "object"})
    names = {"type": "array", "items": {"type": ["string", "object"]}}
    for key in ("env_vars", "envVars"):
        properties[key]["anyOf"].append(names)
    return {"type": "object", "properties": properties}


def _key_spellings(name: str, aliases: tuple[str, ...]) -> list[str]:
    """Return a field's names in snake case and in camel case."""
    spellings = []
    for snake in (name, *aliases):
        first, *rest = snake.split("_")
        spellings += [snake, first + "".join(word.title() for word in rest)]
    return list(dict.fromkeys(spellings))
