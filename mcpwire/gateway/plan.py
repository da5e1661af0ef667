"""Which servers stand behind the gateway for who asks: a plan, and who makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.group.member import HANDLERS, Member
from mcpwire.protocol.many.policy.rules import ServerRules
from mcpwire.transports.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from mcpwire.server.request import Facts

__all__ = ["Plan", "Planned", "Source", "Static"]

_NOT_HERE: Final = frozenset({*HANDLERS, "client_info", "extensions"})
"""Options of a member without a meaning here: the client behind says all that."""

NO_RULES: Final = ServerRules()


@attrs.frozen(kw_only=True, eq=False)
class Planned:
    """One server that is to be connected to."""

    name: str
    """What we call it."""

    target: Any = attrs.field(repr=False)
    """What a `Client` takes."""

    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """Options for its client, such as ``timeout``; omitted: the gateway's."""

    rules: ServerRules = NO_RULES
    """What of its tools is offered, beside the gateway's rules for all."""

    is_bare: bool = False
    """Whether the names of its tools and prompts stay as they are."""

    key: Hashable = None
    """What makes two of them the same server, beside the name."""


@attrs.frozen(kw_only=True, eq=False)
class Plan:
    """The servers of one session, or of requests that stand alone, in their order."""

    servers: tuple[Planned, ...] = ()

    key: Hashable = None
    """Equal where two plans are the same: what stands alone shares its connections."""

    def __attrs_post_init__(self) -> None:
        """Refuse two servers of one name."""
        names = [each.name for each in self.servers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two servers are named {name!r}")

    def only(self, name: str) -> Plan:
        """Return the plan of one server of these, with its names as they are."""
        return Plan(
            servers=tuple(
                attrs.evolve(each, is_bare=True)
                for each in self.servers
                if each.name == name
            ),
            key=(self.key, name),
        )

    def beside(self, others: Iterable[Planned]) -> Plan:
        """Return the plan with more servers after these."""
        more = tuple(others)
        return Plan(servers=(*self.servers, *more), key=self.key) if more else self


class Source(Protocol):
    """Says which servers there are for who asks."""

    def plan(self, facts: Facts, params: Mapping[str, Any] | None) -> Plan:
        """Return the plan for a session, or for a request that stands alone.

        Called with each request that stands alone, and once for a session: it must
        not block.

        Args:
            facts: What the transport knows of the request.
            params: Those of ``initialize``; ``None`` for what stands alone.

        Raises:
            RPCError: This is the answer.
        """


class Static:
    """The same servers for everybody.

    Args:
        servers: Targets by name, as `mcpwire.Group` takes them: what a `Client` takes,
            or a `mcpwire.group.Member` with options of its own.

    Raises:
        ValueError: A target is nothing that a client can connect to; names it.
    """

    def __init__(self, servers: Mapping[str, Any]) -> None:
        self._generation = 0
        self._plan = Plan()
        self.replace(servers)

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"Static({', '.join(each.name for each in self._plan.servers)})"

    def replace(self, servers: Mapping[str, Any]) -> None:
        """Have other servers from now on; sessions that are open keep theirs.

        Raises:
            ValueError: As for the constructor; nothing has changed then.
        """
        planned = tuple(
            _planned(name, member)
            for name, each in servers.items()
            if (member := Member.of(each)).enabled
        )
        self._generation += 1
        self._plan = Plan(servers=planned, key=("static", self._generation))

    def plan(self, facts: Facts, params: Mapping[str, Any] | None) -> Plan:
        """Return the one plan that there is."""
        return self._plan


def _planned(name: str, member: Member) -> Planned:
    """Return what a user's target, or member, means."""
    if not name:
        raise ValueError(f"a server needs a name, got {name!r}")
    try:
        target = resolve(member.target)
    except ValueError as error:
        raise ValueError(f"server {name!r}: {error}") from None
    options = {
        option: value
        for option, value in member.client_options().items()
        if option not in _NOT_HERE
    }
    return Planned(name=name, target=target, options=options, rules=member.rules())
