"""How one document of authorization is fetched: where to, by whom, how often.

A plan is a generator that yields what only a shell can do, `Resolve` and `Send`, and
returns the answer. Both shells drive the same ones::

    check the URL ─► resolve ─► check each address ─► connect to it, in the host's name
          ▲                                                   │
          └──── at most three redirects, of the same origin ──┘

The connection goes to the very address that was checked: what the name resolves to a
moment later has no say. Through a proxy it is the proxy that resolves, so there only
names and addresses as they are written can be checked.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.auth.errors import UrlRefused
from mcpwire.auth.url_policy import check_address, check_url, class_of_server
from mcpwire.errors import (
    AuthError,
    ConnectError,
    LocalProtocolError,
    MCPError,
    RemoteProtocolError,
)
from mcpwire.transports.http._sockets import connect_error, interleave
from mcpwire.transports.http.engine import proxy_applies
from mcpwire.transports.http.over_httpx.requests import Requests
from mcpwire.transports.http.target import Http
from mcpwire.transports.oauth.document import Document, failure, is_post, request_of
from mcpwire.wire.urls import (
    address_class,
    mask_url,
    parse_url,
    resolve_url,
    same_origin,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Generator, Sequence
    from types import ModuleType

    from mcpwire.auth.steps import Answer, Fetch
    from mcpwire.limits import Limits
    from mcpwire.protocol.http.request import Request
    from mcpwire.transports.http._sockets import Address
    from mcpwire.wire.urls import AddressClass, Url

Plan: TypeAlias = "Generator[Resolve | Send, Any, Answer]"

__all__ = ["Pinned", "Plan", "Planner", "Resolve", "Send"]

logger = logging.getLogger("mcpwire.oauth")

MAX_REDIRECTS: Final = 3

FIRST_TRY_S: Final = 2.0
"""How long connecting to an address may take while there are others."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_NAMED_BY_USER: Final = ("issuer", "idp_issuer", "idp_token_endpoint")
"""Options of grants that hold a URL of the user's own."""


@attrs.frozen
class Resolve:
    """Ask for the addresses of a host; the outcome is what `getaddrinfo` returns.

    What that raises may be thrown.
    """

    host: str
    port: int


@attrs.frozen
class Send:
    """Send a request and feed the reply to the document.

    What engines raise may be thrown.
    """

    target: Http
    """Where to, by its name."""

    address: str | None
    """What to connect to; ``None``: whatever the proxy takes for it."""

    connect_timeout: float | None
    request: Request
    document: Document


class Planner:
    """Knows where the documents of one operation may come from.

    What the server's name resolves to first counts for all of the operation: which
    networks it may lead into is not decided anew while it runs.

    Args:
        target: The MCP server, whose TLS and proxy options count everywhere. Its client
            certificate goes to the server's own host only. A client of httpx given
            there is not used: it may add credentials of its own.
        limits: `Limits.oauth_document` and `Limits.oauth_timeout` count here.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self._target = target
        self._server = target.parsed
        self._limits = limits
        self._anchors = {url.host: url for url in (*_named(target), target.parsed)}
        self._networks: dict[str, AddressClass] = {}
        self._answering: dict[str, str] = {}
        self._contexts: dict[bool, ssl.SSLContext] = {}

    def fetch(self, step: Fetch) -> Plan:
        """Plan a fetch.

        Raises:
            UrlRefused: It leads where we must not go.
            AuthTemporarilyUnavailable: No answer came.
            DiscoveryError: What came is no document, or too large; in its place
                `TokenError` and `RegistrationError` where something was posted.
        """
        url = self._check(step.url, step)
        try:
            for _ in range(MAX_REDIRECTS):
                answer = yield from self._ask(step, url)
                there = self._redirection(step, url, answer)
                if there is None:
                    return answer
                url = there
            return (yield from self._ask(step, url))
        except (AuthError, LocalProtocolError):
            raise
        except RemoteProtocolError as error:
            raise failure(step, error) from None
        except MCPError as error:
            raise failure(step, error) from error

    # Where to...

    def _check(self, text: str, step: Fetch) -> Url:
        return check_url(
            text,
            what=step.what,
            server=self._anchor(_host_of(text)),
            allow_insecure=self._target.allow_insecure,
        )

    def _anchor(self, host: str) -> Url:
        """Return the URL of the user's own by which a host is judged."""
        return self._anchors.get(host, self._server)

    @staticmethod
    def _redirection(step: Fetch, url: Url, answer: Answer) -> Url | None:
        """Return where an answer sends us, as far as we go.

        Raises:
            UrlRefused: It would have the body of a request sent there.
        """
        location = answer.fields.get("location")
        if answer.status not in _REDIRECTS or location is None:
            return None
        if is_post(step):
            shown = mask_url(location)
            raise UrlRefused(
                f"{step.what} '{mask_url(step.url)}' redirects to '{shown}', which is "
                "refused: what holds credentials is sent to nobody else",
                url=shown,
                rule="a request with credentials is never redirected",
            )
        if not step.may_redirect:
            return None
        try:
            there = resolve_url(url, location)
        except ValueError:
            return None
        # Same scheme, host and port: what was checked of the URL still holds, and the
        # addresses are checked each time.
        return there if same_origin(url, there) and there.fragment is None else None

    # ... to which address ...

    def _addresses(
        self, step: Fetch, url: Url, place: Http
    ) -> Generator[Resolve | Send, Any, Sequence[str | None]]:
        """Return the addresses to try in this order, each of them checked."""
        if proxy_applies(place):
            return [None]
        try:
            found: list[str] = yield from self._resolve(url)
        except (OSError, UnicodeError) as error:
            raise connect_error(place, error) from error
        network: AddressClass = "public"
        if any(address_class(address) != "public" for address in found):
            network = yield from self._network(self._anchor(url.host))
        for address in found:
            check_address(address, server_class=network, what=step.what, host=url.host)
        known = self._answering.get(url.host)
        return sorted(found, key=lambda address: address != known)

    def _resolve(self, url: Url) -> Generator[Resolve | Send, Any, list[str]]:
        if ":" in url.host or url.host.rpartition(".")[2].isdigit():
            return [url.host]
        infos: Sequence[Address] = yield Resolve(url.host, url.port)
        found = [str(info[4][0]) for info in interleave(infos)]
        if not found:
            raise OSError("it has no address")
        own = self._anchors.get(url.host)
        if own is not None:
            self._networks.setdefault(url.host, class_of_server(own, found))
        return list(dict.fromkeys(found))

    def _network(self, anchor: Url) -> Generator[Resolve | Send, Any, AddressClass]:
        """Return the network of whoever a URL is judged by."""
        if anchor.host not in self._networks:
            try:
                addresses = yield from self._resolve(anchor)
            except (OSError, UnicodeError):  # a proxy may be who finds it
                addresses = []
            self._networks[anchor.host] = class_of_server(anchor, addresses)
        return self._networks[anchor.host]

    # ... and what is sent.

    def _ask(self, step: Fetch, url: Url) -> Generator[Resolve | Send, Any, Answer]:
        place = self._place(url)
        addresses = yield from self._addresses(step, url, place)
        request = request_of(step, url)
        for left, address in zip(
            range(len(addresses) - 1, -1, -1), addresses, strict=True
        ):
            document = Document(step, self._limits)
            patience = FIRST_TRY_S if left else None
            try:
                yield Send(place, address, patience, request, document)
            except ConnectError as error:
                if not left or error.reason == "tls":
                    raise
                continue
            if address is not None:
                self._answering[url.host] = address
            answer = document.answer()
            verb = "POST" if is_post(step) else "GET"
            logger.debug("%s: %s %s: %d", step.what, verb, url, answer.status)
            return answer
        raise AssertionError("there is always an address")

    def _place(self, url: Url) -> Http:
        """Return a URL's origin as a target of its own."""
        given = self._target
        context = self._context(url) if url.scheme == "https" else None
        return Http(
            url.origin, ssl=context, proxy=given.proxy, trust_env=given.trust_env
        )

    def _context(self, url: Url) -> ssl.SSLContext:
        given = self._target
        if given.ssl is not None:
            return given.ssl
        is_own = url.host == self._server.host
        if is_own not in self._contexts:
            from mcpwire.transports.http.tls import ssl_context

            self._contexts[is_own] = ssl_context(
                Http(
                    url.origin,
                    ca_file=given.ca_file,
                    client_cert=given.client_cert if is_own else None,
                    trust_env=given.trust_env,
                )
            )
        return self._contexts[is_own]


class Pinned(Requests):
    """Builds requests to one address of a host, in the host's name.

    Args:
        send: Where to.
        library: httpx.
    """

    def __init__(self, send: Send, library: ModuleType) -> None:
        super().__init__(send.target, library, None)
        url = send.target.parsed
        self._name = None
        if send.address is not None and send.address != url.host:
            self._name = url.host.removesuffix(".")
            self._origin = attrs.evolve(url, host=send.address).origin

    def build(
        self, request: Request, trace: Callable[..., Any], connect_timeout: float | None
    ) -> Any:
        """Build a request; the certificate must be the name's."""
        built = super().build(request, trace, connect_timeout)
        if self._name is not None:
            built.extensions["sni_hostname"] = self._name
        return built


def _named(target: Http) -> list[Url]:
    """Return the URLs in the user's own words: who is named there is meant to be asked.

    Even where an authorization server on the intranet serves an MCP server outside.
    """
    texts = [getattr(target.grant, option, None) for option in _NAMED_BY_USER]
    return [parse_url(text) for text in texts if text is not None and "://" in text]


def _host_of(text: str) -> str:
    try:
        return parse_url(text).host
    except ValueError:  # whoever checks it says why
        return ""
