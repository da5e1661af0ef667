"""HTTP requests for authorization, to checked URLs and addresses only.

::

    check the URL ─► resolve ─► check each address ─► connect to it, in the host's name
          ▲                                                   │
          └──── at most three redirects, of the same origin ──┘

The connection uses exactly the address that was checked, so a later change of the
name's addresses has no effect. A proxy resolves names itself: with a proxy, only the
names and addresses in URLs can be checked.

Error and log messages contain no query, no body and no header.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    DiscoveryError,
    RegistrationError,
    TokenError,
    UrlRefused,
)
from mcpwire.auth.steps import Answer
from mcpwire.auth.url_policy import UrlPolicy, check_address, server_address_class
from mcpwire.errors import (
    AuthError,
    ConnectError,
    LocalProtocolError,
    MCPError,
    MessageTooLarge,
    RemoteProtocolError,
)
from mcpwire.protocol.http_headers import USER_AGENT, field_line
from mcpwire.protocol.http_reply import Request, decode_fields
from mcpwire.transports.http.connecting import connect_error, interleave
from mcpwire.transports.http.engine import proxy_url
from mcpwire.transports.http.httpx_engine import HttpxEngine
from mcpwire.transports.http.target import Http
from mcpwire.wire.json import encode
from mcpwire.wire.urls import (
    address_class,
    mask_url,
    parse_url,
    resolve_url,
    same_origin,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.auth.steps import Fetch
    from mcpwire.limits import Limits
    from mcpwire.wire.urls import AddressClass, Url

logger = logging.getLogger("mcpwire.oauth")

MAX_REDIRECTS: Final = 3

FIRST_CONNECT_TIMEOUT_S: Final = 2.0
"""Timeout of connecting to an address if others are left to try."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_URL_OPTIONS: Final = ("issuer", "idp_issuer", "idp_token_endpoint")
"""Options of grants with the user's URLs, which may be in a private network."""


class Fetcher:
    """The HTTP client for the `Fetch` steps of one operation.

    The first addresses to which the server's name resolves count for the whole
    operation: they determine the networks that it may reach. Each fetch has its own
    connection, so that two hosts at one address never share one; cancelling closes it.

    The target's TLS and proxy options apply to all hosts, its client certificate only
    to the server's own host. An httpx client of the target is not used, because it may
    add its own credentials.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self._target = target
        self._limits = limits
        texts = [getattr(target.grant, option, None) for option in _URL_OPTIONS]
        urls = [parse_url(text) for text in texts if text is not None and "://" in text]
        self._anchors = {url.host: url for url in (*urls, target.parsed)}
        self._networks: dict[str, AddressClass] = {}
        self._working_addresses: dict[str, str] = {}  # by host, those that answered

    async def fetch(self, step: Fetch) -> Answer:
        """Return the answer to a request, with any status."""
        try:
            async with asyncio.timeout(self._limits.oauth_timeout):
                return await self._follow_redirects(step)
        except (AuthError, LocalProtocolError):
            raise
        except MessageTooLarge as error:
            raise _unusable_error(step, f"cannot be used: {error}", None) from None
        except RemoteProtocolError:
            # The error may quote the answer, and the answer may quote the request.
            reason = "cannot be used: it is not acceptable HTTP"
            raise _unusable_error(step, reason, None) from None
        except MCPError as error:
            raise AuthTemporarilyUnavailable(
                f"{step.what} at '{mask_url(step.url)}' did not answer: {error}"
            ) from error
        except TimeoutError as error:
            raise AuthTemporarilyUnavailable(
                f"{step.what} at '{mask_url(step.url)}' did not answer within "
                f"{self._limits.oauth_timeout:g} s"
            ) from error

    async def _follow_redirects(self, step: Fetch) -> Answer:
        anchor = self._anchor_url(parse_url(step.url).host)
        url = UrlPolicy(anchor, self._target.allow_insecure).check(step.url, step.what)
        answer = await self._send(step, url)
        for _ in range(MAX_REDIRECTS):
            redirect_url = _redirect_url(step, url, answer)
            if redirect_url is None:
                break
            url = redirect_url
            answer = await self._send(step, url)
        return answer

    def _anchor_url(self, host: str) -> Url:
        """Return the URL that a host may share a network with: a user's or server's."""
        return self._anchors.get(host, self._target.parsed)

    async def _send(self, step: Fetch, url: Url) -> Answer:
        """Send the request to the first address that accepts a connection."""
        target = self._origin_target(url)
        addresses = await self._addresses(step, url, target)
        request = _make_request(step, url)
        for number, address in enumerate(addresses, 1):
            is_last = number == len(addresses)
            sink = _AnswerSink(step, self._limits)
            engine = HttpxEngine(
                target,
                self._limits,
                address=address,
                connect_timeout=None if is_last else FIRST_CONNECT_TIMEOUT_S,
            )
            try:
                await _exchange(engine, request, sink)
            except ConnectError as error:
                if is_last or error.reason == "tls":
                    raise
                continue
            if address is not None:
                self._working_addresses[url.host] = address
            answer = sink.answer()
            verb = "POST" if step.is_post else "GET"
            logger.debug("%s: %s %s: %d", step.what, verb, url, answer.status)
            return answer
        raise AssertionError("there is always an address")

    async def _addresses(
        self, step: Fetch, url: Url, target: Http
    ) -> Sequence[str | None]:
        """Return the checked addresses in the order to try; None means the proxy."""
        if proxy_url(target) is not None:
            return [None]
        try:
            addresses = await self._resolve(url)
        except (OSError, UnicodeError) as error:
            raise connect_error(target, error) from error
        network: AddressClass = "public"
        if any(address_class(address) != "public" for address in addresses):
            network = await self._network(self._anchor_url(url.host))
        for address in addresses:
            check_address(address, server_class=network, what=step.what, host=url.host)
        working = self._working_addresses.get(url.host)
        return sorted(addresses, key=lambda address: address != working)

    async def _resolve(self, url: Url) -> list[str]:
        if ":" in url.host or url.host.rpartition(".")[2].isdigit():
            return [url.host]
        infos = await asyncio.get_running_loop().getaddrinfo(
            url.host, url.port, type=socket.SOCK_STREAM
        )
        addresses = [str(info[4][0]) for info in interleave(infos)]
        if not addresses:
            raise OSError("it has no address")
        anchor = self._anchors.get(url.host)
        if anchor is not None:
            self._networks.setdefault(url.host, server_address_class(anchor, addresses))
        return list(dict.fromkeys(addresses))

    async def _network(self, anchor: Url) -> AddressClass:
        """Return the network of the host of a URL from `_anchor_url`."""
        if anchor.host not in self._networks:
            try:
                addresses = await self._resolve(anchor)
            except (OSError, UnicodeError):  # perhaps only a proxy can resolve it
                addresses = []
            self._networks[anchor.host] = server_address_class(anchor, addresses)
        return self._networks[anchor.host]

    def _origin_target(self, url: Url) -> Http:
        """Return a target for the origin of a URL."""
        target = self._target
        is_own = url.host == target.parsed.host
        tls: dict[str, Any] = {}
        if url.scheme == "https":
            tls = {
                "ssl": target.ssl,
                "ca_file": target.ca_file,
                "client_cert": target.client_cert if is_own else None,
            }
        return Http(url.origin, proxy=target.proxy, trust_env=target.trust_env, **tls)


class _AnswerSink:
    """The `ResponseSink` of an answer of at most `Limits.oauth_document` bytes."""

    def __init__(self, step: Fetch, limits: Limits) -> None:
        self._step = step
        self._limits = limits
        self._status = 0
        self._fields: dict[str, str] = {}
        self._body = bytearray()
        self.is_over = False

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        self._status = status
        self._fields = decode_fields(fields)

    def data(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) <= self._limits.oauth_document:
            return
        del self._body[self._limits.oauth_document :]
        self.is_over = True
        if self._status < 300:
            raise _unusable_error(
                self._step,
                f"is over the limit of {self._limits.oauth_document} bytes",
                self._status,
            )

    def end(self) -> None:
        self.is_over = True

    def answer(self) -> Answer:
        return Answer(self._status, self._fields, bytes(self._body))


async def _exchange(engine: HttpxEngine, request: Request, sink: _AnswerSink) -> None:
    """Send one request and close the engine, even if the fetch is cancelled."""
    try:
        await engine.exchange(request, sink)
    finally:
        try:
            await engine.aclose()
        except BaseException:
            engine.abandon()
            raise


def _make_request(step: Fetch, url: Url) -> Request:
    body: bytes | None = None
    fields = {
        "host": url.authority,
        "user-agent": USER_AGENT,
        "accept": "application/json",
        "accept-encoding": "identity",
    }
    if step.form is not None:
        body = urlencode(step.form).encode("ascii")
        fields["content-type"] = "application/x-www-form-urlencoded"
    elif step.document is not None:
        body = encode(dict(step.document))
        fields["content-type"] = "application/json"
    fields |= dict(step.headers)
    lines = [field_line(name, value) for name, value in fields.items()]
    verb = "GET" if body is None else "POST"
    return Request(
        f"{verb} {url.target} HTTP/1.1\r\n".encode("ascii") + b"".join(lines), body
    )


def _redirect_url(step: Fetch, url: Url, answer: Answer) -> Url | None:
    """Return the URL that an answer redirects to if it may be followed."""
    location = answer.fields.get("location")
    if answer.status not in _REDIRECTS or location is None:
        return None
    if step.is_post:
        shown = mask_url(location)
        raise UrlRefused(
            f"{step.what} '{mask_url(step.url)}' redirects to '{shown}', which is "
            "refused: credentials are not sent elsewhere",
            url=shown,
            rule="a request with credentials is never redirected",
        )
    if not step.may_redirect:
        return None
    try:
        redirect_url = resolve_url(url, location)
    except ValueError:
        return None
    # With the same scheme, host and port the check of the URL remains valid; the
    # addresses are checked for each request.
    return (
        redirect_url
        if same_origin(url, redirect_url) and redirect_url.fragment is None
        else None
    )


def _unusable_error(step: Fetch, reason: str, status: int | None) -> AuthError:
    message = f"the answer of {step.what} at '{mask_url(step.url)}' {reason}"
    if step.form is not None:
        return TokenError(message, status=status)
    if step.document is not None:
        return RegistrationError(message, status=status)
    return DiscoveryError(message, tried=((mask_url(step.url), reason),))
