"""`FromHeaders`: each client says by header fields which servers it wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import InvalidRequest
from mcpwire.gateway.plan import Plan, Planned
from mcpwire.gateway.selection import read_servers
from mcpwire.transports.http.target import Http
from mcpwire.wire.headers import is_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.gateway.session_ids import Chosen
    from mcpwire.server.request import RequestInfo

__all__ = ["FromHeaders"]

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

    The gateway then connects to whatever a client names: whoever can reach it has it
    reach other machines. So hosts that are no public addresses are refused unless they
    are allowed, also where a name leads there, and `deny_urls` refuses more. A proxy,
    or an HTTP client of your own, resolves names itself and has to see to that.

    Args:
        servers: The field with the list.
        headers: The field with the headers of each.
        listing: The field with the server whose lists are wanted.
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
        """Return one readable line."""
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
