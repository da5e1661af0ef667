"""Which servers stand behind the gateway for who asks: a plan, and who makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.group.member import HANDLERS, Member
from mcpwire.tools.rules import ServerRules
from mcpwire.transports.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from mcpwire.server.request import RequestInfo

__all__ = ["BY_PATH", "Changes", "Plan", "Planned", "Source", "Static"]

_NOT_HERE: Final = frozenset({*HANDLERS, "client_info", "extensions"})
"""Options of a member without a meaning here: the client behind says all that."""

BY_PATH: Final = "mcpwire/server"
"""Stands for a server's name where it is a part of each request's path: there the scope
of the request has the name by this key."""

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
    """What else makes two of them the same server."""

    def is_as(self, other: Planned) -> bool:
        """Tell whether another one is connected to, and offered, in the same way."""
        return all(
            getattr(self, each) == getattr(other, each)
            for each in ("name", "target", "options", "rules", "is_bare", "key")
        )


@attrs.frozen(kw_only=True, eq=False)
class Plan:
    """The servers of one session, or of requests that stand alone, in their order."""

    servers: tuple[Planned, ...] = ()

    key: Hashable = None
    """Equal where two plans are the same: what stands alone shares its connections."""

    one: str | None = None
    """The name of the only server that is wanted of them all."""

    def __attrs_post_init__(self) -> None:
        """Refuse two servers of one name."""
        names = [each.name for each in self.servers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two servers are named {name!r}")

    def only(self, name: str | None) -> Plan:
        """Return the plan of one server of these, with its names as they are.

        Without a name it is the plan of all.
        """
        if name is None:
            return self
        return Plan(
            servers=tuple(
                attrs.evolve(each, is_bare=True)
                for each in self.servers
                if each.name == name
            ),
            key=(self.key, name),
            one=name,
        )

    def beside(self, others: Iterable[Planned]) -> Plan:
        """Return the plan with more servers after these."""
        more = tuple(others)
        return Plan(servers=(*self.servers, *more), key=self.key) if more else self


@attrs.frozen
class Changes:
    """Which servers are others now, by name; false where none is."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class Source(Protocol):
    """Says which servers there are for who asks."""

    def plan(self, info: RequestInfo, params: Mapping[str, Any] | None) -> Plan:
        """Return the plan for a session, or for a request that stands alone.

        Called with each request that stands alone, and once for a session: it must
        not block.

        Args:
            info: What the transport knows of the request.
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
        self._plan = Plan(key=object())
        self.replace(servers)

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"Static({', '.join(each.name for each in self.servers)})"

    @property
    def servers(self) -> tuple[Planned, ...]:
        """The servers, in their order."""
        return self._plan.servers

    def replace(
        self,
        servers: Mapping[str, Any],
        check: Callable[[tuple[Planned, ...]], object] | None = None,
    ) -> Changes:
        """Have other servers from now on; `Gateway.replace` does it for open sessions.

        Args:
            servers: As for the constructor.
            check: Raises where they are not to be had; nothing has changed then.

        Raises:
            ValueError: As for the constructor; nothing has changed then.
        """
        planned = tuple(
            _planned(name, member)
            for name, each in servers.items()
            if (member := Member.of(each)).enabled
        )
        if check is not None:
            check(planned)
        before = {each.name: each for each in self.servers}
        after = {each.name: each for each in planned}
        self._plan = attrs.evolve(self._plan, servers=planned)
        return Changes(
            added=tuple(name for name in after if name not in before),
            removed=tuple(name for name in before if name not in after),
            changed=tuple(
                name
                for name, each in after.items()
                if name in before and not each.is_as(before[name])
            ),
        )

    def plan(
        self, info: RequestInfo | None = None, params: Mapping[str, Any] | None = None
    ) -> Plan:
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
