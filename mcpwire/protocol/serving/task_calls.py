"""Which calls run as tasks: what the tool allows against what the client asked for.

In 2025-11-25 the client asks for a task with each call. In the extension of 2026-07-28
it only says that it understands them, and the server decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError, MethodNotFound, MissingCapability
from mcpwire.protocol.methods import TASKS, available, declared_extensions
from mcpwire.versions import LATEST_SESSION, Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.versions import Revision

__all__ = [
    "FORBIDDEN",
    "OPTIONAL",
    "REQUIRED",
    "becomes_task",
    "check_declared",
    "check_question",
]

FORBIDDEN: Final = "forbidden"
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"


def becomes_task(
    support: str,
    tool: str,
    revision: Revision,
    capabilities: Mapping[str, Any],
    params: Mapping[str, Any],
) -> bool:
    """Tell whether a call runs as a task.

    Args:
        support: What the tool says of tasks: one of the three words above.
        tool: Its name, for the refusal.
        revision: The revision of the call.
        capabilities: What the client declared for the call, or for its session.
        params: The params of the call.

    Raises:
        RPCError: The client did not ask as this tool must be asked.
    """
    if revision.era is Era.STATELESS:
        if support == FORBIDDEN:
            return False
        # SEP-2663, "Capability Negotiation": what counts is this very request. A
        # `task` in the params, or `tasks` among the capabilities, is of another time.
        if TASKS in declared_extensions(capabilities):
            return True
        if support == REQUIRED:
            check_declared(capabilities, f"the tool {tool!r}")
        return False
    # Tasks are in no revision before it, so no client of those can ask for one.
    if revision != LATEST_SESSION:
        return False
    wants = "task" in params
    if wants and support == FORBIDDEN:
        raise MethodNotFound(f"the tool {tool!r} cannot run as a task")
    if not wants and support == REQUIRED:
        raise MethodNotFound(f"the tool {tool!r} runs as a task only")
    return wants


def check_declared(capabilities: Mapping[str, Any], what: str) -> None:
    """Refuse what a request without the extension may not have.

    Raises:
        MissingCapability: The client did not declare the extension on it.
    """
    if TASKS not in declared_extensions(capabilities):
        raise MissingCapability(
            f"{what} needs the extension {TASKS!r}",
            data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


def check_question(method: str, revision: Revision) -> None:
    """Refuse a question that no client of that revision could be asked in a task.

    Raises:
        LocalProtocolError: A server asks no such thing.
    """
    spec = available(method, revision, "server")
    if spec is None or spec.result is None:
        raise LocalProtocolError(f"no task can ask {method!r} at {revision}")
