"""Plans of the servers for a client, and the sources of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import InvalidRequest
from mcpwire.gateway.merging import NO_RULES
from mcpwire.gateway.selection import read_servers
from mcpwire.group.member import HANDLERS, Member
from mcpwire.transports.http.target import Http
from mcpwire.transports.targets import resolve_target
from mcpwire.wire.headers import is_token

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from mcpwire.gateway.session_ids import ChosenServer
    from mcpwire.server.request import RequestInfo
    from mcpwire.tools.rules import ServerRules

_IGNORED_OPTIONS: Final = frozenset({*HANDLERS, "client_info", "extensions"})
"""Options of a member without effect here: the client of the gateway decides."""

BY_PATH: Final = "mcpwire/server"
"""Placeholder for the name of the server that each request's path contains; also the
key of this name in the scope of the request."""


@attrs.frozen(kw_only=True, unsafe_hash=False)
class Planned:
    """One server to connect to; equal ones are the same server with equal options."""

    name: str
    """The gateway's name for the server."""

    target: Any = attrs.field(repr=False)
    """The target of its `Client`."""

    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """Options of its `Client`, such as ``timeout``; by default the gateway's."""

    rules: ServerRules = NO_RULES
    """Rules for its tools, in addition to the gateway's rules for all."""

    keeps_names: bool = False
    """Whether its tools and prompts keep their names."""

    key: Hashable = None
    """An additional value that is equal for equal servers."""

    def __hash__(self) -> int:
        return hash((self.name, self.key))  # options may be unhashable


@attrs.frozen(kw_only=True, eq=False)
class Plan:
    """The servers of one session, or of stateless requests, in order."""

    servers: tuple[Planned, ...] = ()

    key: Hashable = attrs.field()
    """Equal for equal plans, for which stateless requests share connections; by default
    the servers."""

    only_server: str | None = None
    """The name of the one server to which the plan was reduced."""

    @key.default
    def _key(self) -> Hashable:
        return self.servers

    def __attrs_post_init__(self) -> None:
        names: set[str] = set()
        for planned in self.servers:
            if planned.name in names:
                raise ValueError(f"two servers are named {planned.name!r}")
            names.add(planned.name)

    def only(self, name: str | None) -> Plan:
        """Return the plan reduced to one server, which keeps its names.

        Without a name, return the whole plan.
        """
        if name is None:
            return self
        return Plan(
            servers=tuple(
                attrs.evolve(planned, keeps_names=True)
                for planned in self.servers
                if planned.name == name
            ),
            key=(self.key, name),
            only_server=name,
        )

    def with_servers(self, others: Iterable[Planned]) -> Plan:
        """Return the plan with further servers appended."""
        added = tuple(others)
        return Plan(servers=(*self.servers, *added), key=self.key) if added else self


@attrs.frozen
class Changes:
    """The names of added, removed and changed servers; false if empty."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class Source(Protocol):
    """A source of plans, which selects the servers for a client."""

    def plan(self, info: RequestInfo, params: Mapping[str, Any] | None) -> Plan:
        """Return the plan for a session, or for a stateless request.

        Called with each stateless request, and once when a session is opened: it must
        not block.

        Args:
            info: The transport's data of the request, such as its header fields.
            params: The params of ``initialize``; ``None`` for a stateless request.

        Raises:
            RPCError: The request is refused; this is the response.
        """


class Static:
    """A source with the same servers for all clients.

    Args:
        servers: Targets by name, as `mcpwire.Group` takes them: a target of `Client`,
            or a `mcpwire.group.Member` with options of its own.

    Raises:
        ValueError: A name is empty, or a target is invalid; names it.
    """

    def __init__(self, servers: Mapping[str, Any]) -> None:
        self._plan = Plan(key=object())
        self.replace(servers)

    def __repr__(self) -> str:
        return f"Static({', '.join(planned.name for planned in self.servers)})"

    @property
    def servers(self) -> tuple[Planned, ...]:
        """The servers, in order."""
        return self._plan.servers

    def replace(
        self,
        servers: Mapping[str, Any],
        check: Callable[[tuple[Planned, ...]], object] | None = None,
    ) -> Changes:
        """Replace the servers; `Gateway.replace` also does it in open sessions.

        Args:
            servers: As for the constructor.
            check: Raises to refuse the new servers; nothing is changed then.

        Raises:
            ValueError: As for the constructor; nothing is changed.
        """
        planned = tuple(
            _plan_server(name, member)
            for name, target in servers.items()
            if (member := Member.of(target)).enabled
        )
        if check is not None:
            check(planned)
        before = {target.name: target for target in self.servers}
        after = {target.name: target for target in planned}
        self._plan = attrs.evolve(self._plan, servers=planned)
        return Changes(
            added=tuple(name for name in after if name not in before),
            removed=tuple(name for name in before if name not in after),
            changed=tuple(
                name
                for name, target in after.items()
                if name in before and target != before[name]
            ),
        )

    def plan(
        self, info: RequestInfo | None = None, params: Mapping[str, Any] | None = None
    ) -> Plan:
        """Return the plan, the same for all clients."""
        return self._plan


def _plan_server(name: str, member: Member) -> Planned:
    """Check a member of a source; return the server to connect to."""
    if not name:
        raise ValueError(f"a server needs a name, got {name!r}")
    try:
        target = resolve_target(member.target)
    except ValueError as error:
        raise ValueError(f"server {name!r}: {error}") from None
    options = {
        option: value
        for option, value in member.client_options().items()
        if option not in _IGNORED_OPTIONS
    }
    return Planned(name=name, target=target, options=options, rules=member.rules())


SERVERS_FIELD: Final = "X-MCP-Servers"
HEADERS_FIELD: Final = "X-MCP-Headers"
LISTING_FIELD: Final = "X-List-Filter"


class FromHeaders:
    """A source of servers that each client chooses by two header fields in JSON.

    ::

        X-MCP-Servers: ["https://a.example/mcp", "https://b.example/mcp"]
        X-MCP-Headers: {"https://a.example/mcp": {"Authorization": "Bearer ..."}}

    Without a list, or with an empty one, a session has no servers. Of two entries with
    one URL the first counts; instead of a URL, an entry can be an object with ``url``
    and ``name``. The fields of ``initialize`` choose for the session; each stateless
    request chooses for itself.

    A list request with ``X-List-Filter: URL``, or with the name of a server, gets the
    items of this server only, and no items if the server is unknown.

    The gateway connects to every URL that a client names, so that a client can make it
    reach other machines. Therefore hosts that are not public addresses are refused
    unless they are allowed, also after name resolution, and `deny_urls` refuses more. A
    proxy, or your own HTTP client, resolves names itself and must check addresses.

    Args:
        servers: The field with the list.
        headers: The field with the header fields for each server.
        listing: The field with the URL or name of the server to list.
        allow_private: Whether this machine and private networks may be chosen.
        allow_insecure: Whether credentials may be sent unencrypted to another machine.
        deny_urls: Hosts and URLs that may not be chosen.
        maximum: How many servers one client may choose.
        options: Further options of `Http` for each server, such as ``proxy``.

    Attributes:
        private_headers: Lower-case names of the three fields, which are not forwarded.

    Raises:
        ValueError: An argument is invalid.
    """

    def __init__(
        self,
        *,
        servers: str = SERVERS_FIELD,
        headers: str = HEADERS_FIELD,
        listing: str = LISTING_FIELD,
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
        Http("https://localhost", **self._options)  # raises if one is invalid
        if not isinstance(deny_urls, UrlDenyList):
            deny_urls = UrlDenyList(deny_urls)
        self._denied = deny_urls
        self._maximum = maximum
        self.private_headers = frozenset(name.lower() for name in names)
        self.withheld: frozenset[str] = frozenset()
        """Lower-case names of fields that the gateway forwards from each request, which
        no choice can set; the gateway assigns them."""

    def __repr__(self) -> str:
        return f"FromHeaders({self._servers!r}, {self._headers!r})"

    def plan(self, info: RequestInfo, params: Mapping[str, Any] | None) -> Plan:
        """Return the plan of the servers that a request's header fields choose.

        Raises:
            InvalidRequest: A field is invalid; names it.
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
        """Return the name or URL of the server to list, if the request names one."""
        return info.headers.get(self._listing)

    def plan_of(self, chosen: Iterable[ChosenServer]) -> Plan:
        """Return the plan of chosen servers, which may come from a session id.

        Raises:
            ValueError: A server is on the deny-list, or its URL or headers are refused.
        """
        servers = tuple(chosen)
        return Plan(
            servers=tuple(self._plan_server(server) for server in servers),
            key=("chosen", *(_key(server) for server in servers)),
        )

    def _plan_server(self, chosen: ChosenServer) -> Planned:
        if self._denied.refuses(chosen.url):
            raise ValueError(f"the server {chosen.name!r} is on the deny-list")
        target = Http(chosen.url, headers=chosen.headers, **self._options)
        return Planned(name=chosen.name, target=target, key=_key(chosen))


def _key(chosen: ChosenServer) -> tuple[Any, ...]:
    return chosen.url, chosen.name, tuple(sorted(chosen.headers.items()))
