"""Follows the task that a call became, and takes it back where nobody waits any more.

The way is `mcpwire.protocol.results.tasks`'; here are the two ends of it that are no
rule of the protocol's: who gives up tells the server, and closing ends all waiting.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from mcpwire.errors import ConnectionClosed, LocalProtocolError, TransportError
from mcpwire.protocol.results import tasks
from mcpwire.transports.base import CallHandle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.steps import Steps
    from mcpwire.transports.client.asking.requests import Requests
    from mcpwire.transports.client.connection import Connection

__all__ = ["follow", "walk"]

logger = logging.getLogger("mcpwire")


class Withdrawal:
    """Tells the server, once, that nobody waits for a task any more."""

    def __init__(
        self, connection: Connection, task_id: str, headers: Mapping[str, str] | None
    ) -> None:
        self._connection = connection
        self._task_id = task_id
        self._headers = headers
        self._is_sent = False

    def send(self) -> None:
        """Send `tasks/cancel`, and wait for nothing.

        The extension, "Task Cancellation": never `notifications/cancelled`, which is
        about requests.
        """
        channel = self._connection.channel
        if self._is_sent or channel is None or channel.lost is not None:
            return
        self._is_sent = True
        fields = self._connection.profile.stamp_fields
        self._connection.open_call(
            channel,
            "tasks/cancel",
            {"taskId": self._task_id, "_meta": dict(fields or {})},
            handle=CallHandle(),
            on_end=_note,
            headers=self._headers,
        )


def _note(outcome: dict[str, Any] | Exception) -> None:
    if isinstance(outcome, Exception):
        logger.debug("a task was not cancelled: %s", outcome)


async def follow(
    connection: Connection,
    requests: Requests,
    begun: dict[str, Any],
    deadline: Deadline | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Carry a call that became a task to its raw result.

    Whoever gives up the call cancels the task. Where the connection failed nobody gave
    up: the task goes on without it.

    Raises:
        MCPError: As the call would have.
    """
    agreement = connection.profile.agreement
    assert agreement is not None
    withdrawal = Withdrawal(connection, tasks.read_id(begun), options.get("headers"))
    handle: CallHandle | None = options.get("handle")
    if handle is not None:
        handle.on_cancel = withdrawal.send
    steps = tasks.follow(
        begun,
        revision=agreement.revision,
        limit=connection.settings.limits.input_rounds,
        most=connection.settings.limits.questions,
    )
    try:
        task = await walk(connection, requests, steps, deadline, options)
    except TransportError:
        raise
    except BaseException:
        withdrawal.send()
        raise
    finally:
        if handle is not None:
            handle.on_cancel = None
    return tasks.outcome(task)


async def walk(
    connection: Connection,
    requests: Requests,
    steps: Steps[dict[str, Any]],
    deadline: Deadline | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Perform what follows a task, within one deadline.

    Raises:
        ConnectionClosed: The client was closed meanwhile; the task goes on.
        MCPError: As any request.
    """
    # Tasks have no progress, and what may be repeated of the call says nothing of
    # looking at its task.
    options = {**options, "on_progress": None, "idempotent": None}
    try:
        result: dict[str, Any] = await requests.drive(
            "tools/call", steps, deadline, options
        )
    except LocalProtocolError as error:
        if connection.is_wanted:
            raise
        raise ConnectionClosed("closed by this side", sent=True) from error
    return result
