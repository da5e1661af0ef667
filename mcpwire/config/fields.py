"""The table of what may stand in a server's entry: checks, schema and docs read it.

Beside our own names stand those that other hosts have for the same, and what becomes of
what they have and we do not: nothing is passed over without a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import attrs

from mcpwire.protocol.negotiation import MODES
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "AUTH",
    "CONFIRM",
    "COUNT",
    "FIELDS",
    "FORMS",
    "HARMLESS",
    "NAMES",
    "PAIRS",
    "SECONDS",
    "SPELLINGS",
    "SWITCH",
    "SWITCH_OR_NAMES",
    "TEXT",
    "TEXTS",
    "TEXT_OR_TEXTS",
    "UNUSED",
    "Fault",
    "Field",
    "Kind",
    "canonical",
    "choice",
    "form_of",
    "key_of",
    "kind_of",
    "schema",
    "transport_of_type",
]


class Fault(NamedTuple):
    """Where in a value something is wrong, and what."""

    at: str
    """What follows the field's name, such as ``".TOKEN"`` or ``"[1]"``."""

    problem: str


@attrs.frozen
class Kind:
    """One kind of value."""

    check: Callable[[Any], Fault | None]
    """Returns what is wrong with a value, or ``None``."""

    schema: Mapping[str, Any]
    """The same as JSON Schema."""


_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "true or false"),
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (tuple, "a list"),
    (dict, "a table"),
)


def kind_of(value: object) -> str:
    """Say of what kind a value is, not which."""
    if value is None:
        return "null"
    for kind, said in _KINDS:
        if isinstance(value, kind):
            return said
    return f"a {type(value).__name__}"


def _wrong(wanted: str, value: object, at: str = "") -> Fault:
    return Fault(at, f"must be {wanted}, got {kind_of(value)}")


def _text(value: Any) -> Fault | None:
    if not isinstance(value, str):
        return _wrong("a string", value)
    return None if value else Fault("", "must not be empty")


def _items(value: Any, *, may_be_empty: bool) -> Iterator[Fault]:
    for at, item in enumerate(value):
        if not isinstance(item, str):
            yield _wrong("a string", item, f"[{at}]")
        elif not item and not may_be_empty:
            yield Fault(f"[{at}]", "must not be empty")


def _list(value: Any, wanted: str, *, may_be_empty: bool = False) -> Fault | None:
    if not isinstance(value, (list, tuple)):
        return _wrong(wanted, value)
    return next(_items(value, may_be_empty=may_be_empty), None)


def _texts(value: Any) -> Fault | None:
    return _list(value, "a list of strings", may_be_empty=True)


def _names(value: Any) -> Fault | None:
    return _list(value, "a list of names")


def _pairs(value: Any) -> Fault | None:
    if not isinstance(value, dict):
        return _wrong("a table of names and strings", value)
    for name, text in value.items():
        if not isinstance(name, str) or not name:
            return Fault("", "holds a name that is empty or no string")
        if not isinstance(text, str):
            return _wrong("a string", text, f".{_readable(name)}")
    return None


def _readable(name: str) -> str:
    """Return a name for a message: one line, and no more than a name."""
    return name[:64] if name.isprintable() else repr(name[:64])


def _seconds(value: Any) -> Fault | None:
    if value == "inf":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _wrong('a number of seconds or "inf"', value)
    return None if value > 0 else Fault("", f"must be above zero, got {value!r}")


def _switch(value: Any) -> Fault | None:
    return None if isinstance(value, bool) else _wrong("true or false", value)


def _count(value: Any) -> Fault | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return _wrong("an integer", value)
    return None if value >= 0 else Fault("", f"must be 0 or more, got {value!r}")


def _switch_or_names(value: Any) -> Fault | None:
    if isinstance(value, bool):
        return None
    return _list(value, "true, false or a list of names")


def _confirm(value: Any) -> Fault | None:
    if isinstance(value, bool) or value == "mutating":
        return None
    return _list(value, 'true, false, "mutating" or a list of names')


def _text_or_texts(value: Any) -> Fault | None:
    return None if isinstance(value, str) and value else _names(value)


_STRING: Final = {"type": "string", "minLength": 1}
_LIST: Final = {"type": "array", "items": {"type": "string"}}
_NAME_LIST: Final = {"type": "array", "items": _STRING}
_BOOLEAN: Final = {"type": "boolean"}

TEXT: Final = Kind(_text, _STRING)
TEXTS: Final = Kind(_texts, _LIST)
NAMES: Final = Kind(_names, _NAME_LIST)
PAIRS: Final = Kind(
    _pairs,
    {
        "type": "object",
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "string"},
    },
)
SECONDS: Final = Kind(
    _seconds,
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "inf"}]},
)
SWITCH: Final = Kind(_switch, _BOOLEAN)
COUNT: Final = Kind(_count, {"type": "integer", "minimum": 0})
SWITCH_OR_NAMES: Final = Kind(_switch_or_names, {"anyOf": [_BOOLEAN, _NAME_LIST]})
CONFIRM: Final = Kind(
    _confirm, {"anyOf": [_BOOLEAN, {"const": "mutating"}, _NAME_LIST]}
)
TEXT_OR_TEXTS: Final = Kind(_text_or_texts, {"anyOf": [_STRING, _NAME_LIST]})


def choice(*known: str) -> Kind:
    """Return the kind of a field that is one of a few words."""
    listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"

    def check(value: Any) -> Fault | None:
        if not isinstance(value, str):
            return _wrong(listed, value)
        return None if value in known else Fault("", f"must be {listed}")

    return Kind(check, {"enum": list(known)})


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
"""The forms of the table and what stands in each, beside its `type`."""

_WITHOUT_TYPE: Final = ("token", "token_env")
"""Forms that are known by their only field."""

_FORM_TYPES: Final = tuple(form for form in FORMS if form not in _WITHOUT_TYPE)


def key_of(key: str) -> str:
    """Return our name for a key of the table (``clientId`` is ``client_id``)."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()


def form_of(table: dict[str, Any]) -> str | None:
    """Return which form a table has, with keys as `key_of` has them."""
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
        return Fault("", f"must be a string or a table, got {kind_of(value)}")
    table = {key_of(str(key)): item for key, item in value.items()}
    if len(table) < len(value):
        return Fault("", "says something twice")
    form = form_of(table)
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
"""What a type means, in lower case; Streamable HTTP has as many names as hosts."""

_TYPE_WORDS: Final = ("stdio", "http", "sse", "streamable-http", "url")


def transport_of_type(value: Any) -> str | None:
    """Return ``"stdio"`` or ``"http"`` for a type; ``None`` where it is none."""
    return _TRANSPORTS.get(value.lower()) if isinstance(value, str) else None


def _type(value: Any) -> Fault | None:
    listed = f"{', '.join(map(repr, _TYPE_WORDS[:-1]))} or {_TYPE_WORDS[-1]!r}"
    if not isinstance(value, str):
        return Fault("", f"must be {listed}, got {kind_of(value)}")
    if transport_of_type(value) is None:
        return Fault("", f"must be {listed}, got {value[:40]!r}")
    return None


_TYPE_PATTERN: Final = "|".join(
    "".join(f"[{c.upper()}{c}]" if c.isalpha() else c for c in word)
    for word in _TRANSPORTS
)

TYPE: Final = Kind(_type, {"type": "string", "pattern": f"^(?:{_TYPE_PATTERN})$"})


@attrs.frozen
class Field:
    """One field of an entry."""

    kind: Kind
    meaning: str
    """What it says, as the docs and the schema have it."""

    of: Of = attrs.field(default="any", kw_only=True)
    """Which servers it is about: those that are started, or those at a URL."""

    expands: bool = attrs.field(default=False, kw_only=True)
    """Whether variables in it are filled in."""

    also: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """What other hosts call it, in lower case with underscores."""


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
        choice(*MODES),
        'which protocol era is spoken: "auto", "session", "stateless" or '
        '"prefer-session"',
    ),
    "revision": Field(
        choice(*(revision.name for revision in REVISIONS)),
        "the only protocol version that is spoken; instead of `mode`",
    ),
    "roots": Field(
        NAMES, "folders, or file:// URIs, that it may work in", expands=True
    ),
    "enabled": Field(SWITCH, "false: it is left out"),
    "disabled": Field(SWITCH, "true: it is left out"),
    "merge": Field(
        choice("fields", "entry"),
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
"""What is for people to read, and nothing follows from it."""

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
"""What other hosts know and is not used here, and why."""

_CANONICAL: Final = {
    **{name: name for name in FIELDS},
    **{other: name for name, field in FIELDS.items() for other in field.also},
}

SPELLINGS: Final = tuple(_CANONICAL)
"""All that fields are called, here and elsewhere."""


def canonical(key: str) -> str:
    """Return our name for a key, however it is written (``serverUrl`` is ``url``).

    A key that is none of ours comes back in lower case with underscores.
    """
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()
    return _CANONICAL.get(snake, snake)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a configuration.

    It says of a document what `load` says of it, but for what needs the variables, the
    files and the layers: those are checked when it is loaded. The names that other
    hosts have for fields are in it; keys that are in neither are not refused.
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
    """Return a field's names, each also as JSON people write them."""
    found = []
    for each in (name, *also):
        first, *rest = each.split("_")
        found += [each, first + "".join(word.title() for word in rest)]
    return list(dict.fromkeys(found))
