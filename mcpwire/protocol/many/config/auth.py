"""What `auth` of an entry may be: ``"oauth"``, a token, or a table that says more."""

from __future__ import annotations

import re
from typing import Any, Final

from mcpwire.protocol.many.config.kinds import (
    COUNT,
    SECONDS,
    SWITCH,
    TEXT,
    TEXT_OR_TEXTS,
    Fault,
    Kind,
    kind_of,
)

__all__ = ["AUTH", "FORMS", "form_of", "key_of"]

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

_TYPES: Final = tuple(form for form in FORMS if form not in _WITHOUT_TYPE)


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
    return word if word in _TYPES else None


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
        listed = ", ".join(map(repr, _TYPES))
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
