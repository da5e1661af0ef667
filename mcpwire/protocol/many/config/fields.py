"""The table of what may stand in a server's entry: checks, schema and docs read it.

Beside our own names stand those that other hosts have for the same, and what becomes of
what they have and we do not: nothing is passed over without a word.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias

import attrs

from mcpwire.protocol.many.config.auth import AUTH
from mcpwire.protocol.many.config.kinds import (
    CONFIRM,
    NAMES,
    PAIRS,
    SECONDS,
    SWITCH,
    SWITCH_OR_NAMES,
    TEXT,
    TEXTS,
    Fault,
    Kind,
    choice,
    kind_of,
)
from mcpwire.protocol.negotiation import MODES
from mcpwire.versions import REVISIONS

__all__ = [
    "FIELDS",
    "HARMLESS",
    "SPELLINGS",
    "UNUSED",
    "Field",
    "canonical",
    "transport_of_type",
]

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

_TYPES: Final = ("stdio", "http", "sse", "streamable-http", "url")


def transport_of_type(value: Any) -> str | None:
    """Return ``"stdio"`` or ``"http"`` for a type; ``None`` where it is none."""
    return _TRANSPORTS.get(value.lower()) if isinstance(value, str) else None


def _type(value: Any) -> Fault | None:
    listed = f"{', '.join(map(repr, _TYPES[:-1]))} or {_TYPES[-1]!r}"
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
