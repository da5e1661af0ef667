"""Plans: the servers behind the gateway for a client, and the sources of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import InvalidRequest
from mcpwire.gateway.selection import read_servers
from mcpwire.group.member import HANDLERS, Member
from mcpwire.tools.rules import ServerRules
from mcpwire.transports.http.target import Http
from mcpwire.transports.targets import resolve
from mcpwire.wire.headers import is_token

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from mcpwire.gateway.session_ids import Chosen
    from mcpwire.server.request import RequestInfo


__all__ = [
    "BY_PATH",
    "Changes",
    "FromHeaders",
    "Plan",
    "Planned",
    "Source",
    "Static",
]

_NOT_HERE: Final = frozenset({*HANDLERS, "client_info", "extensions"})
"""Options of a member without a meaning here: the client behind says all that."""

BY_PATH: Final = "mcpwire/server"
"""Stands for a server's name where it is a part of each request's path: there the scope
of the request has the name by this key."""

NO_RULES: Final = ServerRules()


@attrs.frozen(kw_only=True, unsafe_hash=False)
class Planned:
    """One server that is to be connected to; equal ones are offered in the same way."""

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

    def __hash__(self) -> int:
        return hash((self.name, self.key))  # options may hold what has no hash


@attrs.frozen(kw_only=True, eq=False)
class Plan:
    """The servers of one session, or of requests that stand alone, in their order."""

    servers: tuple[Planned, ...] = ()

    key: Hashable = None
    """Equal where two plans are the same: what stands alone shares its connections."""

    one: str | None = None
    """The name of the only server that is wanted of them all."""

    def __attrs_post_init__(self) -> None:
        names: set[str] = set()
        for each in self.servers:
            if each.name in names:
                raise ValueError(f"two servers are named {each.name!r}")
            names.add(each.name)

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
    """Chooses the servers for a client."""

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
                if name in before and each != before[name]
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


SERVERS: Final = "X-MCP-Servers"
HEADERS: Final = "X-MCP-Headers"
LISTING: Final = "X-List-Filter"


class FromHeaders:
    """Servers that each client chooses itself, by two header fields in JSON.

    ::

        X-MCP-Servers: ["https://a.example/mcp", "https://b.example/mcp"]
        X-MCP-Headers: {"https://a.example/mcp": {"Authorization": "Bearer ..."}}

    No list, or an empty one, is a session without servers. Of two entries with one URL
    the first counts; instead of a URL, an entry may be an object with ``url`` and
    ``name``. A session's choice is made by its ``initialize``; a request that stands
    alone makes its own.

    A request for a list with ``X-List-Filter: URL``, or the name of a server, gets what
    that server has of it; nothing where no server is at that URL.

    The gateway then connects to every URL that a client names: a client can have it
    reach other machines. So hosts that are no public addresses are refused unless they
    are allowed, also where a name leads there, and `deny_urls` refuses more. A proxy,
    or an HTTP client of your own, resolves names itself and has to see to that.

    Args:
        servers: The field with the list.
        headers: The field with the headers of each.
        listing: The field with the name of the server to list.
        allow_private: Whether this machine and private networks may be chosen.
        allow_insecure: Whether credentials may travel unencrypted to another machine.
        deny_urls: Hosts and URLs that may not be chosen.
        maximum: How many servers one client may choose.
        options: More options of `Http` for each of them, such as ``proxy``.

    Attributes:
        private_headers: Names of fields that are for the gateway alone.

    Raises:
        ValueError: An argument is wrong.
    """

    def __init__(
        self,
        *,
        servers: str = SERVERS,
        headers: str = HEADERS,
        listing: str = LISTING,
        allow_private: bool = False,
        allow_insecure: bool = False,
        deny_urls: Iterable[str] | UrlDenyList = (),
        maximum: int = 64,
        **options: Any,
    ) -> None:
        names: tuple[Any, ...] = (servers, headers, listing)
        for name in names:
            if not isinstance(name, str) or not is_token(name):
                raise ValueError(f"{name!r} cannot be a header's name")
        self._servers = servers
        self._headers = headers
        self._listing = listing.lower()
        self._allow_private = allow_private
        options.setdefault("public_only", not allow_private)
        self._options = {**options, "allow_insecure": allow_insecure}
        Http("https://localhost", **self._options)  # says which of them is wrong
        if not isinstance(deny_urls, UrlDenyList):
            deny_urls = UrlDenyList(deny_urls)
        self._denied = deny_urls
        self._maximum = maximum
        self.private_headers = frozenset(name.lower() for name in names)
        self.withheld: frozenset[str] = frozenset()
        """Names, in lower case, of fields that come with each request, so that no
        choice can set them; the gateway puts in what it forwards."""

    def __repr__(self) -> str:
        return f"FromHeaders({self._servers!r}, {self._headers!r})"

    def plan(self, info: RequestInfo, params: Mapping[str, Any] | None) -> Plan:
        """Return the servers that a request's fields choose.

        Raises:
            InvalidRequest: A field is wrong; names what.
        """
        fields = info.headers
        try:
            chosen = read_servers(
                fields.get(self._servers.lower()),
                fields.get(self._headers.lower()),
                servers_field=self._servers,
                headers_field=self._headers,
                allow_private=self._allow_private,
                refuses=self._denied.refuses,
                withheld=self.withheld,
                maximum=self._maximum,
            )
            return self.plan_of(chosen)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    def listing(self, info: RequestInfo) -> str | None:
        """Return the name or URL of the one server to list, if a request names one."""
        return info.headers.get(self._listing)

    def plan_of(self, chosen: Iterable[Chosen]) -> Plan:
        """Return the plan of servers that were chosen, perhaps long ago.

        Raises:
            ValueError: One of them may not be connected to, or not like that.
        """
        servers = tuple(chosen)
        return Plan(
            servers=tuple(self._planned(each) for each in servers),
            key=("chosen", *(_key(each) for each in servers)),
        )

    def _planned(self, chosen: Chosen) -> Planned:
        if self._denied.refuses(chosen.url):
            raise ValueError(f"the server {chosen.name!r} is on the deny-list")
        target = Http(chosen.url, headers=chosen.headers, **self._options)
        return Planned(name=chosen.name, target=target, key=_key(chosen))


def _key(chosen: Chosen) -> tuple[Any, ...]:
    return chosen.url, chosen.name, tuple(sorted(chosen.headers.items()))
