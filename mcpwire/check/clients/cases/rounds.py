"""Input rounds, subscriptions and tasks of the stateless revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import MODERN, Family, Start
from mcpwire.check.clients.cases._forms import (
    before_first_answer,
    observed_case,
    undisturbed_case,
)
from mcpwire.check.clients.cases.stateless import mirror_problem, posts
from mcpwire.check.clients.items import CAPABILITIES, correct_result
from mcpwire.check.clients.subject import MAX_REPEATS, call_of
from mcpwire.check.schemas import load_schemas
from mcpwire.check.subject import META, printable
from mcpwire.protocol.methods import declared_extensions, is_capability_declared

if TYPE_CHECKING:
    from mcpwire.check.clients.subject import ClientSubject, Exchange
    from mcpwire.check.subject import Message

FAMILY: Final = Family("rounds", defaults={"role": "client"})

_CLIENT: Final = "basic/patterns/mrtr#client-requirements-basic-workflow"
_METHODS: Final = ("tools/call", "prompts/get", "resources/read")
"""Requests that a server may answer with `input_required`."""
_NO_ROUND: Final = "further round"
_NO_INPUT: Final = "capability elicitation, sampling or roots"

case = FAMILY.with_defaults(revisions=MODERN)


# --- input rounds ---------------------------------------------------------------------


def _input_required(
    state: str | None = None, inputs: dict[str, Any] | None = None
) -> dict[str, Any]:
    result: dict[str, Any] = {"resultType": "input_required"}
    result |= {"inputRequests": inputs} if inputs else {}
    return result | ({} if state is None else {"requestState": state})


_TEXT: Final = {"type": "text", "text": "hi"}
_KINDS: Final = {
    "elicitation.form": {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Which name?",
            "requestedSchema": {
                "type": "object",
                "properties": {"name": {"type": "string", "default": "a name"}},
            },
        },
    },
    "sampling": {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": _TEXT}], "maxTokens": 10},
    },
    "roots": {"method": "roots/list", "params": {}},
}
"""Capability -> request for input."""
_RESULTS: Final = {
    "elicitation/create": "ElicitResult",
    "sampling/createMessage": "CreateMessageResult",
    "roots/list": "ListRootsResult",
}


def _inputs(client: ClientSubject, *, is_declared: bool = True) -> dict[str, Any]:
    """Return requests for all inputs that the client declares, or for all others."""
    declared = client.facts.capabilities
    return {
        f"{kind} é/1": request
        for kind, request in _KINDS.items()
        if is_capability_declared(declared, kind) is is_declared
    }


def _is_retry(message: Message) -> bool:
    return not message.params.keys().isdisjoint({"requestState", "inputResponses"})


async def _run_rounds(
    client: ClientSubject, results: list[dict[str, Any]]
) -> list[Message]:
    """Answer the first call with these results in turn; return the call, and retries.

    Raises:
        Absent: The client did not begin a second round.
        Broken: A retry has the id of an earlier request, or other params.
    """
    rounds: list[Message] = []

    async def answer(exchange: Exchange) -> None:
        message = exchange.message
        method = rounds[0].method if rounds else None
        if rounds and not (_is_retry(message) and message.method == method):
            await exchange.correct()
            return
        rounds.append(message)
        if len(rounds) <= len(results):
            await exchange.answer(results[len(rounds) - 1])
        else:
            await exchange.correct()

    client.answers |= dict.fromkeys(_METHODS, answer)
    await client.run()
    if len(rounds) < 2:
        client.raise_absent(_NO_ROUND)
    ids = [printable(message.value["id"]) for message in rounds]
    if len(set(ids)) < len(ids):
        client.raise_broken("a new id for each round", f"the ids {', '.join(ids)}")
    for message in rounds:
        if call_of(message) != call_of(rounds[0]):
            client.raise_broken(f"again {call_of(rounds[0])}", message.raw)
    return rounds


def _check_states(
    client: ClientSubject, rounds: list[Message], results: list[dict[str, Any]]
) -> None:
    for result, message in zip(results, rounds[1:], strict=False):
        state = result.get("requestState")
        if message.params.get("requestState") != state:
            expected = "no requestState" if state is None else f"requestState {state!r}"
            client.raise_broken(expected[:200], message.raw)
        if state is None and "requestState" in message.params:
            client.raise_broken("no requestState", message.raw)


_STATES: Final = (
    ' {"a": 1.0, "b" : [ 1e2 ]}\n',
    "e\u0301 é 日本 \U0001f600 \u2028 \x01 \x00 \" \\ <>&'",
    "%7B+ é" * 14_000,
)


@case.must(
    "C-MRTR-13.a",
    "`requestState` returns unchanged",
    source=_CLIENT,
    rules=("MRTR-14", "MRTR-16"),
    start=Start.OWN,
    sends="states: JSON text, Unicode and control characters, 100 KB",
    expects="the same requestState, a new id, and the params of the call",
    why="the server cannot verify a changed state, and the call fails",
)
async def request_state(client: ClientSubject) -> None:
    results = [_input_required(state, _inputs(client)) for state in _STATES]
    _check_states(client, await _run_rounds(client, results), results)


@case.must(
    "C-MRTR-16.a",
    "each retry has valid responses to all input requests, and no state of its own",
    source=_CLIENT,
    rules=("MRTR-12", "MRTR-13", "MRTR-14"),
    start=Start.OWN,
    sends="requests for all declared inputs, first with and then without a state",
    expects="all inputResponses; requestState only in the first retry",
    why="the server asks again and again, or the call fails",
)
async def input_responses(client: ClientSubject) -> None:
    first = _inputs(client)
    if not first:
        client.raise_absent(_NO_INPUT)
    second = {f"{key} again": request for key, request in first.items()}
    results = [_input_required("state", first), _input_required(None, second)]
    rounds = await _run_rounds(client, results)
    _check_states(client, rounds, results)
    schema = load_schemas()[client.revision.name]
    for inputs, message in zip((first, second), rounds[1:], strict=False):
        responses = message.params.get("inputResponses")
        responses = responses if isinstance(responses, dict) else {}
        for key, request in inputs.items():
            if key not in responses:
                client.raise_broken(f"a response to the input {key}", message.raw)
            problem = schema.problem(_RESULTS[request["method"]], responses[key])
            if problem is not None:
                client.raise_broken(f"a valid response to {key}", problem)


@case.must(
    "C-MRTR-15.a",
    "the state of a request is used for no other request",
    source=_CLIENT,
    rules=("MRTR-13",),
    start=Start.OWN,
    sends="`input_required` with a state of its own to each call, prompt and resource",
    expects="each state in the retry of its own request only",
    why="the server continues the wrong request",
)
async def separate_states(client: ClientSubject) -> None:
    calls: dict[str, str] = {}
    retries: list[Message] = []

    async def answer(exchange: Exchange) -> None:
        message = exchange.message
        if _is_retry(message):
            retries.append(message)
            await exchange.correct()
            return
        state = f"state {len(calls)}"
        calls[state] = call_of(message)
        await exchange.answer(_input_required(state, _inputs(client)))

    client.answers |= dict.fromkeys(_METHODS, answer)
    await client.run()
    for message in client.messages:
        state = message.params.get("requestState")
        if message.method not in _METHODS and _is_retry(message):
            client.raise_broken("no state in other requests", message.raw)
        if state is not None and calls.get(state) != call_of(message):
            client.raise_broken(f"the state of {call_of(message)}", message.raw)
    states = [printable(message.params.get("requestState")) for message in retries]
    if len(set(states)) < len(states):
        client.raise_broken("each state in one retry", f"{', '.join(states)}")
    if len(retries) < 2:
        client.raise_absent("retries of two requests")


@case.robust(
    "C-MRTR-06.a",
    "a client answers no input that it has not declared",
    start=Start.OWN,
    sends="requests for undeclared inputs, and for one of an unknown method",
    expects="no response to them in a retry",
    why="a server could use the client's model and files without permission",
)
async def undeclared_inputs(client: ClientSubject) -> None:
    unknown = {"method": "mcpwire-check/unknown", "params": {}}
    inputs = {**_inputs(client, is_declared=False), "unknown": unknown}
    await _ask_for_ever(client, inputs)
    for message in client.messages:
        responses = message.params.get("inputResponses")
        if isinstance(responses, dict) and not responses.keys().isdisjoint(inputs):
            client.raise_broken("no response to undeclared inputs", message.raw)
    if not any(map(client.sent, _METHODS)):
        client.raise_absent("request that may need input")


async def _ask_for_ever(
    client: ClientSubject, inputs: dict[str, Any], *, must_end: bool = False
) -> None:
    """Run the client; each request needs these inputs, again and again."""
    result = _input_required("state", inputs)
    client.answers |= dict.fromkeys(_METHODS, lambda e: e.answer(result))
    await client.run(must_end=must_end)


@case.robust(
    "C-MRTR-21.a",
    "a client limits the rounds of a request",
    start=Start.OWN,
    sends="`input_required` to each request, for ever",
    expects=f"at most {MAX_REPEATS} rounds",
    why="a faulty server keeps the client busy for ever",
)
async def endless_rounds(client: ClientSubject) -> None:
    inputs = _inputs(client)
    if not inputs:  # retries with a state alone may be delayed longer and longer
        client.raise_absent(_NO_INPUT)
    await _ask_for_ever(client, inputs, must_end=True)
    if not any(_is_retry(message) for message in client.messages):
        client.raise_absent(_NO_ROUND)


# --- subscriptions and notifications --------------------------------------------------

listens = case.with_defaults(needs=("sends:subscriptions/listen",))


@observed_case(
    listens.must,
    "C-SUB-01.a",
    "`subscriptions/listen` has a valid filter of notifications",
    source="basic/patterns/subscriptions#opening-a-stream",
    expects="params.notifications with known members",
    why="the server sends no notification, or refuses the request",
)
def _invalid_listen(client: ClientSubject) -> object:
    schema = load_schemas()[client.revision.name]
    for message in client.sent("subscriptions/listen"):
        problem = schema.problem("SubscriptionsListenRequestParams", message.params)
        if problem is not None:
            return f"{problem}: {message.raw.decode(errors='replace')}"
    return None


@undisturbed_case(
    case.robust,
    "C-SUB-07.a",
    "notifications of unknown subscriptions are ignored",
    sends="such notifications, and a log message, before the first answer",
    why="notifications of an ended subscription arrive late",
)
@before_first_answer
async def _unrelated_notifications(exchange: Exchange) -> None:
    ids: tuple[Any, ...] = ("unknown", -1, None, {})
    for id in ids:
        meta = {"_meta": {META + "subscriptionId": id}}
        acknowledged = "notifications/subscriptions/acknowledged"
        await exchange.notify(acknowledged, {**meta, "notifications": {}})
        await exchange.notify("notifications/tools/list_changed", meta)
        uri = {"uri": "check://unknown"}
        await exchange.notify("notifications/resources/updated", {**meta, **uri})
    await exchange.notify("notifications/message", {"level": "info", "data": None})


@listens.robust(
    "C-SUB-11.a",
    "a client does not subscribe for ever when its subscriptions end at once",
    start=Start.OWN,
    sends="the end of each subscription after its acknowledgment, by a result",
    expects="the usual requests, and no endless subscriptions",
    why="the client overloads a server that stops",
)
async def ended_subscription(client: ClientSubject) -> None:
    async def end(exchange: Exchange) -> None:
        meta = {"_meta": {META + "subscriptionId": exchange.id}}
        await exchange.correct()
        await exchange.answer({"resultType": "complete", **meta})

    await _run_ended(client, end)


@listens.robust(
    "C-SUB-13.a",
    "a client does not reconnect for ever when its subscriptions are cut off",
    transports=("http",),
    start=Start.OWN,
    sends="a closed connection after the acknowledgment of each subscription",
    expects="the usual requests, and no endless subscriptions",
    why="the client overloads a server that has a fault",
)
async def lost_subscription(client: ClientSubject) -> None:
    async def cut_off(exchange: Exchange) -> None:
        await exchange.correct()
        assert exchange.http is not None
        exchange.http.abort()

    await _run_ended(client, cut_off)


async def _run_ended(client: ClientSubject, end: Any) -> None:
    """Run the client; each subscription ends at once."""
    client.answers["subscriptions/listen"] = end
    await client.run_undisturbed("the usual requests and end")


# --- tasks ----------------------------------------------------------------------------


@case.must(
    "C-RPC-18.b",
    "a client without the tasks extension polls no task",
    source="basic/index#resulttype",
    rules=("TX-02",),
    needs=("sends:tools/call",),
    start=Start.OWN,
    sends="a task as the result of a call",
    expects="no request tasks/get",
    why="the client waits for a result that it cannot get",
)
async def undeclared_task(client: ClientSubject) -> None:
    if TASKS in declared_extensions(client.facts.capabilities):
        client.raise_absent("client without the tasks extension")
    await run_task(client)
    if client.sent("tasks/get"):
        client.raise_broken("no request tasks/get", client.sent("tasks/get")[0].raw)
    if not client.sent("tools/call"):
        client.raise_absent("call of a tool")


TASKS: Final = "io.modelcontextprotocol/tasks"
TASK: Final = {
    "taskId": "task 1 é",
    "createdAt": "2026-07-28T00:00:00Z",
    "lastUpdatedAt": "2026-07-28T00:00:00Z",
    "ttlMs": 60_000,
    "pollIntervalMs": 10,
}


async def run_task(client: ClientSubject) -> None:
    """Run the client; its first call becomes a task that ends after one poll."""
    calls: list[Exchange] = []

    async def call(exchange: Exchange) -> None:
        calls.append(exchange)
        if len(calls) > 1:
            await exchange.correct()
            return
        task = {"resultType": "task", **TASK, "status": "working"}
        await exchange.answer(task)

    async def poll(exchange: Exchange) -> None:
        state: dict[str, Any] = {"status": "working"}
        if len(client.sent("tasks/get")) > 1:
            result = correct_result(client, "tools/call", calls[0].params)
            state = {"status": "completed", "result": result}
        await exchange.answer({"resultType": "complete", **TASK, **state})

    client.capabilities = {**CAPABILITIES, "extensions": {TASKS: {}}}
    client.answers |= {"tools/call": call, "tasks/get": poll}
    await client.run()


async def _run_declared_task(client: ClientSubject) -> None:
    if TASKS not in declared_extensions(client.facts.capabilities):
        client.raise_absent("client with the tasks extension")
    await run_task(client)
    if not client.sent("tools/call"):
        client.raise_absent("call of a tool")


@case.should(
    "C-TX-11.a",
    "a client with the tasks extension polls the task of a call until it ends",
    source="extensions/tasks#task-polling",
    rules=("TX-03",),
    needs=("sends:tools/call",),
    start=Start.OWN,
    sends="a task as the result of a call, completed at the second poll",
    expects="two requests tasks/get with the task's id",
    why="the user never gets the result",
)
async def polled_task(client: ClientSubject) -> None:
    await _run_declared_task(client)
    polls = client.sent("tasks/get")
    for message in polls:
        if message.params.get("taskId") != TASK["taskId"]:
            client.raise_broken(f"the taskId {TASK['taskId']}", message.raw)
    if len(polls) < 2:
        client.raise_broken("two requests tasks/get", f"{len(polls)}; {client.ending}")


@case.must(
    "C-HDR-03.a",
    "Mcp-Name of tasks/get is the id of the task",
    source="extensions/tasks#streamable-http-routing-headers",
    transports=("http",),
    needs=("sends:tools/call",),
    start=Start.OWN,
    sends="a task as the result of a call",
    expects="one Mcp-Name, equal to taskId",
    why="gateways route the request to a server that does not know the task",
)
async def name_of_task(client: ClientSubject) -> None:
    await _run_declared_task(client)
    polls = [p for p in posts(client) if p[1].method == "tasks/get"]
    for request, message in polls:
        problem = mirror_problem(request, "Mcp-Name", message.params.get("taskId"))
        if problem is not None:
            client.raise_broken("Mcp-Name with the task's id", problem)
    if not polls:
        client.raise_absent("request tasks/get")
