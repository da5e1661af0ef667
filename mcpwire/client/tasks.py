"""Functions for tool calls that run as tasks, with access to the task itself.

`Client.call_tool` does not need them: it waits for a call that becomes a task. A task's
id can be stored and used by another process. The functions cover both dialects, that of
2025-11-25 and the extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.client.requests import as_object
from mcpwire.errors import LocalProtocolError, TransportError
from mcpwire.limits import check_timeout
from mcpwire.protocol import tasks
from mcpwire.protocol.methods import available_method
from mcpwire.types import (
    CallToolResult,
    CreatedTask,
    DetailedTask,
    WireType,
    decode,
    encode,
)
from mcpwire.versions import Era

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from typing import Unpack

    from mcpwire.client import CallOptions, Client
    from mcpwire.client.connection import Connection
    from mcpwire.client.requests import Options, Requests
    from mcpwire.protocol.multistep import Steps
    from mcpwire.types import InputResponse
    from mcpwire.versions import Revision

logger = logging.getLogger("mcpwire")


async def start_task(
    client: Client,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    ttl: float | None = None,
    **options: Unpack[CallOptions],
) -> CreatedTask | CallToolResult:
    """Call a tool, as a task if server and tool allow it; return the task or result.

    With the extension the server decides. At 2025-11-25 the call requests a task if the
    server supports them and the tool's listing allows one.

    Args:
        client: A connected client.
        name: The tool.
        arguments: Its arguments, as one object.
        ttl: The requested lifetime of the task in seconds; only sent at 2025-11-25.
        options: The options of every request; `timeout` limits the reply, not the task.

    Raises:
        MCPError: As `Client.call_tool`.
    """
    requests, revision = _requests(client), _revision(client, "tools/call")
    seconds = check_timeout(ttl, "ttl")
    params: dict[str, Any] = {"name": name}
    if arguments is not None:
        params["arguments"] = as_object(arguments)
    offers = revision.era is Era.SESSION and _connection(client).profile.offers(
        "tasks.requests.tools.call"
    )
    tool = None
    if offers:
        known = client._known_tools.tools  # noqa: SLF001 - this module is the client's
        if name not in known:
            await client.list_tools(headers=options.get("headers"))
        tool = known.get(name)
    if tasks.must_request_task(revision, tool, is_offered=offers):
        params["task"] = {} if seconds is None else {"ttl": round(seconds * 1_000)}
    raw = await requests.request("tools/call", params, options, is_followed=False)
    return tasks.read_created(raw, revision) or decode(CallToolResult, raw)


async def get_task(
    client: Client, task_id: str, **options: Unpack[CallOptions]
) -> DetailedTask:
    """Return the state of a task, with its result or input requests if it has them.

    Raises:
        InvalidParams: The task is unknown or has expired.
        LocalProtocolError: Server or client lack tasks; no request was sent.
    """
    revision = _revision(client, "tasks/get")
    raw = await _perform(client, "tasks/get", {"taskId": task_id}, options)
    return tasks.read_detailed(raw, task_id, revision)


async def list_tasks(
    client: Client, **options: Unpack[CallOptions]
) -> list[DetailedTask]:
    """Return all tasks that the server keeps for this client (2025-11-25).

    Raises:
        LocalProtocolError: The server cannot list tasks; no request was sent.
    """
    _revision(client, "tasks/list")
    pages = await _requests(client).pages("tasks/list", options)
    return [task for page in pages for task in tasks.read_listed(page)]


async def update_task(
    client: Client,
    task_id: str,
    answers: Mapping[str, InputResponse | Mapping[str, Any]],
    **options: Unpack[CallOptions],
) -> None:
    """Send answers to a task's input requests, by the keys of its `input_requests`.

    A part of the answers is allowed; each key is answered once. `wait_for_task` runs
    the client's handlers instead.

    Raises:
        InvalidParams: The task is unknown, or an answer does not fit its request.
        LocalProtocolError: Tasks of this revision take no answers this way; no request
            was sent.
    """
    revision = _revision(client, "tasks/update")
    responses = {
        key: encode(answer, revision) if isinstance(answer, WireType) else dict(answer)
        for key, answer in answers.items()
    }
    params = {"taskId": task_id, "inputResponses": responses}
    await _perform(client, "tasks/update", params, options)


async def cancel_task(
    client: Client, task_id: str, **options: Unpack[CallOptions]
) -> None:
    """Request the cancellation of a task; it may still end with a result or an error.

    Raises:
        InvalidParams: The task is unknown; at 2025-11-25 also if it has ended.
        LocalProtocolError: Server or client lack tasks; no request was sent.
    """
    _revision(client, "tasks/cancel")
    await _perform(client, "tasks/cancel", {"taskId": task_id}, options)


async def wait_for_task(
    client: Client,
    task: CreatedTask | DetailedTask | str,
    *,
    check: bool = False,
    **options: Unpack[CallOptions],
) -> CallToolResult:
    """Wait for the end of a task and return the result of its call.

    The task is polled at the server's interval, and the client's handlers answer its
    input requests. Cancelling this, or its timeout, leaves the task running.

    Args:
        client: A connected client, not necessarily the one that made the call.
        task: The task, or its id.
        check: Whether to raise `ToolError` when the tool reports failure.
        options: The options of every request; `timeout` limits the whole wait.

    Raises:
        CallCancelled: The task was cancelled, or a handler of this client refused.
        RPCError: The call ended with this error; or the task is unknown
            (`InvalidParams`).
        MCPError: As `Client.call_tool`.
    """
    task_id = task if isinstance(task, str) else task.task_id
    revision = _revision(client, "tasks/get")
    connection, requests = _connection(client), _requests(client)
    is_stateless = revision.era is Era.STATELESS
    if is_stateless:
        limit = connection.settings.limits.input_rounds
        steps = tasks.follow_task(task_id, revision=revision, max_rounds=limit)
    else:
        steps = tasks.follow_session_task(task_id)
    raw = await drive_steps(requests, steps, requests.options(options))
    result = decode(CallToolResult, tasks.read_outcome(raw) if is_stateless else raw)
    return result.raise_for_error() if check else result


async def _perform(
    client: Client, method: str, params: dict[str, Any], options: CallOptions
) -> dict[str, Any]:
    requests = _requests(client)
    return await requests.perform(method, params, requests.options(options))


def _connection(client: Client) -> Connection:
    return client._connection  # noqa: SLF001 - this module is the client's


def _requests(client: Client) -> Requests:
    return client._requests  # noqa: SLF001 - this module is the client's


def _revision(client: Client, method: str) -> Revision:
    """Return the negotiated revision; raise if it or the server lacks the method."""
    connection = _connection(client)
    profile = connection.profile
    if profile.agreement is None or not connection.is_entered:
        raise connection.not_connected_error()
    if method in profile.disabled:
        raise profile.refusal(method)
    revision = profile.agreement.revision
    if available_method(method, revision, "client", profile.extensions) is None:
        raise LocalProtocolError(f"{revision} has no {method}")
    return revision


# Calls that became tasks


def _send_cancel(
    connection: Connection, task_id: str, headers: Mapping[str, str] | None
) -> None:
    """Send `tasks/cancel`, without waiting.

    The extension, "Task Cancellation": never `notifications/cancelled`, which cancels
    requests.
    """
    channel = connection.channel
    if channel is not None and channel.lost is None:
        params = {"taskId": task_id, "_meta": dict(connection.profile.meta or {})}
        call = channel.call("tasks/cancel", params, deadline=None, headers=headers)
        connection.spawn(call, "tasks/cancel").add_done_callback(_log_failure)


def _log_failure(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        logger.debug("a task was not cancelled: %s", error)


async def follow(
    connection: Connection,
    requests: Requests,
    created: dict[str, Any],
    options: Options,
) -> dict[str, Any]:
    """Wait for the task of a call; return its raw result.

    A cancelled or failed call cancels the task. A lost connection does not: the task
    continues at the server.
    """
    agreement = connection.profile.agreement
    assert agreement is not None
    task_id = tasks.read_task_id(created)
    steps = tasks.follow_task(
        created,
        revision=agreement.revision,
        max_rounds=connection.settings.limits.input_rounds,
        max_requests=connection.settings.limits.questions,
    )
    try:
        task = await drive_steps(requests, steps, options)
    except TransportError:
        raise
    except BaseException:
        _send_cancel(connection, task_id, options.headers)
        raise
    return tasks.read_outcome(task)


async def drive_steps(
    requests: Requests, steps: Steps[dict[str, Any]], options: Options
) -> dict[str, Any]:
    """Drive the generator that follows a task, within one deadline."""
    # Tasks have no progress, and the call's `idempotent` does not apply to polling.
    options = attrs.evolve(options, on_progress=None, idempotent=None)
    result: dict[str, Any] = await requests.drive("tools/call", steps, options)
    return result
