"""The form of values, errors and messages in the record, and how it is written."""

import enum
import json
import re
from typing import Any, Final

import mcpwire

META: Final = "io.modelcontextprotocol/"
USUAL_META: Final = {
    META + "protocolVersion": "2026-07-28",
    META + "clientInfo": {"name": "mcpwire", "version": "*"},
    META + "clientCapabilities": {},
}
USUAL_FIELDS: Final = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "accept-encoding": "identity",
    "user-agent": "mcpwire/*",
}
USUAL_IN: Final = {
    "session": {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "session-1"},
    "stateless": {"mcp-protocol-version": "2026-07-28"},
}
"""Header fields that are left out if they have the usual value; ``-name``: missing."""

FRAMING: Final = frozenset({"host", "content-length"})
UNSHOWN_ATTRIBUTES: Final = frozenset(
    {"__notes__", "elapsed", "negotiation", "raw", "result"}
)
"""Attributes of errors that depend on time, or that are recorded elsewhere."""

UNTIMED: Final = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"\(after [\d.]+ s\)"), "(after TIME)"),
    (re.compile(r"(/[\w.+-]+)+/(python[\d.]*|peer\.py|server\.py)"), r"\2"),
    (re.compile(re.escape(mcpwire.__version__)), "*"),
)


def blank(value: Any) -> Any:
    """Return the same value without ports, paths, times and versions."""
    if isinstance(value, str):
        for pattern, instead in UNTIMED:
            value = pattern.sub(instead, value)
        return value
    if isinstance(value, dict):
        value = {blank(key): blank(member) for key, member in value.items()}
        if USUAL_META.items() <= value.items():
            rest = {k: v for k, v in value.items() if k not in USUAL_META}
            return {"usual": True, **rest}
        return value
    if isinstance(value, (list, tuple)):
        return [blank(member) for member in value]
    return value


def error(raised: BaseException) -> dict[str, Any]:
    members = {"error": type(raised).__name__, "text": str(raised)}
    attributes = vars(raised) if isinstance(raised, mcpwire.MCPError) else {}
    return members | {
        name: plain(found)
        for name, found in attributes.items()
        if name not in UNSHOWN_ATTRIBUTES and found not in (None, "", (), {}, b"")
    }


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    if value is None or isinstance(value, (str, bool, int, float)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, BaseException):
        return error(value)
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(member) for member in value)
    kind = type(value).__name__
    if isinstance(value, mcpwire.types.WireType):
        return {"is": kind, **mcpwire.types.encode(value)}
    if kind in SHOWN:
        return {"is": kind} | {
            name: plain(getattr(value, name)) for name in SHOWN[kind]
        }
    return {"is": kind, "text": str(value)}


SHOWN: Final = {
    "Notification": ("method", "params"),
    "Filter": ("tools", "prompts", "resources", "uris", "task_ids"),
    "GroupEvent": ("server", "notification"),
    "LoadedSkill": ("body", "frontmatter", "files"),
    "Revision": ("name",),
    "ToolView": ("name", "server", "description"),
}


def head(fields: dict[str, str], era: str) -> dict[str, str]:
    """Return the header fields of a request that are not usual."""
    usual = USUAL_FIELDS | USUAL_IN.get(era, {})
    fields = {k: v for k, v in blank(fields).items() if k not in FRAMING}
    lacking = {f"-{name}": "" for name in usual if name not in fields}
    return lacking | {k: v for k, v in fields.items() if usual.get(k) != v}


def without(usual: list[Any], lines: list[Any]) -> list[Any]:
    """Return lines without those of a usual opening and close, if all are there."""
    if not usual or any(each not in lines for each in usual):
        return lines
    rest = list(lines)
    for each in usual:
        rest.remove(each)
    return ["opened and closed as usual", *rest]


def dumps(record: dict[str, Any]) -> str:
    """Write a record: sorted keys, one message to a line."""
    lines = []
    for key in sorted(record):
        parts = []
        for name, messages in record[key].items():
            each = [json.dumps(m, sort_keys=True, ensure_ascii=False) for m in messages]
            inside = ",\n   ".join(each)
            parts.append(
                f'  "{name}": [\n   {inside}\n  ]' if each else f'  "{name}": []'
            )
        lines.append(f" {json.dumps(key)}: {{\n" + ",\n".join(parts) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"
