"""Checks a server's entry, fills its variables in and says what it means.

What is wrong is one `ConfigError` that names the file, the entry and the field, and
never a value that could be a secret.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from mcpwire.config.documents import sentence, unknown
from mcpwire.config.expansion import Filled, expand
from mcpwire.config.fields import FIELDS, form_of, key_of, transport_of_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcpwire.config.documents import RawEntry
    from mcpwire.config.url_deny_list import UrlDenyList
    from mcpwire.errors import ConfigError

__all__ = ["MEMBER_FIELDS", "check_entry"]

MEMBER_FIELDS: Final = tuple(
    name
    for name in FIELDS
    if name not in {"name", "type", "enabled", "disabled", "merge"}
)
"""What an entry says of a server beside how it is reached and whether it is."""

_MILLISECONDS: Final = 1_000


def check_entry(
    raw: RawEntry, variables: Mapping[str, str], deny: UrlDenyList | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return what an entry says, by our names, and what is odd about it.

    ``transport`` is ``"stdio"`` or ``"http"``, ``enabled`` a bool; fields that are not
    given are not there. An entry that is not enabled is checked as it was written: its
    variables need not be set.

    Raises:
        ConfigError: It breaks a rule.
    """
    given = raw.values
    for name, field in FIELDS.items():
        fault = field.kind.check(given[name]) if name in given else None
        if fault is not None:
            raise raw.fault(fault.problem, name, fault.at)
    transport = _transport(raw)
    if "mode" in given and "revision" in given:
        raise raw.fault("says the same as mode: keep one of them", "revision")
    checked: dict[str, Any] = {
        name: given[name] for name in MEMBER_FIELDS if name in given
    }
    for name in ("timeout", "connect_timeout"):
        if checked.get(name) == "inf":
            checked[name] = math.inf
    warnings = list(_oddities(raw, transport))
    checked["transport"] = transport
    checked["enabled"] = _is_enabled(raw)
    if checked["enabled"]:
        _fill_in(raw, checked, variables)
        refused = deny.refuses(checked["url"]) if deny and "url" in checked else None
        if refused is not None:
            raise raw.fault(f"is refused by the deny list ({refused})", "url")
    return checked, warnings


def _transport(raw: RawEntry) -> str:
    """Return how the server is reached.

    Raises:
        ConfigError: That is not said, or said twice.
    """
    has_command, has_url = "command" in raw.values, "url" in raw.values
    if has_command and has_url:
        spelled = raw.spelled.get("command", "command")
        raise raw.fault(
            f"{spelled} stands there too, and they exclude each other", "url"
        )
    kind = raw.values.get("type")
    transport = transport_of_type(kind)
    if transport is None:
        if not has_command and not has_url:
            raise _missing(raw, "is missing, and so is url", "command", "url")
        return "stdio" if has_command else "http"
    needed = "command" if transport == "stdio" else "url"
    if needed not in raw.values:
        raise _missing(raw, f"is missing, and the type is {kind!r}", needed)
    return transport


def _missing(raw: RawEntry, problem: str, *fields: str) -> ConfigError:
    """Say that a field is missing, or which key may be a misspelling of it."""
    for key, meant in raw.mistyped.items():
        if meant in fields:
            return raw.fault(unknown(meant), key)
    return raw.fault(problem, fields[0])


def _is_enabled(raw: RawEntry) -> bool:
    if "enabled" in raw.values and "disabled" in raw.values:
        raise raw.fault("says the same as enabled: keep one of them", "disabled")
    if "disabled" in raw.values:
        return not raw.values["disabled"]
    return bool(raw.values.get("enabled", True))


def _oddities(raw: RawEntry, transport: str) -> Iterator[str]:
    for name in raw.values:
        of = FIELDS[name].of
        if of not in {"any", transport}:
            yield _odd(
                raw,
                "is not used: it is for servers at a URL, and this one is started"
                if of == "http"
                else "is not used: it is for servers that are started, and this one is "
                "at a URL",
                name,
            )
    for name in ("timeout", "connect_timeout"):
        value = raw.values.get(name)
        if isinstance(value, int) and value and value % _MILLISECONDS == 0:
            yield _odd(raw, f"is in seconds, {value} is meant as milliseconds?", name)
    if raw.values.get("allowed_tools") in ([], ()):
        yield _odd(
            raw,
            "is empty, so no tool is allowed: leave it out to allow all",
            "allowed_tools",
        )
    command = raw.values.get("command", "")
    if transport == "stdio" and not raw.values.get("args"):
        first, space, _ = command.partition(" ")
        if space and not {"/", "\\"} & set(first):
            yield _odd(
                raw, "holds spaces: the program's arguments belong into args", "command"
            )


def _odd(raw: RawEntry, problem: str, field: str) -> str:
    spelled = raw.spelled.get(field, field)
    return sentence(problem, raw.files.get(field, raw.file), raw.place, spelled)


# Variables...


def _fill_in(
    raw: RawEntry, checked: dict[str, Any], variables: Mapping[str, str]
) -> None:
    for name, field in FIELDS.items():
        if name not in checked:
            continue
        if name == "auth":
            checked[name] = _login(raw, checked[name], variables)
            continue
        if field.expands:
            checked[name] = _filled(raw, name, "", checked[name], variables)
            fault = field.kind.check(checked[name])
            if fault is not None:
                raise raw.fault(fault.problem, name, fault.at)
    if any("=" in name or "\0" in name for name in checked.get("env", ())):
        raise raw.fault("holds a name with = or NUL in it", "env")


def _filled(
    raw: RawEntry, name: str, at: str, value: Any, variables: Mapping[str, str]
) -> Any:
    """Return a value with the variables in its strings filled in."""
    if isinstance(value, (list, tuple)):
        return [
            _filled(raw, name, f"{at}[{index}]", item, variables)
            for index, item in enumerate(value)
        ]
    if isinstance(value, dict):
        return {
            key: _filled(raw, name, f"{at}.{key}", item, variables)
            for key, item in value.items()
        }
    if not isinstance(value, str):
        return value
    try:
        text = expand(value, variables)
    except ValueError as error:
        raise raw.fault(str(error), name, at) from error
    if "\0" in text:
        raise raw.fault("must not hold a NUL character", name, at)
    return text if name in _NEVER_SHOWN else Filled.of(text, value)


_NEVER_SHOWN: Final = frozenset({"env", "headers", "auth"})
"""Fields no value of which is ever shown; those of the others may be variables'."""

_SHOWN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
"""What the name of a variable is made of; anything else may be the secret itself."""


def _login(raw: RawEntry, auth: Any, variables: Mapping[str, str]) -> Any:
    """Return ``"oauth"``, a token, or a table with its `type` by our names."""
    filled = _filled(raw, "auth", "", auth, variables)
    if isinstance(filled, str):
        if not filled:
            raise raw.fault("must not be empty", "auth")
        return "oauth" if filled.lower() == "oauth" else filled
    table = {key_of(key): value for key, value in filled.items()}
    form = form_of(table)
    if form == "token":
        return table["token"]
    if form == "token_env":
        name = table["token_env"]
        token = variables.get(name)
        if not token:
            shown = f"the variable {name}" if set(name) <= _SHOWN else "its variable"
            raise raw.fault(f"{shown} is not set", "auth", ".token_env")
        return token
    return {**table, "type": form}
