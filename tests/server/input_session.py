"""A client and a server's request handling around one handler, without a wire.

`Session` answers requests during a call; `NoSession` calls again with answers, as
2026-07-28 has it, and keeps every request and result.
"""

import asyncio
import inspect
import json
from functools import partial
from typing import Any

import anyio.to_thread

from mcpwire.server.context import Context, Services
from mcpwire.server.dispatcher import Route
from mcpwire.server.input_rounds import (
    InputNeeded,
    StateSealer,
    deciding_error,
    finish_round,
    get_rounds,
)
from mcpwire.server.request import RequestContext, RequestInfo
from mcpwire.server.request import Session as SessionFacts
from mcpwire.versions import LATEST, REVISIONS
from mcpwire.wire.json import encode

ALL = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
"""The capabilities of a client that supports every kind of request."""

FORM = {"type": "object", "properties": {"text": {"type": "string"}}}

YES = {"action": "accept", "content": {"text": "yes"}}

CALL = {"name": "tool", "arguments": {"n": 1}}

KEYS = (b"k" * 32,)


def plain(value: Any) -> Any:
    """Return a value as it arrives at the other end."""
    return json.loads(encode(value))


async def run(handler, context):
    request = context.request
    try:
        with context:
            if inspect.iscoroutinefunction(handler):
                return {"value": await handler(context)}
            return {
                "value": await anyio.to_thread.run_sync(
                    partial(handler, context), abandon_on_cancel=True
                )
            }
    except InputNeeded:
        return plain(finish_round(request))
    except BaseExceptionGroup as group:
        error = deciding_error(group)
        if isinstance(error, InputNeeded):
            return plain(finish_round(request))
        raise error from group
    finally:
        request.close()


class NotificationLog:
    """Records the notifications sent besides the responses."""

    def __init__(self):
        self.all = []

    def __call__(self, method, params):
        self.all.append((method, plain(params)))

    def of(self, method, member):
        return [p[member] for m, p in self.all if m == f"notifications/{method}"]


class Session:
    """A client of the session era; `answer` gets method and params."""

    def __init__(self, answer=None, *, revision=REVISIONS[3], capabilities=ALL):
        self.info = SessionFacts(revision, {"name": "c"}, capabilities)
        self.answer = answer
        self.requests = []
        self.notifications = NotificationLog()
        self.services = Services(sealer=StateSealer(KEYS))

    async def _ask(self, method, params):
        self.requests.append((method, plain(params)))
        outcome = self.answer(method, params)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def context(self, method="tools/call", meta=None, **more):
        more = {"ask": None if self.answer is None else self._ask, **more}
        request = RequestContext(
            1,
            method,
            meta or {},
            self.info.revision,
            session=self.info,
            client_capabilities=self.info.client_capabilities,
            notify=self.notifications,
            can_log=True,
            route=Route(print),
            params=CALL,
            **more,
        )
        return Context(request, self.services)

    async def call(self, handler, **more):
        return (await run(handler, self.context(**more)))["value"]


class NoSession:
    """A client of 2026-07-28; `answer` gets method and params and returns an answer."""

    def __init__(
        self,
        answer=None,
        *,
        capabilities=ALL,
        sealer=None,
        principal=None,
        method="tools/call",
        params=CALL,
    ):
        self.answer = answer
        self.capabilities = capabilities
        self.services = Services(sealer=sealer or StateSealer(KEYS))
        self.info = RequestInfo(principal=principal)
        self.method = method
        self.params = params
        self.notifications = NotificationLog()
        self.requests = []
        self.results = []

    def context(self, meta=None, ask=None, **members):
        request = RequestContext(
            len(self.results) + 1,
            self.method,
            meta or {},
            LATEST,
            session=None,
            client_capabilities=self.capabilities,
            notify=self.notifications,
            can_log=True,
            route=Route(print),
            params={**self.params, **members},
            info=self.info,
            ask=ask,
        )
        return Context(request, self.services)

    async def send(self, handler, meta=None, **members):
        """Make one request; return its result."""
        context = self.context(meta, **members)
        if members:
            get_rounds(context.request, self.services.sealer)
        result = await run(handler, context)
        self.results.append(result)
        return result

    async def retry(self, handler, before, responses):
        """Make the request again, with the state of a result and some answers."""
        state = before["requestState"]
        return await self.send(handler, requestState=state, inputResponses=responses)

    async def call(self, handler, **more):
        """Call until a result needs no more input; return its value."""
        result = await self.send(handler, **more)
        while result.get("resultType") == "input_required":
            responses = {}
            for key, question in result["inputRequests"].items():
                self.requests.append((question["method"], question["params"]))
                responses[key] = self.answer(question["method"], question["params"])
            result = await self.send(
                handler,
                **more,
                inputResponses=responses,
                requestState=result["requestState"],
            )
        return result["value"]


async def greet(ctx):
    name = await ctx.elicit("Who?", FORM, key="name")
    return name.content["text"]


def answer_all(method, params):
    """Answer as a user, a model and a list of roots."""
    if method == "roots/list":
        return {"roots": [{"uri": "file:///work"}]}
    if method == "sampling/createMessage":
        text = params["messages"][-1]["content"]["text"]
        content = {"type": "text", "text": f"re: {text}"}
        return {"role": "assistant", "content": content, "model": "m"}
    if params.get("mode") == "url":
        return {"action": "accept"}
    return {"action": "accept", "content": {"text": params["message"]}}


async def yield_to_loop(times=3):
    """Run some iterations of the event loop."""
    for _ in range(times):
        await asyncio.sleep(0)
