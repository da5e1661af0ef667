"""Forms that many cases for clients have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Start
from mcpwire.check.clients.items import correct_result
from mcpwire.check.clients.subject import HANDSHAKE, SETTING_UP, UNDISTURBED
from mcpwire.errors import RPCError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.check.case import CaseFunction
    from mcpwire.check.clients.subject import ClientSubject, Exchange, Handler
    from mcpwire.check.subject import Message

    AddCase = Callable[..., Callable[[CaseFunction], CaseFunction]]
    Change = Callable[[ClientSubject], object]

OPERATIONS: Final = (
    *("tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list"),
    *("resources/templates/list", "resources/read", "completion/complete"),
)
"""Methods of requests that a server answers with a result of its own kind."""


def undisturbed_case(
    add: AddCase, id: str, title: str, **attributes: Any
) -> Callable[[Change], Change]:
    """Return a decorator: a case with an unusual server that must not disturb a client.

    The function changes the server before the client runs. Arguments: `observed_case`.
    """

    def decorate(change: Change) -> Change:
        async def run(client: ClientSubject) -> None:
            change(client)
            await client.run_undisturbed()

        add(id, title, start=Start.OWN, expects=UNDISTURBED, **attributes)(run)
        return change

    return decorate


def observed_case(
    add: AddCase, id: str, title: str, *, expects: str, **attributes: Any
) -> Callable[[Change], Change]:
    """Return a decorator: a case that looks at what a client sent to a correct server.

    The function returns the first message, octets or text that break the rule, or
    ``None``; it raises `Absent` if nothing can be observed.

    Args:
        add: `Family.must`, `Family.should` or `Family.robust`.
        id: The id of the case.
        title: The rule in one sentence.
        expects: The expected behaviour.
        attributes: Further attributes of the case.
    """

    def decorate(find_problem: Change) -> Change:
        async def run(client: ClientSubject) -> None:
            if (problem := find_problem(client)) is not None:
                client.raise_broken(expects, problem)

        usual = {"start": Start.SHARED, "sends": "the answers of a correct server"}
        add(id, title, expects=expects, **{**usual, **attributes})(run)
        return find_problem

    return decorate


def of_messages(is_broken: Callable[[Message], object]) -> Change:
    """Return a function that finds the first message of a client that breaks a rule."""
    return lambda client: next((m.raw for m in client.messages if is_broken(m)), None)


def answering(method: str) -> Callable[[Handler], Change]:
    """Return a decorator: a handler of requests becomes a change of the server."""
    return lambda handler: lambda client: client.answers.update({method: handler})


def before_first_answer(
    work: Callable[[Exchange], Awaitable[object]],
) -> Callable[[ClientSubject], None]:
    """Return a change of the server: it does `work` before its first answer.

    That is the answer to the first request after the handshake. The change raises
    `Absent` if the client sends no request there.
    """

    def change(client: ClientSubject) -> None:
        need_operation(client)

        async def handle(exchange: Exchange) -> None:
            await work(exchange)
            await exchange.correct()

        client.first = handle

    return change


def handle_requests(client: ClientSubject, handler: Handler) -> None:
    """Let a handler answer all requests after the handshake.

    Raises:
        Absent: The client sends no request there.
    """
    need_operation(client)
    methods = {key.partition(" ")[0] for key in client.facts.sent} - HANDSHAKE
    client.answers |= dict.fromkeys(methods, handler)


def answer_with(
    write: Callable[[Exchange, dict[str, Any]], Awaitable[object]],
    *,
    is_handshake: bool = True,
) -> Callable[[ClientSubject], None]:
    """Return a change of the server: `write` sends the message of each result."""

    async def answer(exchange: Exchange) -> None:
        client, method = exchange.client, exchange.message.method or ""
        try:
            result = correct_result(client, method, exchange.params)
        except RPCError:
            result = None
        if result is None or method == "subscriptions/listen":
            await exchange.correct()
        else:
            await write(
                exchange, {"jsonrpc": "2.0", "id": exchange.id, "result": result}
            )

    def change(client: ClientSubject) -> None:
        handle_requests(client, answer)
        if is_handshake:
            client.answers |= dict.fromkeys(HANDSHAKE, answer)

    return change


def need_operation(client: ClientSubject) -> None:
    """Raise `Absent` if the client sends no request after the handshake."""
    methods = {key.partition(" ")[0] for key in client.facts.sent} - SETTING_UP
    if all(method.startswith("notifications/") for method in methods):
        client.raise_absent("request after the handshake")


def need_ending(client: ClientSubject) -> None:
    """Raise `Absent` if the client does not end by itself with a correct server."""
    ending = client.facts.ending or client.ending
    if ending is None or ending.code is None:
        client.raise_absent("end of the client by itself")
