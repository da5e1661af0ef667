"""Forms that many cases for clients have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwire.check.case import CaseFunction
    from mcpwire.check.clients.subject import ClientSubject, Exchange

    AddCase = Callable[..., Callable[[CaseFunction], CaseFunction]]

OPERATIONS: Final = (
    *("tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list"),
    *("resources/templates/list", "resources/read", "completion/complete"),
)
"""Methods of requests that a server answers with a result of its own kind."""
MAX_REPEATS: Final = 50
"""Number of repeats of one request that counts as endless."""


def add_undisturbed_case(
    add: AddCase,
    id: str,
    title: str,
    *,
    change: Callable[[ClientSubject], object],
    **attributes: Any,
) -> None:
    """Add a case whose server is unusual, but must not disturb the client.

    Args:
        add: `Family.must`, `Family.should` or `Family.robust`.
        id: The id of the case.
        title: The rule in one sentence.
        change: Changes the server before the client runs.
        attributes: Further attributes of the case.
    """
    expects = "the client sends and ends as with a correct server"

    async def run(client: ClientSubject) -> None:
        change(client)
        await client.run_undisturbed(expects)

    add(id, title, start=Start.OWN, expects=expects, **attributes)(run)


def add_observed_case(
    add: AddCase,
    id: str,
    title: str,
    *,
    expects: str,
    find_problem: Callable[[ClientSubject], object],
    **attributes: Any,
) -> None:
    """Add a case that looks at what the client sent to a correct server.

    Args:
        add: `Family.must`, `Family.should` or `Family.robust`.
        id: The id of the case.
        title: The rule in one sentence.
        expects: The expected behaviour.
        find_problem: Returns the first message, octets or text that break the rule, or
            ``None``; it raises `Absent` if nothing can be observed.
        attributes: Further attributes of the case.
    """

    async def run(client: ClientSubject) -> None:
        problem = find_problem(client)
        if problem is not None:
            client.raise_broken(expects, problem)

    sends = attributes.pop("sends", "the answers of a correct server")
    add(id, title, start=Start.SHARED, sends=sends, expects=expects, **attributes)(run)


async def answer_for_ever(
    client: ClientSubject, methods: Sequence[str], answer: Callable[[Exchange], Any]
) -> int:
    """Answer requests always in one way; return their number.

    Raises:
        Broken: The client sent more than `MAX_REPEATS` above the usual number.
    """
    usual = sum(
        n for key, n in client.facts.sent.items() if key.split(" ")[0] in methods
    )
    count = 0

    async def handle(exchange: Exchange) -> None:
        nonlocal count
        count += 1
        if count > usual + MAX_REPEATS:
            client.raise_broken(
                f"fewer than {MAX_REPEATS} repeats", f"{count} requests"
            )
        await answer(exchange)

    client.answers |= dict.fromkeys(methods, handle)
    await client.run()
    return count
