"""Completion of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family, since
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
from mcpwire.check.cases.prompts import prompt_arguments
from mcpwire.wire.uri_template import TemplateError, UriTemplate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("completions")

MAX_ARGUMENTS: Final = 8  # maximum number per case
MAX_VALUES: Final = 100

_UNKNOWN_PROMPT: Final = {
    "ref": {"type": "ref/prompt", "name": "mcpwire-no-such-prompt"},
    "argument": {"name": "mcpwire", "value": ""},
}

case = FAMILY.with_defaults(revisions=since("2025-03-26"), needs=("completions",))


def _completable_arguments(subject: Subject) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the reference and the name of each argument that may be completed."""
    for prompt in subject.facts.prompts:
        for argument in prompt_arguments(prompt):
            ref = {"type": "ref/prompt", "name": prompt.get("name")}
            yield ref, argument["name"]
    for template in subject.facts.templates:
        text = str(template.get("uriTemplate"))
        try:
            parts = UriTemplate(text).parts
        except TemplateError:
            continue
        for part in parts:
            if not isinstance(part, str):
                for variable in part.variables:
                    yield {"type": "ref/resource", "uri": text}, variable.name


async def _complete_arguments(
    subject: Subject, **extra: Any
) -> AsyncIterator[tuple[Answer, dict[str, Any]]]:
    """Yield answers and completions of the first arguments, for an empty value."""
    for ref, name in list(_completable_arguments(subject))[:MAX_ARGUMENTS]:
        params = {"ref": ref, "argument": {"name": name, "value": ""}, **extra}
        answer = await subject.request("completion/complete", params)
        completion = (answer.result or {}).get("completion")
        if isinstance(completion, dict):
            yield answer, completion


@FAMILY.must(
    "COMP-01.a",
    "a server with completions declares the capability",
    source="server/utilities/completion#capabilities",
    revisions=since("2025-03-26"),
    sends="completion/complete, where the capability completions is not declared",
    expects="an error, or no values",
    why="clients do not request what a server does not declare",
)
async def completions_are_declared(subject: Subject) -> None:
    if subject.facts.declares("completions"):
        async for _ in _complete_arguments(subject):
            return
        subject.raise_absent("argument with completions")
    async for answer, completion in _complete_arguments(subject):
        values = completion.get("values")
        subject.expect(not values, "no values without the capability", answer)


@FAMILY.should(
    "COMP-03.a",
    "a server without completions answers with -32601",
    source="server/utilities/completion#error-handling",
    revisions=since("2025-03-26"),
    sends="completion/complete, where the capability completions is not declared",
    expects="an error -32601",
    why="clients probe for the feature by this code",
)
async def not_supported(subject: Subject) -> None:
    if subject.facts.declares("completions"):
        subject.raise_absent("need for the rule: the server declares completions")
    answer = await subject.request("completion/complete", _UNKNOWN_PROMPT)
    subject.expect_error(answer, -32601)


add_exchange_case(
    case.should,
    "COMP-03.b",
    "completion for an unknown prompt is answered with -32602",
    source="server/utilities/completion#error-handling",
    send=Request("completion/complete", _UNKNOWN_PROMPT),
    expect=Error(-32602),
    why="a missing prompt looks like one without completions",
)

add_exchange_case(
    case.robust,
    "F08.a",
    "completion for an unknown template is refused",
    send=Request(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "mcpwire-check://no-such/{name}"},
            "argument": {"name": "name", "value": ""},
        },
    ),
    expect=Error(-32602, -32002),
    why="a missing template looks like one without completions",
)

add_exchange_case(
    case.robust,
    "F08.b",
    "completion for an invalid reference is refused",
    send=(
        Request("completion/complete", {"argument": {"name": "a", "value": ""}}),
        Request(
            "completion/complete",
            {"ref": {"type": "ref/none"}, "argument": {"name": "a", "value": ""}},
        ),
    ),
    expect=Error(-32602, -32600),
    why="an invalid request looks like a server failure",
)


@case.must(
    "COMP-02.a",
    "a completion has at most 100 values",
    source="server/utilities/completion#completion-results",
    sends="completion/complete for the first arguments, with an empty value",
    expects="at most 100 values each",
    why="clients truncate the list, or reject it",
)
async def value_limit(subject: Subject) -> None:
    async for answer, completion in _complete_arguments(subject):
        values = completion.get("values")
        fits = isinstance(values, list) and len(values) <= MAX_VALUES
        subject.expect(fits, "at most 100 values", answer)
    subject.need_expectation("argument with completions")


@case.robust(
    "F08.c",
    "total and hasMore of a completion are consistent with its values",
    rules=("COMP-02",),
    sends="completion/complete for the first arguments, with an empty value",
    expects="a total of no less than the number of values, and a hasMore that is "
    "consistent with both",
    why="clients show a wrong count, or do not offer the rest",
)
async def total_fits(subject: Subject) -> None:
    async for answer, completion in _complete_arguments(subject):
        total, values = completion.get("total"), completion.get("values")
        if not isinstance(total, int) or not isinstance(values, list):
            continue
        subject.expect(total >= len(values), "a total that counts all values", answer)
        contradicts = completion.get("hasMore") is (total == len(values))
        subject.expect(not contradicts, "total and hasMore that agree", answer)
    subject.need_expectation("completion with a total")


@case.robust(
    "F08.d",
    "a completion request may have the other arguments as context",
    rules=("COMP-05",),
    revisions=since("2025-06-18"),
    sends="completion/complete with context.arguments",
    expects="a completion, as without context.arguments",
    why="completion requests of newer clients fail",
)
async def with_context(subject: Subject) -> None:
    async for _ in _complete_arguments(subject):
        break
    else:
        subject.raise_absent("argument with completions")
    context = {"arguments": {"mcpwire": "check"}}
    async for _ in _complete_arguments(subject, context=context):
        return
    subject.raise_broken("a completion", "none with context.arguments")


@case.robust(
    "F08.e",
    "an unknown argument has no completions",
    sends="completion/complete for an unknown argument",
    expects="an error -32602, or no values",
    why="clients offer values of another argument",
)
async def no_such_argument(subject: Subject) -> None:
    for ref, _ in _completable_arguments(subject):
        params = {"ref": ref, "argument": {"name": "mcpwire-none", "value": ""}}
        answer = await subject.request("completion/complete", params)
        completion = (answer.result or {}).get("completion")
        values = completion.get("values") if isinstance(completion, dict) else None
        fits = answer.code == -32602 or values == []
        subject.expect(fits, "an error -32602, or no values", answer)
        return
    subject.raise_absent("argument that may be completed")
