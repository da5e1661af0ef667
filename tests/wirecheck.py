"""Checks every message that our code sends against its revision's schema.

All bytes of a `Duplex` pass its `_send`; `install` wraps it, so that each message is
checked when it is sent: is it one line of UTF-8 JSON, may this side send that method
in that revision, does it fit the schema's definition, is the id new, does the response
belong to a pending request. Violations are collected, and the fixture in `conftest.py`
fails the test that sent them. Bytes that a test writes by itself do not pass `_send`.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from mcpwire.check.schemas import ProtocolSchema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pytest

    from mcpwire.transports.duplex import Duplex

REVISIONS: Final = (
    *("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"),
)
LATEST: Final = REVISIONS[-1]
LATEST_SESSION: Final = REVISIONS[-2]
BATCHING: Final = "2025-03-26"

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"

EXTENSION_METHODS: Final = frozenset(
    {"tasks/get", "tasks/update", "tasks/cancel", "notifications/tasks"}
)
"""Methods of extensions with names that some revision's core also defines."""

TASK_RESULT: Final = "CreateTaskResult"
"""The result in 2025-11-25 of a request that became a task."""

EXCERPT: Final = 300


@functools.cache
def load(spec_dir: Path) -> dict[str, ProtocolSchema]:
    """Read the schemas of all revisions."""
    return {
        name: ProtocolSchema(json.loads((spec_dir / name / "schema.json").read_bytes()))
        for name in REVISIONS
    }


class _Line:
    """The state of one connection: its used ids and its pending requests."""

    def __init__(self) -> None:
        self.used: set[Any] = set()
        self.owed: dict[Any, tuple[str, str | None, bool]] = {}


class WireCheck:
    """Checks messages when they are sent, and collects the violations."""

    def __init__(self, schemas: Mapping[str, ProtocolSchema]) -> None:
        self._schemas = schemas
        self._lines: WeakKeyDictionary[object, _Line] = WeakKeyDictionary()
        self.violations: list[str] = []
        self.checked = 0

    # Events of a connection...

    def sent(self, duplex: Duplex, data: bytes) -> None:
        """Check the bytes that a connection has sent."""
        revision = duplex.revision and duplex.revision.name
        line = self._lines.setdefault(duplex, _Line())
        try:
            wrong = list(self._look_at_bytes(line, duplex.role, revision, data))
        except Exception as error:  # noqa: BLE001 - must not disturb the sender
            wrong = [f"the check itself failed: {error!r}"]
        excerpt = data[:EXCERPT].decode("utf-8", "replace").rstrip("\n")
        self.violations += [
            f"{duplex.role} at {revision or 'no revision'}: {what}: {excerpt}"
            for what in wrong
        ]

    def requested(self, duplex: object, id: Any, method: str, params: Any) -> None:
        """Record a request of the peer that is pending."""
        fields = params or {}
        meta = fields.get("_meta")
        version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        owed = self._lines.setdefault(duplex, _Line()).owed
        known = version if version in self._schemas else None
        owed[type(id), id] = method, known, "task" in fields

    def withdrawn(self, duplex: object, id: Any) -> None:
        """Drop a request that the peer cancelled: it must get no response."""
        self._lines.setdefault(duplex, _Line()).owed.pop((type(id), id), None)

    # Checks...

    def _look_at_bytes(
        self, line: _Line, role: str, revision: str | None, data: bytes
    ) -> Iterator[str]:
        if not data.endswith(b"\n"):
            yield "does not end with a newline"
        for text in data.removesuffix(b"\n").split(b"\n"):
            try:
                message = json.loads(text.decode("utf-8"))
            except ValueError as error:
                yield f"is no JSON in UTF-8 on one line ({error})"
                continue
            batch = message if isinstance(message, list) else [message]
            if isinstance(message, list) and revision != BATCHING:
                yield "is a batch, which this revision does not have"
            for item in batch:
                self.checked += 1
                yield from self._look_at(line, role, revision, item)

    def _look_at(
        self, line: _Line, role: str, revision: str | None, message: Any
    ) -> Iterator[str]:
        if not isinstance(message, dict):
            yield f"is no object: {message!r}"
        elif "method" in message:
            yield from self._look_at_method(line, role, revision, message)
        else:
            yield from self._look_at_answer(line, revision, message)

    def _look_at_method(
        self, line: _Line, role: str, revision: str | None, message: dict[str, Any]
    ) -> Iterator[str]:
        method = message["method"]
        name = revision or self._unagreed(role, message)
        schema = self._schemas[name]
        if "id" in message:
            key = type(message["id"]), message["id"]
            if key in line.used:
                yield f"id {message['id']!r} is used again"
            line.used.add(key)
        definition = schema.sendable[role].get(method)
        if definition is None:
            if method not in EXTENSION_METHODS and self._is_known(method):
                yield f"a {role} may not send {method} in {name}"
            definition = "JSONRPCRequest" if "id" in message else "JSONRPCNotification"
        yield from schema.problems(definition, message)

    def _unagreed(self, role: str, message: dict[str, Any]) -> str:
        """Return the revision of a message sent before the handshake was done."""
        params = message.get("params") or {}
        meta = params.get("_meta") or {}
        named = params.get("protocolVersion") or meta.get(VERSION_KEY)
        if named in self._schemas:
            return named
        is_modern = role == "server" or message["method"] == "server/discover"
        return LATEST if is_modern else LATEST_SESSION

    def _is_known(self, method: object) -> bool:
        return any(
            method in table
            for schema in self._schemas.values()
            for table in schema.sendable.values()
        )

    def _look_at_answer(
        self, line: _Line, revision: str | None, message: dict[str, Any]
    ) -> Iterator[str]:
        id = message.get("id")
        owed = line.owed.pop((type(id), id), None)
        method, version, wants_task = owed or (None, None, False)
        if "error" in message:
            schema = self._schemas[version or revision or LATEST]
            yield from schema.problems(schema.error, message)
            return
        result = message.get("result")
        if method == "initialize" and isinstance(result, dict):
            version = result.get("protocolVersion")
        name = version if version in self._schemas else revision or LATEST
        schema = self._schemas[name]
        yield from schema.problems(schema.answer, message)
        if owed is None:
            yield f"answers id {id!r}, which is not owed"
            return
        definition = schema.result_definition(method or "")
        is_task = wants_task and isinstance(result, dict) and "task" in result
        if is_task and TASK_RESULT in schema.definitions:
            definition = TASK_RESULT
        if definition is not None and definition.endswith("Response"):
            yield from schema.problems(definition, message)
        elif definition is not None:
            yield from schema.problems(definition, result, "$.result")


def install(monkeypatch: pytest.MonkeyPatch, check: WireCheck) -> None:
    """Let every duplex connection report what it sends, except scripted peers."""
    from mcpwire.transports.duplex import Duplex

    send, requested, withdrawn = Duplex._send, Duplex.on_request, Duplex.on_cancelled

    @functools.wraps(send)
    def checked_send(self, data):
        send(self, data)
        if not getattr(self, "is_scripted", False):
            check.sent(self, data)

    @functools.wraps(requested)
    def noted_request(self, id, method, params):
        check.requested(self, id, method, params)
        requested(self, id, method, params)

    @functools.wraps(withdrawn)
    def noted_withdrawal(self, id):
        check.withdrawn(self, id)
        withdrawn(self, id)

    monkeypatch.setattr(Duplex, "_send", checked_send)
    monkeypatch.setattr(Duplex, "on_request", noted_request)
    monkeypatch.setattr(Duplex, "on_cancelled", noted_withdrawal)
