"""Tools of the demo server that ask the client something before they answer.

A form for its user, a page for them to visit, an answer of its model. In a session the
question is a request of the server; from 2026-07-28 on the call is answered with the
question and made again with its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import attrs

from mcpwire.errors import RPCError, ToolError
from mcpwire.protocol.methods import capability_declared
from mcpwire.server.authoring.signature import check_arguments
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.server.request import RequestContext
    from mcpwire.versions import Revision

__all__ = ["QUESTIONS", "call", "offered"]

Json: TypeAlias = dict[str, Any]

_NOV_2024, _, _JUN_2025, _NOV_2025, _ = REVISIONS

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
