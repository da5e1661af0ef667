"""Requests of the server to the client in the session revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, Family, Start, since
from mcpwire.check.clients.cases._asking import (
    DECLARED,
    FORM,
    ROOTS,
    ask_client,
    ask_in_two_forms,
    code,
    complete_requests,
    elicit,
    sample,
)
from mcpwire.check.clients.cases._canary import Canary
from mcpwire.check.clients.cases._forms import (
    before_first_answer,
    observed_case,
    undisturbed_case,
)
from mcpwire.check.schemas import load_validators
from mcpwire.check.subject import printable

if TYPE_CHECKING:
    from mcpwire.check.clients.cases._asking import Request
    from mcpwire.check.clients.subject import ClientSubject, Exchange

FAMILY: Final = Family("asking", defaults={"role": "client"})

case = FAMILY.with_defaults(revisions=LEGACY, start=Start.OWN)

_TASKS: Final = ("2025-11-25",)  # and the modes of elicitation, and tools in sampling


# --- declared and undeclared capabilities ---------------------------------------------


@case.robust(
    "C-S28.a",
    "requests of undeclared capabilities are refused",
    sends="a request of each capability that the client does not declare",
    expects="an error for each, or an elicitation that is not accepted",
    why="a server reaches the user or the model without permission, or waits forever",
)
async def undeclared_refused(client: ClientSubject) -> None:
    undeclared = [r for n, r in DECLARED.items() if not client.facts.declares(n)]
    if not undeclared:
        client.raise_absent("undeclared capability")
    for response in await ask_client(client, *undeclared):
        result = response.value.get("result")
        action = result.get("action") if isinstance(result, dict) else None
        if code(response) is None and action not in {"cancel", "decline"}:
            client.raise_broken("an error", response.raw)


@case.robust(
    "C-E40.a",
    "requests of the server with all optional members are answered",
    sends="a request of each capability that the client declares: without, with, and "
    "again without all optional members and types of fields of the revision",
    expects="the same kind of response",
    why="servers that use a feature of the revision fail with the client",
)
async def optional_members(client: ClientSubject) -> None:
    complete = complete_requests(client.revision.name)
    declared = [need for need in DECLARED if client.facts.declares(need)]
    if not declared:
        client.raise_absent("declared capability")
    usual, other = ([each[k] for k in declared] for each in (DECLARED, complete))
    for response in await ask_in_two_forms(client, usual, other):
        if code(response) is not None:
            client.raise_broken("a result, as without optional members", response.raw)


@case.should(
    "C-ROOT-05.a",
    "a client without roots answers `roots/list` with -32601",
    source="client/roots#error-handling",
    sends="`roots/list` to a client that does not declare it",
    expects="the error -32601",
    why="servers cannot tell a client without roots from one that has failed",
)
async def roots_undeclared(client: ClientSubject) -> None:
    if client.facts.declares("roots"):
        client.raise_absent("undeclared capability roots")
    (response,) = await ask_client(client, ROOTS)
    if code(response) != -32601:
        client.raise_broken("the error -32601", response.raw)


@observed_case(
    case.must,
    "C-ROOT-01.a",
    "a client that reports changes of its roots declares roots.listChanged",
    source="client/roots#capabilities",
    needs=("sends:notifications/roots/list_changed",),
    expects="roots.listChanged in its capabilities",
    why="servers read the roots once, and never again",
)
def _undeclared_list_change(client: ClientSubject) -> object:
    if client.facts.declares("roots.listChanged"):
        return None
    return client.sent("notifications/roots/list_changed")[0].raw


@case.must(
    "C-ROOT-04.a",
    "the URI of each root begins with file://",
    source="client/roots#root",
    needs=("roots",),
    sends="`roots/list`",
    expects="roots with file:// URIs",
    why="servers treat the URI as a path of their file system",
)
async def roots_are_files(client: ClientSubject) -> None:
    (response,) = await ask_client(client, ROOTS)
    result = response.value.get("result")
    roots = result.get("roots") if isinstance(result, dict) else None
    if not isinstance(roots, list) or not roots:
        client.raise_absent("root")
    for root in roots:
        uri = root.get("uri") if isinstance(root, dict) else None
        if not str(uri).startswith("file://"):
            client.raise_broken("roots with file:// URIs", response.raw)


# --- sampling -------------------------------------------------------------------------

_TOOL: Final = {"name": "lookup", "inputSchema": {"type": "object"}}


@case.must(
    "C-SAMP-03.a",
    "a client without sampling.tools refuses tools in a sampling request",
    source="schema#CreateMessageRequestParams",
    revisions=_TASKS,
    needs=("sampling",),
    sends="sampling requests with tools, and with toolChoice",
    expects="an error for each",
    why="the server waits for a use of its tools that never comes",
)
async def tools_refused(client: ClientSubject) -> None:
    if client.facts.declares("sampling.tools"):
        client.raise_absent("undeclared capability sampling.tools")
    requests = sample(tools=[_TOOL]), sample(toolChoice={"mode": "auto"})
    for response in await ask_client(client, *requests):
        if code(response) is None:
            client.raise_broken("an error", response.raw)


def _turn(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


_TEXT: Final = {"type": "text", "text": "hello"}
_USE: Final = {"type": "tool_use", "id": "1", "name": "lookup", "input": {}}
_USED: Final = {"type": "tool_result", "toolUseId": "1", "content": [_TEXT]}


@case.should(
    "C-SAMP-07.a",
    "missing and mixed tool results are refused with -32602",
    source="client/sampling#error-handling",
    rules=("SAMP-05", "SAMP-06"),
    revisions=_TASKS,
    needs=("sampling.tools",),
    sends="messages with a tool use without its result, and with a result beside text",
    expects="the error -32602 for each",
    why="the model's service refuses the messages, with an error that explains nothing",
)
async def unbalanced_tools(client: ClientSubject) -> None:
    start = _turn("user", _TEXT), _turn("assistant", _USE)
    for response in await ask_client(
        client,
        sample(tools=[_TOOL], messages=[*start, _turn("user", _TEXT)]),
        sample(tools=[_TOOL], messages=[*start, _turn("user", _USED, _TEXT)]),
    ):
        if code(response) != -32602:
            client.raise_broken("the error -32602", response.raw)


@case.must(
    "C-T11-04.a",
    "a client without tasks ignores the member `task` of a request",
    source="basic/utilities/tasks#task-support-and-handling",
    revisions=_TASKS,
    needs=("sampling",),
    sends="a sampling request without, with, and again without `task`",
    expects="the same kind of response",
    why="the server waits for a task that does not exist",
)
async def task_ignored(client: ClientSubject) -> None:
    if client.facts.declares("tasks.requests.sampling.createMessage"):
        client.raise_absent("undeclared capability tasks")
    with_task = sample(task={"ttl": 1000})
    (response,) = await ask_in_two_forms(client, [sample()], [with_task])
    result = response.value.get("result")
    if not isinstance(result, dict) or "role" not in result:
        client.raise_broken("a message of the model, as without `task`", response.raw)


# --- elicitation ----------------------------------------------------------------------


def _by_url(url: str) -> Request:
    page = {"elicitationId": "e-1", "url": url}
    message = {"mode": "url", "message": "Please open the page."}
    return "elicitation/create", {**message, **page}


@case.must(
    "C-ELIC-25.a",
    "an elicitation in an undeclared mode is refused with -32602",
    source="client/elicitation#error-handling",
    revisions=_TASKS,
    needs=("elicitation",),
    sends="an elicitation in a mode that the client does not declare",
    expects="the error -32602",
    why="the server waits for a user who never sees the question",
)
async def undeclared_mode(client: ClientSubject) -> None:
    url = _by_url("https://check.example/form")
    modes = {"form": elicit(mode="form"), "url": url}
    requests = [
        request
        for mode, request in modes.items()
        if not client.facts.declares(f"elicitation.{mode}")
    ]
    if not requests:
        client.raise_absent("undeclared mode")
    for response in await ask_client(client, *requests):
        if code(response) != -32602:
            client.raise_broken("the error -32602", response.raw)


@case.must(
    "C-ELIC-04.a",
    "an elicitation without a mode is one by form",
    source="client/elicitation#elicitation-requests",
    revisions=_TASKS,
    needs=("elicitation.form",),
    sends="an elicitation with the mode form, one without a mode, and the first again",
    expects="the same kind of response",
    why="servers of earlier revisions send no mode",
)
async def mode_missing(client: ClientSubject) -> None:
    form = elicit(mode="form")
    (response,) = await ask_in_two_forms(client, [form], [elicit()])
    if code(response) is not None:
        client.raise_broken("a result, as with the mode form", response.raw)


def _accepted(response: Any) -> dict[str, Any] | None:
    result = response.value.get("result")
    if not isinstance(result, dict) or result.get("action") != "accept":
        return None
    content = result.get("content")
    return content if isinstance(content, dict) else {}


@case.should(
    "C-ELIC-20.a",
    "the content of an accepted form is valid",
    source="client/elicitation#security-considerations",
    rules=("ELIC-08",),
    revisions=since("2025-06-18", LEGACY[-1]),
    needs=("elicitation.form",),
    sends="an elicitation with bounds, formats and an enumeration, and one with a "
    "required field",
    expects="content that is valid by the form, or no accepted form",
    why="the tool works with values that it excluded",
)
async def form_is_valid(client: ClientSubject) -> None:
    forms = [FORM, {**FORM, "required": ["name"]}]
    accepted = False
    for form, response in zip(
        forms, await ask_client(client, *map(elicit, forms)), strict=True
    ):
        content = _accepted(response)
        if content is not None:
            accepted = True
            schemas = load_validators()
            validator = schemas.Draft202012Validator(form, validate_formats=True)
            for error in validator.iter_errors(content):
                actual = f"{error.message}; {printable(response.raw)}"
                client.raise_broken("content that is valid by the form", actual)
    if not accepted:
        client.raise_absent("accepted form")


@case.should(
    "C-ELIC-06.a",
    "a client that fills in defaults fills in all of them",
    source="client/elicitation#requested-schema",
    revisions=_TASKS,
    needs=("elicitation.form",),
    sends="an elicitation with a default in each type of field",
    expects="values for all fields or for none, or no accepted form",
    why="the tool works without the values that it has proposed",
)
async def defaults_are_filled(client: ClientSubject) -> None:
    fields = {
        "text": {"type": "string", "default": "hello"},
        "count": {"type": "integer", "default": 0},
        "ratio": {"type": "number", "default": 0.5},
        "agree": {"type": "boolean", "default": False},
        "colour": {"type": "string", "enum": ["red", "green"], "default": "green"},
    }
    form = {"type": "object", "properties": fields}
    (response,) = await ask_client(client, elicit(form))
    content = _accepted(response) or {}
    if not fields.keys() & content.keys():
        client.raise_absent("accepted form with defaults")
    if missing := sorted(fields.keys() - content.keys()):
        client.raise_broken(f"a value of {', '.join(missing)}", response.raw)


@case.must(
    "C-ELIC-12.a",
    "the URL of an elicitation is not requested without the user's consent",
    source="client/elicitation#safe-url-handling",
    revisions=_TASKS,
    needs=("elicitation.url",),
    sends="an elicitation with the URL of an HTTP server",
    expects="no request to that server, unless the elicitation is accepted",
    why="a server learns about the user, and sends requests into the user's network",
)
async def url_not_requested(client: ClientSubject) -> None:
    async with Canary() as canary:
        (response,) = await ask_client(client, _by_url(f"{canary.origin}/form"))
    if canary.requests:
        if _accepted(response) is not None:
            client.raise_absent("elicitation without consent")
        client.raise_broken("no request to that server", canary.requests[0])


@undisturbed_case(
    case.must,
    "C-ELIC-23.a",
    "the end of an unknown elicitation is ignored",
    source="client/elicitation#completion-notifications-for-url-mode-elicitation",
    revisions=_TASKS,
    needs=("elicitation.url",),
    sends="`notifications/elicitation/complete` with an unknown id",
    why="the notification may be late, or belong to an earlier session",
)
@before_first_answer
async def _complete_unknown(exchange: Exchange) -> None:
    method = "notifications/elicitation/complete"
    await exchange.notify(method, {"elicitationId": "mcpwire-unknown"})
