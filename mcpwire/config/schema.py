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
    from collections.abc import Callable, Mapping

__all__ = [
    "FIELDS",
    "FORMS",
    "HARMLESS",
    "SPELLINGS",
    "UNUSED",
    "Fault",
    "Field",
    "Kind",
    "auth_form",
    "canonical",
    "printable",
    "schema",
    "snake_case",
    "transport_of_type",
    "type_name",
]


class Fault(NamedTuple):
    """An error in a value: the position behind the field's name, and the problem."""

    at: str
    problem: str


@attrs.frozen
class Kind:
    """A kind of value."""

    check: Callable[[Any], Fault | None]
    """Returns the first error of a value, or ``None``."""

    schema: Mapping[str, Any]
    """The same rule as JSON Schema."""


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


_STRING: Final = {"type": "string", "minLength": 1}
_NAME_LIST: Final = {"type": "array", "items": _STRING}
_BOOLEAN: Final = {"type": "boolean"}


def _kind(
    wanted: str,
    *schemas: Mapping[str, Any],
    types: tuple[Any, ...] = (),
    word: str | None = None,
    least: str | None = None,
    lists: bool = False,
) -> Kind:
    """Return the kind of a value of some scalar types, one word, or a list of names."""

    def check(value: Any) -> Fault | None:
        if value == word and word is not None:
            return None
        if lists and isinstance(value, (list, tuple)):
            return _check_items(value)
        if not isinstance(value, types) or (
            isinstance(value, bool) and bool not in types
        ):
            return _wrong(wanted, value)
        if isinstance(value, str):
            return None if value else Fault("", "must not be empty")
        is_allowed = value > 0 if least == "above zero" else value >= 0
        return None if is_allowed else Fault("", f"must be {least}, got {value!r}")

    return Kind(check, schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)})


def _check_items(value: Any, *, may_be_empty: bool = False) -> Fault | None:
    for at, item in enumerate(value):
        if not isinstance(item, str):
            return _wrong("a string", item, f"[{at}]")
        if not item and not may_be_empty:
            return Fault(f"[{at}]", "must not be empty")
    return None


def _check_texts(value: Any) -> Fault | None:
    if not isinstance(value, (list, tuple)):
        return _wrong("a list of strings", value)
    return _check_items(value, may_be_empty=True)


def _check_pairs(value: Any) -> Fault | None:
    if not isinstance(value, dict):
        return _wrong("a table of names and strings", value)
    for name, text in value.items():
        if not isinstance(name, str) or not name:
            return Fault("", "holds a name that is empty or no string")
        if not isinstance(text, str):
            return _wrong("a string", text, f".{printable(name)}")
    return None


TEXT: Final = _kind("a string", _STRING, types=(str,))
TEXTS: Final = Kind(_check_texts, {"type": "array", "items": {"type": "string"}})
NAMES: Final = _kind("a list of names", _NAME_LIST, lists=True)
PAIRS: Final = Kind(
    _check_pairs,
    {
        "type": "object",
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "string"},
    },
)
SECONDS: Final = _kind(
    'a number of seconds or "inf"',
    {"type": "number", "exclusiveMinimum": 0},
    {"const": "inf"},
    types=(int, float),
    word="inf",
    least="above zero",
)
SWITCH: Final = _kind("true or false", _BOOLEAN, types=(bool,))
COUNT: Final = _kind(
    "an integer", {"type": "integer", "minimum": 0}, types=(int,), least="0 or more"
)
SWITCH_OR_NAMES: Final = _kind(
    "true, false or a list of names", _BOOLEAN, _NAME_LIST, types=(bool,), lists=True
)
CONFIRM: Final = _kind(
    'true, false, "mutating" or a list of names',
    _BOOLEAN,
    {"const": "mutating"},
    _NAME_LIST,
    types=(bool,),
    word="mutating",
    lists=True,
)
TEXT_OR_TEXTS: Final = _kind(
    "a list of names", _STRING, _NAME_LIST, types=(str,), lists=True
)


def _choice(*known: str, schema: Mapping[str, Any] | None = None) -> Kind:
    """Return the kind of a field that is one of a few words."""
    listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"

    def check(value: Any) -> Fault | None:
        if not isinstance(value, str):
            return _wrong(listed, value)
        if value in known or (schema and transport_of_type(value)):
            return None
        return Fault("", f"must be {listed}, got {value[:40]!r}")

    return Kind(check, schema or {"enum": list(known)})


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
        return next((form for form in _WITHOUT_TYPE if form in table), None)
    kind = table["type"]
    word = kind.lower().replace("-", "_") if isinstance(kind, str) else None
    if word == "bearer":
        return next((form for form in _WITHOUT_TYPE if form in table), "token")
    return word if word in _FORM_TYPES else None


def _check(value: Any) -> Fault | None:
    if isinstance(value, str):
        return None if value else Fault("", "must not be empty")
    if not isinstance(value, dict):
        return Fault("", f"must be a string or a table, got {type_name(value)}")
    table = {snake_case(str(key)): item for key, item in value.items()}
    if len(table) < len(value):
        return Fault("", "says something twice")
    form = auth_form(table)
    if form is None:
        listed = ", ".join(map(repr, _FORM_TYPES))
        return Fault(".type", f"must be one of {listed}, or token_env stands there")
    return _check_form(form, table)


def _check_form(form: str, table: dict[str, Any]) -> Fault | None:
    known = FORMS[form]
    for key, item in table.items():
        if key == "type":
            continue
        if key not in known:
            return Fault("", f"{key[:40]!r} is no part of {form!r}")
        fault = known[key].check(item)
        if fault is not None:
            return Fault(f".{key}{fault.at}", fault.problem)
    is_short = form in _WITHOUT_TYPE
    return Fault(f".{form}", "is missing") if is_short and form not in table else None


def _schema() -> dict[str, Any]:
    forms: list[dict[str, Any]] = []
    for form, known in FORMS.items():
        is_short = form in _WITHOUT_TYPE
        words = ["bearer"] if is_short else [form, form.replace("_", "-")]
        properties = {"type": {"enum": list(dict.fromkeys(words))}}
        forms.append(
            {
                "type": "object",
                "properties": properties | {k: v.schema for k, v in known.items()},
                "required": [form if is_short else "type"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": [{"type": "string", "minLength": 1}, *forms]}


AUTH: Final = Kind(_check, _schema())


Of: TypeAlias = Literal["any", "stdio", "http"]

_TRANSPORTS: Final = {
    "stdio": "stdio",
    "http": "http",
    "sse": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "url": "http",
}
"""The transport of each `type`, in lower case; hosts name Streamable HTTP variously."""


def transport_of_type(value: Any) -> str | None:
    """Return ``"stdio"`` or ``"http"`` for a `type`; ``None`` if it is unknown."""
    return _TRANSPORTS.get(value.lower()) if isinstance(value, str) else None


_TYPE_PATTERN: Final = "|".join(
    "".join(f"[{c.upper()}{c}]" if c.isalpha() else c for c in word)
    for word in _TRANSPORTS
)

TYPE: Final = _choice(
    "stdio",
    "http",
    "sse",
    "streamable-http",
    "url",
    schema={"type": "string", "pattern": f"^(?:{_TYPE_PATTERN})$"},
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
    "name": Field(TEXT, "what the server is called; in a map, its key is its name"),
    "type": Field(
        TYPE,
        "how it is reached; without it a command or a url says so",
        also=("transport", "transport_type"),
    ),
    "command": Field(
        TEXT, "the program to be started, without a shell", of="stdio", expands=True
    ),
    "args": Field(TEXTS, "its arguments, one each", of="stdio", expands=True),
    "env": Field(PAIRS, "variables to set for it", of="stdio", expands=True),
    "env_file": Field(
        TEXT,
        "a file of NAME=VALUE lines to set as well; `env` wins",
        of="stdio",
        expands=True,
    ),
    "inherit_env": Field(
        SWITCH_OR_NAMES,
        "variables of ours to pass on; true: all of them",
        of="stdio",
        also=("env_vars",),
    ),
    "cwd": Field(
        TEXT,
        "its working directory; ours by default",
        of="stdio",
        expands=True,
        also=("working_directory",),
    ),
    "url": Field(
        TEXT,
        "where it is",
        of="http",
        expands=True,
        also=("server_url", "http_url"),
    ),
    "headers": Field(
        PAIRS,
        "what goes with every request",
        of="http",
        expands=True,
        also=("http_headers",),
    ),
    "auth": Field(AUTH, "how to log in, see below", of="http", expands=True),
    "ca_file": Field(
        TEXT, "a PEM file with the authorities to trust", of="http", expands=True
    ),
    "client_cert": Field(
        TEXT, "a PEM file with our certificate and key", of="http", expands=True
    ),
    "proxy": Field(TEXT, "the URL of a proxy", of="http", expands=True),
    "allow_insecure": Field(
        SWITCH, "whether secrets may go to http on other machines", of="http"
    ),
    "timeout": Field(
        SECONDS, "limit of each request, in seconds", also=("tool_timeout_sec",)
    ),
    "connect_timeout": Field(
        SECONDS, "limit of connecting, in seconds", also=("startup_timeout_sec",)
    ),
    "allowed_tools": Field(
        NAMES,
        "globs of the tools there are; none other can be seen or called",
        also=("include_tools", "enabled_tools", "tools"),
    ),
    "denied_tools": Field(
        NAMES,
        "globs of the tools there are not",
        also=("exclude_tools", "disabled_tools"),
    ),
    "require_confirmation": Field(
        CONFIRM, 'which tools somebody has to confirm: true, "mutating" or globs'
    ),
    "strip_arguments": Field(NAMES, "arguments that are taken out of calls"),
    "trace_context": Field(SWITCH, "whether the trace goes with calls, in `_meta`"),
    "trace_argument": Field(TEXT, "an argument in which the trace goes as well"),
    "mode": Field(
        _choice(*MODES),
        'which protocol era is spoken: "auto", "session", "stateless" or '
        '"prefer-session"',
    ),
    "revision": Field(
        _choice(*(revision.name for revision in REVISIONS)),
        "the only protocol version that is spoken; instead of `mode`",
    ),
    "roots": Field(
        NAMES, "folders, or file:// URIs, that it may work in", expands=True
    ),
    "enabled": Field(SWITCH, "false: it is left out"),
    "disabled": Field(SWITCH, "true: it is left out"),
    "merge": Field(
        _choice("fields", "entry"),
        '"fields": this changes single fields of an earlier layer\'s entry',
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
    "dev": "it is for editors",
    "headers_helper": "no program is asked for headers; a variable can hold them",
    "required": "on_error of the group says what a failure means",
    "sandbox": "nothing is shut in here",
    "sandbox_enabled": "nothing is shut in here",
}
"""Fields of other hosts that have no effect here, and why."""

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
    return {"type": "object", "properties": properties}


def _spellings(name: str, also: tuple[str, ...]) -> list[str]:
    """Return a field's names in snake case and in camel case."""
    found = []
    for each in (name, *also):
        first, *rest = each.split("_")
        found += [each, first + "".join(word.title() for word in rest)]
    return list(dict.fromkeys(found))
