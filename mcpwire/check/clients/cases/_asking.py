"""Requests of the server to the client, in the session revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.check.case import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.check.clients.subject import ClientSubject, Exchange
    from mcpwire.check.subject import Message

Request: TypeAlias = "tuple[str, dict[str, Any] | None]"
"""Method and params of a request."""

ROOTS: Final[Request] = ("roots/list", None)
FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 40},
        "email": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "score": {"type": "number", "minimum": 0.5, "maximum": 1.5},
        "colour": {"type": "string", "enum": ["red", "green"]},
        "agree": {"type": "boolean", "default": True},
    },
}
"""A form that is valid in each revision; no field is required."""


def sample(**params: Any) -> Request:
    """Return a sampling request."""
    message = {"role": "user", "content": {"type": "text", "text": "Say hello."}}
    return "sampling/createMessage", {"messages": [message], "maxTokens": 100, **params}


def elicit(form: dict[str, Any] = FORM, **params: Any) -> Request:
    """Return an elicitation by form."""
    asked = {"message": "Please answer.", "requestedSchema": form, **params}
    return "elicitation/create", asked


DECLARED: Final[dict[str, Request]] = {
    "roots": ROOTS,
    "sampling": sample(),
    "elicitation.form": elicit(),
}
"""Capability -> a request that it permits."""


_FIELDS: Final[dict[str, Any]] = {
    "page": {"type": "string", "format": "uri", "title": "A title"},
    "day": {"type": "string", "format": "date", "description": "A description."},
    "time": {"type": "string", "format": "date-time"},
    "named": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
}
_RED: Final = {"const": "r", "title": "Red"}
_NEWER_FIELDS: Final[dict[str, Any]] = {
    "titled": {"type": "string", "oneOf": [_RED], "default": "r"},
    "some": {
        "type": "array",
        "items": {"type": "string", "enum": ["a", "b"]},
        "minItems": 0,
        "maxItems": 2,
        "default": ["a"],
    },
    "titled_some": {"type": "array", "items": {"anyOf": [_RED]}},
}


def complete_requests(revision: str) -> dict[str, Request]:
    """Return the requests of `DECLARED` with all optional members of a revision."""
    newer = _NEWER_FIELDS if revision >= "2025-11-25" else {}
    return {
        "roots": ("roots/list", {"_meta": {"check.example/a": 1}}),
        "sampling": sample(
            systemPrompt="Be brief.",
            modelPreferences={
                "hints": [{"name": "none"}, {}],
                "costPriority": 0,
                "speedPriority": 1,
                "intelligencePriority": 0.5,
            },
            temperature=0.5,
            stopSequences=["stop"],
            metadata={"a": {"b": [1, None]}},
            includeContext="none",
        ),
        "elicitation.form": elicit({**FORM, "properties": {**_FIELDS, **newer}}),
    }


_USER: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
"""Method that may wait for the client's user -> the capability that permits it."""


async def ask_client(client: ClientSubject, *requests: Request) -> list[Message]:
    """Run the client, send it requests before its first answer; return the responses.

    Raises:
        NoAnswer: The client did not answer a request and is not waiting for its user.
        Absent: It sends no request after the handshake, or waits for its user.
        Broken: It ended before its response.
    """
    asked: list[str] = []
    responses: list[Message] = []

    async def ask(exchange: Exchange) -> None:
        await exchange.need_ping()
        for method, params in requests:
            asked.append(method)
            try:
                responses.append(await exchange.ask(method, params))
            except NoAnswer:
                if not client.facts.declares(_USER.get(method, method)):
                    raise
                await exchange.need_ping()
                client.raise_absent(f"answer to {method} without its user")
        await exchange.correct()

    client.first = ask
    ending = await client.run()
    if not asked:
        client.raise_absent("request after the handshake")
    if len(responses) < len(requests):
        client.raise_broken(f"a response to {asked[-1]}", ending)
    return responses


async def ask_in_two_forms(
    client: ClientSubject, usual: Sequence[Request], other: Sequence[Request]
) -> list[Message]:
    """Return the responses to the other forms of requests with a usual result.

    The usual form is sent before and after the other one: a client, or its user, may
    refuse a further request of any form.

    Raises:
        Absent: No request has a result in its usual form.
    """
    responses = await ask_client(client, *usual, *other, *usual)
    size = len(usual)
    before, between, after = (responses[i * size : (i + 1) * size] for i in range(3))
    found = [
        response
        for first, response, last in zip(before, between, after, strict=True)
        if code(first) is None and code(last) is None
    ]
    return found or client.raise_absent(f"result of {usual[0][0]}, again and again")


def code(response: Message) -> Any:
    """Return the code of an error; ``None``: a result, or an error without a code."""
    error = response.value.get("error")
    return error.get("code") if isinstance(error, dict) else None
