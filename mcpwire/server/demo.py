"""Tools of the demo server that ask the client something before they answer.

A form for its user, a page for them to visit, an answer of its model. In a session the
question is a request of the server; from 2026-07-28 on the call is answered with the
question and made again with its answer.

A small server with one of everything, to try a client on.

``mcpwire demo-server`` and ``python -m mcpwire.server.demo`` run it on stdin and
stdout; `demo_dispatcher` gives it to a client in the same process.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import attrs

from mcpwire._version import __version__
from mcpwire.errors import InvalidParams, ResourceNotFound, RPCError, ToolError
from mcpwire.protocol.methods import capability_declared
from mcpwire.server.authoring.signature import check_arguments
from mcpwire.server.dispatcher import Dispatcher
from mcpwire.types.lifecycle import Implementation
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.request import RequestContext
    from mcpwire.versions import Revision


__all__ = ["QUESTIONS", "call", "demo_dispatcher", "main", "offered"]


Json: TypeAlias = dict[str, Any]

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, _ = REVISIONS

KEY: Final = "answer"
"""What an answer is called where it comes with the call."""

DRINKS: Final = {"coffee": "Coffee", "tea": "Tea", "water": "Water, still"}
PAGE: Final = "https://example.com/mcpwire-demo?order=1"


@attrs.frozen
class Asking:
    """A tool that asks."""

    title: str
    description: str
    properties: Json
    """Its arguments."""

    method: str
    capability: str
    """What the client must have declared; without it the tool is not offered."""

    since: Revision
    question: Callable[[Json, Revision], Json]
    """Makes the params of the question, of the call's arguments."""

    conclude: Callable[[Json], str]
    """Makes the tool's text, of the answer."""

    @property
    def schema(self) -> Json:
        """The schema of its arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.properties),
            "additionalProperties": False,
        }


def _order_form(_: Json, revision: Revision) -> Json:
    drink: Json = {"type": "string", "title": "Drink", "enum": list(DRINKS)}
    cups: Json = {"type": "integer", "title": "Cups", "minimum": 1, "maximum": 5}
    sugar = {"type": "boolean", "title": "Sugar", "default": False}
    if revision >= _NOV_2025:
        del drink["enum"]
        drink["oneOf"] = [{"const": key, "title": DRINKS[key]} for key in DRINKS]
        cups["default"] = 1
    note = {
        "type": "string",
        "title": "Note",
        "description": "Anything else we should know.",
        "maxLength": 60,
    }
    return {
        "message": "What may we bring you?",
        "requestedSchema": {
            "type": "object",
            "properties": {"drink": drink, "cups": cups, "sugar": sugar, "note": note},
            "required": ["drink", "cups"],
        },
    }


def _order_text(answer: Json) -> str:
    if answer.get("action") != "accept":
        return f"no order: {answer.get('action')}"
    ordered = check_arguments(_ORDER, answer.get("content"))
    sugar = "with sugar" if ordered.get("sugar") else "without sugar"
    note = f" ({ordered['note']})" if ordered.get("note") else ""
    return f"{ordered['cups']} x {ordered['drink']}, {sugar}{note}"


def _page(_: Json, revision: Revision) -> Json:
    params = {"mode": "url", "message": "Please pay for your order.", "url": PAGE}
    # 2025-11-25 tells by this id that the user is done; nothing here does.
    return params | ({"elicitationId": uuid4().hex} if revision == _NOV_2025 else {})


def _page_text(answer: Json) -> str:
    agreed = answer.get("action") == "accept"
    return "agreed to pay" if agreed else f"no payment: {answer.get('action')}"


def _haiku(arguments: Json, _: Revision) -> Json:
    text = f"Write a haiku about {arguments['topic']}."
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"messages": [message], "maxTokens": 100}


def _haiku_text(answer: Json) -> str:
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


_ORDER: Final = _order_form({}, _JUN_2025)["requestedSchema"]

QUESTIONS: Final[Mapping[str, Asking]] = {
    "order": Asking(
        "Order",
        "Ask for an order, by a form.",
        {},
        "elicitation/create",
        "elicitation.form",
        _JUN_2025,
        _order_form,
        _order_text,
    ),
    "pay": Asking(
        "Pay",
        "Ask to visit a page.",
        {},
        "elicitation/create",
        "elicitation.url",
        _NOV_2025,
        _page,
        _page_text,
    ),
    "haiku": Asking(
        "Haiku",
        "Ask the client's model for a haiku.",
        {"topic": {"type": "string", "description": "What it is about."}},
        "sampling/createMessage",
        "sampling",
        _NOV_2024,
        _haiku,
        _haiku_text,
    ),
}


def offered(request: RequestContext) -> dict[str, Json]:
    """Return the tools that this client can answer."""
    return {
        name: {
            "title": asking.title,
            "description": asking.description,
            "inputSchema": asking.schema,
        }
        for name, asking in QUESTIONS.items()
        if request.revision >= asking.since
        and capability_declared(request.client_capabilities, asking.capability)
    }


async def call(asking: Asking, params: Json, request: RequestContext) -> Json:
    """Ask, and answer the call once there is an answer.

    Raises:
        ToolError: The client refused, or its answer does not fit.
    """
    arguments = check_arguments(asking.schema, params.get("arguments"))
    question = asking.question(arguments, request.revision)
    if request.session is not None:
        try:
            answer = await request.ask(asking.method, question)
        except RPCError as error:
            raise ToolError(f"the client refused: {error.message}") from error
    else:
        answers = params.get("inputResponses")
        found = answers.get(KEY) if isinstance(answers, dict) else None
        if not isinstance(found, dict):
            asked = {"method": asking.method, "params": question}
            return {"resultType": "input_required", "inputRequests": {KEY: asked}}
        answer = found
    return {"content": [{"type": "text", "text": asking.conclude(answer)}]}


INSTRUCTIONS: Final = (
    "A demonstration: echo repeats, add sums, slow reports progress while it runs."
)

CAPABILITIES: Final[Json] = {
    "completions": {},
    "logging": {},
    "prompts": {},
    "resources": {},
    "tools": {},
}

# Nothing here changes or depends on who asks.
CACHE: Final = {"ttlMs": 3_600_000, "cacheScope": "public"}


EXACT: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly; sums of two fit 64 bit."""

HARMLESS: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


def _object(properties: Json, *required: str) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _integer(description: str, **more: Any) -> Json:
    bounds = {"minimum": -EXACT, "maximum": EXACT}
    return {"type": "integer", "description": description, **bounds, **more}


TOOLS: Final[Mapping[str, Json]] = {
    "echo": {
        "title": "Echo",
        "description": "Return the message.",
        "inputSchema": _object(
            {"message": {"type": "string", "description": "What to return."}},
            "message",
        ),
    },
    "add": {
        "title": "Add",
        "description": "Add two integers.",
        "inputSchema": _object(
            {
                "a": _integer("The first addend."),
                "b": _integer("The second addend.", default=0),
            },
            "a",
        ),
        "outputSchema": {
            "type": "object",
            "properties": {"sum": {"type": "integer"}},
            "required": ["sum"],
        },
    },
    "slow": {
        "title": "Slow",
        "description": "Take some time in steps and report progress after each.",
        "inputSchema": _object(
            {
                "steps": _integer("How many.", default=5, minimum=1, maximum=1_000),
                "seconds": {
                    "type": "number",
                    "description": "How long all of them take.",
                    "default": 1.0,
                    "minimum": 0,
                    "maximum": 3_600,
                },
            }
        ),
    },
}

_SINCE: Final = {
    "annotations": _MAR_2025,
    "outputSchema": _JUN_2025,
    "structuredContent": _JUN_2025,
    "title": _JUN_2025,
}
"""Members that came after the first revision."""

GREETING_URI: Final = "demo://greeting"
GREETING_TEMPLATE: Final = "demo://greeting/{name}"

NAMES: Final = ("Ada", "Alan", "Barbara", "Edsger", "Grace", "Tim")
"""Whom the completion knows."""

COMPLETED: Final = (
    {"type": "ref/prompt", "name": "greet"},
    {"type": "ref/resource", "uri": GREETING_TEMPLATE},
)


def _at(revision: Revision, members: Json) -> Json:
    """Return the members that a revision knows."""
    return {k: v for k, v in members.items() if revision >= _SINCE.get(k, _NOV_2024)}


def _text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def _check_cursor(params: Json) -> None:
    # Each list is one page, so no cursor was ever given out.
    if params.get("cursor") is not None:
        raise InvalidParams("the cursor is unknown")


# Tools...


def list_tools(params: Json, request: RequestContext) -> Json:
    """Answer ``tools/list``."""
    _check_cursor(params)
    tools = [
        {"name": name, **_at(request.revision, {**tool, "annotations": HARMLESS})}
        for name, tool in {**TOOLS, **offered(request)}.items()
    ]
    # Who cannot be asked is not offered the tools that ask.
    return {"tools": tools, **CACHE, "cacheScope": "private"}


async def call_tool(params: Json, request: RequestContext) -> Json:
    """Answer ``tools/call``."""
    name = params.get("name")
    if type(name) is str and name in offered(request):
        asking = QUESTIONS[name]
        return await call(asking, params, request)
    if type(name) is not str or name not in TOOLS:
        raise InvalidParams(f"there is no tool {_shown(name)}")
    arguments = check_arguments(TOOLS[name]["inputSchema"], params.get("arguments"))
    return await CALLS[name](arguments, request)


async def echo(arguments: Json, _: RequestContext) -> Json:
    """Return the message."""
    return {"content": _text(arguments["message"])}


async def add(arguments: Json, request: RequestContext) -> Json:
    """Add two integers."""
    total = {"sum": arguments["a"] + arguments["b"]}
    result = {"content": _text(json.dumps(total)), "structuredContent": total}
    return _at(request.revision, result)


async def slow(arguments: Json, request: RequestContext) -> Json:
    """Take some time in steps and report progress after each."""
    steps, seconds = arguments["steps"], arguments["seconds"]
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds / steps)
        request.log("debug", f"step {step} is done", "slow")
        request.progress(step, steps, f"step {step} of {steps}")
    return {"content": _text(f"{steps} steps in {seconds:g} seconds")}


CALLS: Final[Mapping[str, Callable[[Json, RequestContext], Awaitable[Json]]]] = {
    "echo": echo,
    "add": add,
    "slow": slow,
}


# Resources...


def list_resources(params: Json, request: RequestContext) -> Json:
    """Answer ``resources/list``."""
    _check_cursor(params)
    resource = {
        "uri": GREETING_URI,
        "name": "greeting",
        "title": "Greeting",
        "description": "A greeting for everybody.",
        "mimeType": "text/plain",
    }
    return {"resources": [_at(request.revision, resource)], **CACHE}


def list_templates(params: Json, request: RequestContext) -> Json:
    """Answer ``resources/templates/list``."""
    _check_cursor(params)
    template = {
        "uriTemplate": GREETING_TEMPLATE,
        "name": "personal-greeting",
        "title": "Personal greeting",
        "description": "A greeting for one person.",
        "mimeType": "text/plain",
    }
    return {"resourceTemplates": [_at(request.revision, template)], **CACHE}


def read_resource(params: Json, _: RequestContext) -> Json:
    """Answer ``resources/read``."""
    uri = params.get("uri")
    if type(uri) is not str:
        raise InvalidParams("params.uri must be a string")
    content = {"uri": uri, "mimeType": "text/plain", "text": _greeting(uri)}
    return {"contents": [content], **CACHE}


def _greeting(uri: str) -> str:
    if uri == GREETING_URI:
        return "Hello from mcpwire."
    base, _, name = uri.partition(f"{GREETING_URI}/")
    if base or not name or any(mark in name for mark in "/?#"):
        raise ResourceNotFound("there is no such resource", data={"uri": uri})
    from urllib.parse import unquote

    return f"Hello, {unquote(name)}."


# Prompts and completion...


def list_prompts(params: Json, request: RequestContext) -> Json:
    """Answer ``prompts/list``."""
    _check_cursor(params)
    prompt = {
        "name": "greet",
        "title": "Greet",
        "description": "Ask for a greeting.",
        "arguments": [
            {"name": "name", "description": "Whom to greet.", "required": True}
        ],
    }
    return {"prompts": [_at(request.revision, prompt)], **CACHE}


def get_prompt(params: Json, _: RequestContext) -> Json:
    """Answer ``prompts/get``."""
    if params.get("name") != "greet":
        raise InvalidParams(f"there is no prompt {_shown(params.get('name'))}")
    arguments = params.get("arguments")
    name = arguments.get("name") if type(arguments) is dict else None
    if type(name) is not str:
        raise InvalidParams("the prompt 'greet' needs the argument 'name', a string")
    text = f"Write one short and friendly sentence that greets {name}."
    message = {"role": "user", "content": _text(text)[0]}
    return {"description": "Ask for a greeting.", "messages": [message]}


def complete(params: Json, _: RequestContext) -> Json:
    """Answer ``completion/complete``."""
    ref, argument = params.get("ref"), params.get("argument")
    if type(ref) is not dict or type(argument) is not dict:
        raise InvalidParams("params.ref and params.argument must be objects")
    known = [all(ref.get(k) == v for k, v in one.items()) for one in COMPLETED]
    if not any(known) or argument.get("name") != "name":
        raise InvalidParams("there is nothing to complete by that ref and argument")
    value = argument.get("value")
    if type(value) is not str:
        raise InvalidParams("params.argument.value must be a string")
    start = value.casefold()
    values = [name for name in NAMES if name.casefold().startswith(start)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


def _shown(name: object) -> str:
    return repr(name[:100]) if isinstance(name, str) else "without a name"


def demo_dispatcher(*, auth: ResourceServer | None = None) -> Dispatcher:
    """Return the server; ``mcpwire.Client(demo_dispatcher())`` talks to it."""
    return Dispatcher(
        Implementation("mcpwire-demo", __version__),
        capabilities=CAPABILITIES,
        instructions=INSTRUCTIONS,
        auth=auth,
        methods={
            "tools/list": list_tools,
            "tools/call": call_tool,
            "resources/list": list_resources,
            "resources/templates/list": list_templates,
            "resources/read": read_resource,
            "prompts/list": list_prompts,
            "prompts/get": get_prompt,
            "completion/complete": complete,
        },
    )


def main() -> int:
    """Serve on stdin and stdout until the input ends; return the exit code."""
    from mcpwire.server.stdio import run_stdio

    return run_stdio(demo_dispatcher())


if __name__ == "__main__":
    raise SystemExit(main())
