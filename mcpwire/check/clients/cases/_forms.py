"""Forms that many cases for clients have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.check.case import Start

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.check.case import CaseFunction
    from mcpwire.check.clients.subject import ClientSubject

    AddCase = Callable[..., Callable[[CaseFunction], CaseFunction]]


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
