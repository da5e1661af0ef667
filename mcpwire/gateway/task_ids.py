"""What tasks are called for clients, where many servers have tasks for many users."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import OrderedDict
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import TYPE_CHECKING, Any, Final

from mcpwire.types._base import RELATED_TASK
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.protocol.request_state import Owner

__all__ = ["TASKS_KEPT", "TaskIds", "with_task_id"]

TASKS_KEPT: Final = 10_000
"""How many tasks are remembered; the one that was used longest ago goes first."""

_SIGNATURE_BYTES: Final = 16


class TaskIds:
    """The ids of one client's tasks: ``<the server's id>.<signature>``.

    The signature binds an id to its server and its owner: what another client was given
    means nothing here. Nothing has to be remembered for that, so that another process
    with the same keys knows the ids, too.

    Args:
        keys: Secrets: the first one signs, all of them are accepted.
        owner: The owner of the tasks, as far as that was proved.
        limit: How many are remembered, for those that servers list or tell of unasked.
    """

    def __init__(
        self, keys: Sequence[bytes], owner: Owner, limit: int = TASKS_KEPT
    ) -> None:
        self._keys = keys
        self._owner = owner
        self._limit = limit
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def claim(self, server: str, raw: str) -> str:
        """Return what a task of the owner's is called from now on; remember it."""
        task = (server, raw)
        self._known[task] = name = self._sign(*task, self._keys[0])
        self._known.move_to_end(task)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return name

    def name(self, server: str, raw: str) -> str | None:
        """Return what a server's task is called; ``None``: not known as the owner's."""
        return self._known.get((server, raw))

    def find(self, name: object, servers: Iterable[str]) -> tuple[str, str] | None:
        """Return the server of a task and what it calls it; ``None``: none has it."""
        if type(name) is not str:
            return None
        raw, given = name.rpartition(".")[0], name.encode(errors="replace")
        for server in servers:
            for key in self._keys:
                if compare_digest(self._sign(server, raw, key).encode(), given):
                    return server, raw
        return None

    def _sign(self, server: str, raw: str, key: bytes) -> str:
        text = encode(["task", *self._owner, server, raw])
        signature = hmac_digest(key, text, "sha256")[:_SIGNATURE_BYTES]
        return f"{raw}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def with_task_id(fields: dict[str, Any], raw: str, name: str) -> dict[str, Any]:
    """Return what says something of a task as clients know it; most often the same.

    Args:
        fields: A result, or params.
        raw: What the server calls the task.
        name: What clients do.
    """
    if raw == name:
        return fields
    made = dict(fields)
    if made.get("taskId") == raw:
        made["taskId"] = name
    task = made.get("task")
    if type(task) is dict and task.get("taskId") == raw:
        made["task"] = {**task, "taskId": name}
    meta = made.get("_meta")
    related = meta.get(RELATED_TASK) if type(meta) is dict else None
    if type(related) is dict and related.get("taskId") == raw:
        made["_meta"] = {**made["_meta"], RELATED_TASK: {**related, "taskId": name}}
    return made
