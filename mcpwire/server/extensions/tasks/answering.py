"""The methods of tasks, each in the dialect of the request's revision."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams, MethodNotFound, rpc_error
from mcpwire.protocol import tasks
from mcpwire.protocol.tasks import CANCELLED
from mcpwire.server.extensions.tasks.owners import owner_of
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.protocol.tasks import TaskRecord
    from mcpwire.server.extensions.tasks.running import RunningTask
    from mcpwire.server.request import RequestContext

    FindFn = Callable[
        [Mapping[str, Any], RequestContext],
        Awaitable[tuple[TaskRecord, RunningTask | None]],
    ]
    ListFn = Callable[[str, tuple[float, str] | None, int], Awaitable[list[TaskRecord]]]

__all__ = ["Answering"]

PAGE: Final = 100
"""How many tasks one page has at most."""


class Answering:
    """Answers for the tasks of one server.

    Args:
        find: Returns the task that params name, and what runs of it here.
        list_page: Returns the tasks of an owner after one, at most so many.
    """

    def __init__(self, find: FindFn, list_page: ListFn) -> None:
        self._find = find
        self._list_page = list_page

    async def get(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/get``."""
        record, _ = await self._find(params, request)
        if request.revision.era is Era.STATELESS:
            return tasks.write_detailed(record)
        return tasks.write_legacy_task(record)

    async def update(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/update``: with nothing but that it arrived."""
        record, running = await self._find(params, request)
        answers = tasks.read_answers(record, params)
        if running is not None and answers:
            running.answer(answers)
            await running.save()
        return {}

    async def cancel(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/cancel``; the handler ends in its own time."""
        record, running = await self._find(params, request)
        is_stateless = request.revision.era is Era.STATELESS
        if record.is_final and not is_stateless:
            raise InvalidParams(f"the task has ended: {record.status}")
        if running is not None:
            running.cancel()
            await running.save()
            record = running.record
        return {} if is_stateless else tasks.write_legacy_task(record)

    # 2025-11-25 only...

    async def result(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/result`` when the task has ended; until then ask what it asks.

        2025-11-25 basic/utilities/tasks, "Input Required Status": this is the request
        to whose stream they belong.
        """
        record, running = await self._find(params, request)
        while not record.is_final:
            if running is None:
                # Another process runs it, and only the store tells how it stands.
                await asyncio.sleep(record.poll_interval)
                record, running = await self._find(params, request)
                continue
            if not (request.can_ask and await running.put_question(request)):
                await running.wait_for_change()
            record = running.record
        return _outcome(record)

    async def list(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``tasks/list``, to who is told apart from others."""
        if request.info.principal is None:
            raise MethodNotFound("tasks are listed only to who is known")
        after = tasks.read_cursor(params)
        page = await self._list_page(owner_of(request), after, PAGE + 1)
        result: dict[str, Any] = {
            "tasks": [tasks.write_legacy_task(record) for record in page[:PAGE]]
        }
        if len(page) > PAGE:
            result["nextCursor"] = tasks.cursor_after(page[PAGE - 1])
        return result


def _outcome(record: TaskRecord) -> dict[str, Any]:
    """Return or raise exactly what the call would have, and which task it was.

    Raises:
        RPCError: The call ended with it, or was cancelled and has nothing to give.
    """
    if record.error is not None:
        raise rpc_error(
            record.error["code"],
            record.error["message"],
            data=record.error.get("data"),
        )
    if record.status == CANCELLED:
        raise InvalidParams("the task was cancelled and has no result")
    assert record.result is not None
    return tasks.relate_to_task(record.result, record.id)
