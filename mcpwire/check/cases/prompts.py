"""Prompts: list, refused requests, messages."""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family, NoAnswer
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
from mcpwire.check.cases._items import (
    CALLS_TIME_LIMIT_S,
    PROMPTS,
    add_list_cases,
    expect_base64,
    media_in,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("prompts")

MAX_PROMPTS: Final = 8  # maximum number per case

declared = FAMILY.with_defaults(needs=("prompts",))
listed = FAMILY.with_defaults(needs=("prompt:",))


def prompt_arguments(prompt: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of a prompt that have a name."""
    arguments = prompt.get("arguments")
    return [
        argument
        for argument in (arguments if isinstance(arguments, list) else ())
        if isinstance(argument, dict) and isinstance(argument.get("name"), str)
    ]


def required_arguments(prompt: Mapping[str, Any]) -> dict[str, str]:
    """Return a plain text for each argument that a prompt requires."""
    arguments = prompt_arguments(prompt)
    return {e["name"]: "mcpwire" for e in arguments if e.get("required") is True}


add_list_cases(FAMILY, PROMPTS, ("PROMPT-01.a", "PROMPT-02.a", "PROMPT-02.b"))


add_exchange_case(
    declared.should,
    "PROMPT-05.a",
    "an unknown prompt is answered with -32602",
    source="server/prompts#error-handling",
    send=Request("prompts/get", {"name": "mcpwire-no-such-prompt"}),
    expect=Error(-32602),
    why="clients cannot tell a missing prompt from a failure",
)


@listed.should(
    "PROMPT-05.b",
    "a prompt without a required argument is answered with -32602",
    source="server/prompts#error-handling",
    sends="prompts/get without a required argument",
    expects="an error -32602",
    why="the model gets an incomplete prompt",
)
async def missing_argument(subject: Subject) -> None:
    for prompt in subject.facts.prompts:
        if required_arguments(prompt):
            params: dict[str, Any] = {"name": prompt.get("name"), "arguments": {}}
            answer = await subject.request("prompts/get", params)
            subject.expect_error(answer, -32602)
            return
    subject.raise_absent("prompt that requires an argument")


add_exchange_case(
    declared.robust,
    "F09.g",
    "prompts/get without a name is refused",
    send=Request("prompts/get", {}),
    expect=Error(-32602, -32600, -32020),
    why="an invalid request looks like a server failure",
)


async def _get_prompts(subject: Subject) -> AsyncIterator[Answer]:
    """Yield results of the first prompts, with a plain text per required argument."""
    began = monotonic()
    for prompt in subject.facts.prompts[:MAX_PROMPTS]:
        if monotonic() - began > CALLS_TIME_LIMIT_S:
            break
        arguments = required_arguments(prompt)
        params: dict[str, Any] = {"name": prompt.get("name")}
        key = f"prompt {prompt.get('name')}"
        if key in subject.facts.slow_items:
            continue
        if arguments:
            params["arguments"] = arguments
        try:
            answer = await subject.request("prompts/get", params)
        except NoAnswer:
            subject.facts.slow_items.add(key)
            continue
        if answer.result is not None:
            yield answer


@listed.robust(
    "F09.h",
    "prompts have messages",
    sends="prompts/get for the first prompts, with a string for each required argument",
    expects="at least one message of at least one prompt",
    why="the model gets an empty prompt",
)
async def prompt_messages(subject: Subject) -> None:
    seen = 0
    async for answer in _get_prompts(subject):
        seen += 1
        messages = (answer.result or {}).get("messages")
        if messages:
            return
    if not seen:
        subject.raise_absent("prompt that accepts any text")
    subject.raise_broken("messages", f"results without messages: {seen}")


@listed.must(
    "PROMPT-04.a",
    "images and audio in prompts are strict Base64 and have a media type",
    source="server/prompts#image-content",
    sends="prompts/get for the first prompts, with a string for each required argument",
    expects="data that decodes, and a mimeType such as image/png",
    why="the image or audio cannot be presented",
)
async def media(subject: Subject) -> None:
    async for answer in _get_prompts(subject):
        for block in media_in((answer.result or {}).get("messages")):
            expect_base64(subject, block.get("data"), answer)
            media_type = str(block.get("mimeType"))
            fits = re.fullmatch(r"[\w.+-]+/[\w.+-]+(;.*)?", media_type)
            subject.expect(fits, "a mimeType such as image/png", answer)
    subject.need_expectation("image or audio")
