"""Tasks without a server: calls and requests are made by hand."""

import asyncio
from contextlib import asynccontextmanager

import attrs
from clocks import Clock

from mcpwire.server.auth.resource_server import Principal
from mcpwire.server.dispatcher import Route
from mcpwire.server.extensions.tasks import Tasks
from mcpwire.server.request import RequestContext, RequestInfo, Session
from mcpwire.versions import find_revision

MAX_WAIT_S = 30.0

ID = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
DECLARED = {"extensions": {ID: {}}, "elicitation": {}, "roots": {}}

NOV, JUL = find_revision("2025-11-25"), find_revision("2026-07-28")

RESULT = {"content": [{"type": "text", "text": "done"}]}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
ACCEPT = {"action": "accept", "content": {"name": "Alice"}}

ALICE = Principal(issuer="https://as.example", client_id="c", subject="alice")
BOB = Principal(issuer="https://as.example", client_id="c", subject="bob")


@attrs.define
class TaskTool:
    """The attributes of a tool that tasks use."""

    key: str = "slow"
    task: str = "optional"


async def done(_):
    return RESULT


class Bed:
    """One `Tasks`, and a client of each dialect.

    Attributes:
        tasks: The tasks under test.
        clock: Its clock.
        notifications: Those sent to its clients: (method, params).
    """

    def __init__(self, *args, **options):
        self.clock = Clock()
        self.tasks = Tasks(*args, clock=self.clock, **options)
        self.notifications = []
        self.methods = self.tasks.methods()

    def serve(self, server):
        self.tasks.attach(server)
        self.methods = self.tasks.methods()

    def request(
        self, method, params, *, old=False, who=None, ask=None, address=None, **meta
    ):
        session = None
        scope = {} if address is None else {"client": (address, 50_000)}
        if old:
            session = Session(
                NOV,
                {},
                {},
                send=lambda *notification: self.notifications.append(notification),
            )
        return RequestContext(
            1,
            method,
            meta,
            NOV if old else JUL,
            session=session,
            client_capabilities={} if old else DECLARED,
            notify=lambda *notification: self.notifications.append(notification),
            can_log=True,
            route=Route(done),
            ask=ask,
            params=params,
            info=RequestInfo(principal=who, scope=scope),
        )

    async def call(self, body=done, *, support="optional", name="slow", **options):
        """Call a tool; return the response, or ``None`` if it creates no task.

        In the old dialect the call requests a task, unless `task` is ``None``.
        """
        params = {"name": name}
        task = options.pop("task", {} if options.get("old") else None)
        if task is not None:
            params["task"] = task
        request = self.request("tools/call", params, **options)
        tool = TaskTool(name, support)
        return await self.tasks.intercept(tool, params, request, body)

    async def begin(self, body=done, **options):
        answer = await self.call(body, **options)
        return answer.get("task", answer)["taskId"]

    async def end(self, body=done, **options):
        task_id = await self.begin(body, **options)
        await self.until(task_id, "completed", who=options.get("who"))
        return task_id

    async def ask(self, method, params=(), **options):
        params = dict(params)
        request = self.request(method, params, **options)
        async with asyncio.timeout(MAX_WAIT_S):
            return await self.methods[method](params, request)

    async def get(self, task_id, **options):
        return await self.ask("tasks/get", {"taskId": task_id}, **options)

    async def cancel(self, task_id, **options):
        return await self.ask("tasks/cancel", {"taskId": task_id}, **options)

    async def update(self, task_id, answers):
        params = {"taskId": task_id, "inputResponses": answers}
        return await self.ask("tasks/update", params)

    async def result(self, task_id, client=None):
        """Wait for the result, as a client that answers requests meanwhile."""
        params = {"taskId": task_id}
        return await self.ask("tasks/result", params, old=True, ask=client)

    async def until(self, task_id, *statuses, who=None):
        """Wait until a task has one of these statuses; return it as `tasks/get`."""
        changed = asyncio.Event()
        request = self.request("subscriptions/listen", {}, who=who)
        forget = self.tasks.watch([task_id], request, lambda *_: changed.set())
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                while (task := await self.get(task_id, who=who))[
                    "status"
                ] not in statuses:
                    changed.clear()
                    await changed.wait()
        finally:
            forget()
        return task


@asynccontextmanager
async def bed(*args, **options):
    made = Bed(*args, **options)
    try:
        yield made
    finally:
        await made.tasks.aclose()


class Gate:
    """A handler that waits until a test opens it."""

    def __init__(self, result=RESULT):
        self.result = result
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()
        self.was_cancelled = False
        self.request = None

    async def __call__(self, request):
        self.request = request
        self.entered.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        finally:
            self.ended.set()
        return self.result


async def soon(event):
    async with asyncio.timeout(MAX_WAIT_S):
        await event.wait()
