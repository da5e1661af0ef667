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

    at: str
    problem: str


class Kind(NamedTuple):
    """A kind of value: its name in messages, and its rule as JSON Schema.

    The rule has `anyOf`, `const`, `enum`, `type`, `minLength`, `minimum`,
    `exclusiveMinimum`, `items` and string-valued objects only: `check` reads no more.
    """

    wanted: str
    schema: Mapping[str, Any]
    own_check: Callable[[Any], Fault | None] | None = None
    """The check of a rule that is more than its schema."""

    def check(self, value: Any) -> Fault | None:
        """Return the first error of a value, or ``None``."""
        if self.own_check is not None:
            return self.own_check(value)
        for schema in self.schema.get("anyOf", (self.schema,)):
            if _is_of_type(value, schema):
                return _fault_of(value, schema)
        return _wrong(self.wanted, value)


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


def _wrong(wanted: str, value: object, at: str = "") -> Fault:
    return Fault(at, f"must be {wanted}, got {type_name(value)}")


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
    is_switch = isinstance(value, bool)
    return isinstance(value, _PYTHON_TYPES[name]) and is_switch == (name == "boolean")


def _fault_of(value: Any, schema: Mapping[str, Any]) -> Fault | None:
    """Return the first error of a value that has the type of its schema."""
    problem = ""
    items: Iterable[tuple[str, Any]] = ()
    match schema:
        case {"enum": words} if value not in words:
            problem = f"must be {_listed(words)}, got {value[:40]!r}"
        case {"minLength": _} if not value:
            problem = "must not be empty"
        case {"exclusiveMinimum": _} if not value > 0:
            problem = f"must be above zero, got {value!r}"
        case {"minimum": _} if value < 0:
            problem = f"must be 0 or more, got {value!r}"
        case {"items": _}:
            items = ((f"[{at}]", item) for at, item in enumerate(value))
        case {"additionalProperties": _}:
            if not all(isinstance(name, str) and name for name in value):
                problem = "holds a name that is empty or no string"
            items = ((f".{printable(name)}", item) for name, item in value.items())
    if problem:
        return Fault("", problem)
    return _fault_of_items(items, may_be_empty=schema.get("items") != _STRING)


def _fault_of_items(
    items: Iterable[tuple[str, Any]], *, may_be_empty: bool
) -> Fault | None:
    for at, item in items:
        if not isinstance(item, str):
            return _wrong("a string", item, at)
        if not item and not may_be_empty:
            return Fault(at, "must not be empty")
    return None


def _listed(words: Iterable[str]) -> str:
    *most, last = map(repr, words)
    return f"{', '.join(most)} or {last}"


_STRING: Final = {"type": "string", "minLength": 1}
_NAME_LIST: Final = {"type": "array", "items": _STRING}
_BOOLEAN: Final = {"type": "boolean"}

TEXT: Final = Kind("a string", _STRING)
TEXTS: Final = Kind("a list of strings", {"type": "array", "items": {"type": "string"}})
NAMES: Final = Kind("a list of names", _NAME_LIST)
PAIRS: Final = Kind(
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
SWITCH: Final = Kind("true or false", _BOOLEAN)
COUNT: Final = Kind("an integer", {"type": "integer", "minimum": 0})
SWITCH_OR_NAMES: Final = Kind(
    "true, false or a list of names", {"anyOf": [_BOOLEAN, _NAME_LIST]}
)
CONFIRM: Final = Kind(
    'true, false, "mutating" or a list of names',
    {"anyOf": [_BOOLEAN, {"const": "mutating"}, _NAME_LIST]},
)
TEXT_OR_TEXTS: Final = Kind("a list of names", {"anyOf": [_STRING, _NAME_LIST]})


def _choice(*known: str) -> Kind:
    """Return the kind of a field that is one of a few words."""
    return Kind(_listed(known), {"enum": list(known)})


_LOGIN: Final = {"issuer": TEXT, "scopes": TEXT_OR_TEXTS, "profile": TEXT}

FORMS: Final[dict[str, dict[str, Kind]]] = {
    "oauth": {
        **_LOGIN,
        "client_id": TEXT,
        "client_secret": TEXT,
        "client_metadata_url": TEXT,
        "client_name": TEXT,
        "redirect_uri": TEXT,
        "callback_port": COUNT,
        "interactive": SWITCH,
        "open_browser": SWITCH,
        "timeout": SECONDS,
        "max_step_ups": COUNT,
        "dpop": SWITCH,
    },
    "client_credentials": {
        **_LOGIN,
        "client_id": TEXT,
        "client_secret": TEXT,
        "private_key_pem": TEXT,
        "signing_algorithm": TEXT,
    },
    "workload_identity": {**_LOGIN, "client_id": TEXT, "assertion": TEXT},
    "enterprise_managed": {
        **_LOGIN,
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

_WITHOUT_TYPE: Final = ("token", "token_env")
"""Forms that need no `type`: their only field names them."""

_FORM_TYPES: Final = tuple(form for form in FORMS if form not in _WITHOUT_TYPE)


def snake_case(key: str) -> str:
    """Return a key in snake case (``clientId`` is ``client_id``)."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()


def auth_form(table: dict[str, Any]) -> str | None:
    """Return the form of an `auth` table with keys in snake case."""
    if "type" not in table:
        without = (*_WITHOUT_TYPE, "client_id")  # Cursor writes no type
        found = next((form for form in without if form in table), None)
        return "oauth" if found == "client_id" else found
    kind = table["type"]
    word = kind.lower().replace("-", "_") if isinstance(kind, str) else None
    if word == "bearer":
        return next((form for form in _WITHOUT_TYPE if form in table), "token")
    return word if word in _FORM_TYPES else None


def _check_auth(value: Any) -> Fault | None:
    if isinstance(value, str):
        return TEXT.check(value)
    if not isinstance(value, dict):
        return _wrong("a string or a table", value)
    table = {snake_case(str(key)): item for key, item in value.items()}
    if len(table) < len(value):
        return Fault("", "says something twice")
    form = auth_form(table)
    if form is None:
        listed = ", ".join(map(repr, _FORM_TYPES))
        return Fault(".type", f"must be one of {listed}, or token_env stands there")
    return _check_form(form, table)


def _check_form(form: str, table: dict[str, Any]) -> Fault | None:
    for key, item in table.items():
        kind = FORMS[form].get(key)
        fault = None if kind is None else kind.check(item)
        if kind is None and key != "type":
            return Fault("", f"{key[:40]!r} is no part of {form!r}")
        if fault is not None:
            return Fault(f".{key}{fault.at}", fault.problem)
    is_short = form in _WITHOUT_TYPE
    return Fault(f".{form}", "is missing") if is_short and form not in table else None


def _auth_schema() -> dict[str, Any]:
    forms: list[dict[str, Any]] = []
    for form, known in FORMS.items():
        is_short = form in _WITHOUT_TYPE
        words = ["bearer"] if is_short else [form, form.replace("_", "-")]
        properties = {"type": {"enum": list(dict.fromkeys(words))}}
        forms.append(
            {
                "type": "object",
                "properties": properties | {k: v.schema for k, v in known.items()},
                "anyOf": [
                    {"required": [form if is_short else "type"]},
                    *([{"required": ["client_id"]}] if form == "oauth" else []),
                ],
                "additionalProperties": False,
            }
        )
    return {"anyOf": [_STRING, *forms]}


AUTH: Final = Kind("a string or a table", _auth_schema(), _check_auth)


Of: TypeAlias = Literal["any", "stdio", "http"]

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

_TYPE_WORDS: Final = _listed(("stdio", "http", "sse", "streamable-http", "url"))


def _check_type(value: Any) -> Fault | None:
    if not isinstance(value, str):
        return _wrong(_TYPE_WORDS, value)
    if transport_of_type(value) is None:
        return Fault("", f"must be {_TYPE_WORDS}, got {value[:40]!r}")
    return None


TYPE: Final = Kind(
    _TYPE_WORDS,
    {"type": "string", "pattern": f"^(?:{_TYPE_PATTERN})$"},
    _check_type,
)


@attrs.frozen
class Field:
    """One field of an entry."""

    kind: Kind
    meaning: str
    """Its description in the docs and in the schema."""

    of: Of = attrs.field(default="any", kw_only=True)
    """The servers that use it: child processes, servers at a URL, or both."""

    expands: bool = attrs.field(default=False, kw_only=True)
    """Whether its variables are expanded."""

    also: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Its names in other hosts, in snake case."""


FIELDS: Final[dict[str, Field]] = {
    "name": Field(TEXT, "the server's name; in a map, its key"),
    "type": Field(
        TYPE,
        "the kind of transport; by default set by `command` or `url`",
        also=("transport", "transport_type"),
    ),
    "command": Field(
        TEXT, "the program to start, without a shell", of="stdio", expands=True
    ),
    "args": Field(TEXTS, "its list of arguments", of="stdio", expands=True),
    "env": Field(PAIRS, "environment variables to set", of="stdio", expands=True),
    "env_file": Field(
        TEXT,
        "a file of NAME=VALUE lines with further variables; `env` wins",
        of="stdio",
        expands=True,
    ),
    "inherit_env": Field(
        SWITCH_OR_NAMES,
        "variables of this process to pass on; true: all",
        of="stdio",
        also=("env_vars",),
    ),
    "cwd": Field(
        TEXT,
        "its working directory; by default that of this process",
        of="stdio",
        expands=True,
        also=("working_directory",),
    ),
    "url": Field(
        TEXT,
        "the server's URL",
        of="http",
        expands=True,
        also=("server_url", "http_url"),
    ),
    "headers": Field(
        PAIRS,
        "header fields of every request",
        of="http",
        expands=True,
        also=("http_headers",),
    ),
    "auth": Field(AUTH, "authorization, see below", of="http", expands=True),
    "ca_file": Field(
        TEXT, "a PEM file with the trusted authorities", of="http", expands=True
    ),
    "client_cert": Field(
        TEXT, "a PEM file with the client certificate and key", of="http", expands=True
    ),
    "proxy": Field(TEXT, "the URL of a proxy", of="http", expands=True),
    "allow_insecure": Field(
        SWITCH, "whether secrets may go to http on other machines", of="http"
    ),
    "timeout": Field(
        SECONDS, "time limit of each request, in seconds", also=("tool_timeout_sec",)
    ),
    "connect_timeout": Field(
        SECONDS, "time limit of connecting, in seconds", also=("startup_timeout_sec",)
    ),
    "allowed_tools": Field(
        NAMES,
        "globs of the visible and callable tools",
        also=("include_tools", "enabled_tools", "tools"),
    ),
    "denied_tools": Field(
        NAMES,
        "globs of hidden tools",
        also=("exclude_tools", "disabled_tools"),
    ),
    "require_confirmation": Field(
        CONFIRM, 'tools that need confirmation: true, "mutating" or globs'
    ),
    "strip_arguments": Field(NAMES, "arguments to remove from calls"),
    "trace_context": Field(SWITCH, "whether calls carry trace context, in `_meta`"),
    "trace_argument": Field(TEXT, "an argument that also carries it"),
    "mode": Field(
        _choice(*MODES),
        'the protocol era: "auto", "session", "stateless" or "prefer-session"',
    ),
    "revision": Field(
        _choice(*(revision.name for revision in REVISIONS)),
        "the only protocol version to use; instead of `mode`",
    ),
    "roots": Field(
        NAMES, "folders, or file:// URIs, that the server may work in", expands=True
    ),
    "enabled": Field(SWITCH, "false: omit the server"),
    "disabled": Field(SWITCH, "true: omit the server"),
    "merge": Field(
        _choice("fields", "entry"),
        '"fields": change single fields of an earlier layer\'s entry',
    ),
}
"""All fields of an entry, in the order in which they are checked."""

HARMLESS: Final = frozenset(
    {
        "$schema",
        "comment",
        "description",
        "gallery",
        "homepage",
        "icon",
        "icons",
        "id",
        "metadata",
        "tags",
        "title",
        "version",
    }
)
"""Fields that only people read."""

_ASKED: Final = "nothing is asked here unless require_confirmation says so"

UNUSED: Final[dict[str, str]] = {
    "always_allow": _ASKED,
    "auto_approve": _ASKED,
    "trust": _ASKED,
    "auth_provider_type": "auth says how to log in",
    "default_tools_approval_mode": _ASKED,
    "dev": "it is for editors",
    "headers_helper": "no program is asked for headers; a variable can hold them",
    "required": "on_error of the group says what a failure means",
    "sandbox": "nothing is shut in here",
    "sandbox_enabled": "nothing is shut in here",
}
"""Fields of other hosts that have no effect here, and why."""

UNUSED_LOGIN: Final = frozenset(
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

_CANONICAL: Final = {
    **{name: name for name in FIELDS},
    **{other: name for name, field in FIELDS.items() for other in field.also},
}

SPELLINGS: Final = tuple(_CANONICAL)
"""All names of fields, ours and those of other hosts."""


def canonical(key: str) -> str:
    """Return our name for a key (``serverUrl`` is ``url``), or else its snake case."""
    snake = snake_case(key)
    return _CANONICAL.get(snake, snake)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a configuration.

    It accepts a document that `load` accepts; variables, files and layers are checked
    only by `load`. The names of fields in other hosts are part of it, and unknown keys
    are accepted.
    """
    entry = _entry()
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
        "$schema": DIALECT,
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


def _entry() -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, field in FIELDS.items():
        described = {**field.kind.schema, "description": field.meaning}
        for spelled in _spellings(name, field.also):
            properties[spelled] = {"anyOf": [described, {"type": "null"}]}
    properties["tools"]["anyOf"].append({"type": "object"})  # Codex: their approval
    return {"type": "object", "properties": properties}


def _spellings(name: str, also: tuple[str, ...]) -> list[str]:
    """Return a field's names in snake case and in camel case."""
    found = []
    for each in (name, *also):
        first, *rest = each.split("_")
        found += [each, first + "".join(word.title() for word in rest)]
    return list(dict.fromkeys(found))
