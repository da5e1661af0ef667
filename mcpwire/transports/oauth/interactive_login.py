"""Login by the user: open a URL in the browser and receive the browser's redirect.

The browser is opened by the standard library's `webbrowser`, which starts a program
with the URL as one argument: no shell is involved. Only checked URLs are opened.

Any program on this machine, and any page in the browser, can connect to the port of the
redirect. One request with the `state` of the login is accepted; all other requests are
refused and have no effect (RFC 8252, 8.3 and 8.10; 2026-07-28
basic/authorization/security-considerations, "Open Redirection")::

    bound ──── wait ───► listening ──── request with the state ────► answered, closed
                             │  ▲
                             └──┘ any other request: 4xx
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import threading
from collections.abc import Mapping
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

from mcpwire.auth.errors import ConsentDenied
from mcpwire.auth.url_policy import check_authorization_url
from mcpwire.errors import AuthError
from mcpwire.transports.base import register_after_fork
from mcpwire.transports.handlers import call_in_thread, invoke

if TYPE_CHECKING:
    import webbrowser
    from collections.abc import Callable

    from mcpwire.auth.config import OAuth
    from mcpwire.auth.steps import AuthorizeUser
    from mcpwire.wire.urls import Url

# Longest wait for a browser program: some return only when their window is closed.
BROWSER_START_TIMEOUT_S: Final = 2.0

PORT_POLL_S: Final = 0.1  # pause between two checks whether a configured port is free

PATH: Final = "/callback"

# Codes of some servers are several KiB long, and browsers also send cookies.
MAX_REQUEST_BYTES: Final = 32 * 1024
REQUEST_TIMEOUT_S: Final = 10.0  # time for a request; browsers open spare connections
PAGE_TIMEOUT_S: Final = 1.0  # time for a browser to read the page and close
MAX_CONNECTIONS: Final = 16  # maximum at once; another one replaces the oldest

_MAX_PARAMETERS: Final = 64

# A redirect URI of this module, with its port.
_REDIRECT_URI: Final = re.compile(rf"http://(?:127\.0\.0\.1|\[::1\]):([0-9]+){PATH}")

# The open callback servers of this process by port.
_servers: Final[WeakValueDictionary[int, CallbackServer]] = WeakValueDictionary()

_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


class InteractiveLogin:
    """One login by the user; closed when its operation ends."""

    def __init__(self, grant: OAuth, server: Url) -> None:
        self._grant = grant
        self._server = server
        self._callbacks: CallbackServer | None = None

    async def listen(self, preferred: str | None) -> str:
        """Bind the port for the browser's redirect; return the redirect URI."""
        port = self._grant.callback_port
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grant.timeout):
                while port in _servers:  # noqa: ASYNC110 - also of other event loops
                    await asyncio.sleep(PORT_POLL_S)
        self._callbacks = CallbackServer(port=port, preferred=preferred)
        return self._callbacks.redirect_uri

    async def ask(self, step: AuthorizeUser) -> dict[str, str]:
        """Send the user to the URL; return the parameters of the response."""
        grant = self._grant
        try:
            async with asyncio.timeout(grant.timeout) as limit:
                if grant.ask is not None:
                    return returned_parameters(await call_user(grant.ask, step.url))
                await self._show_url(step.url)
                assert self._callbacks is not None
                return await self._callbacks.wait(step.state)
        except TimeoutError as error:  # of the user's function as well
            end = f"within {grant.timeout:g} s" if limit.expired() else "in time"
            raise ConsentDenied(
                f"the login was not finished {end}", error="timeout"
            ) from error

    async def _show_url(self, url: str) -> None:
        grant = self._grant
        if grant.on_url is not None:
            await call_in_thread(grant.on_url, url)
        is_open = False
        if callable(grant.open_browser):
            await call_in_thread(grant.open_browser, url)
            is_open = True
        elif grant.open_browser:
            is_open = await asyncio.to_thread(open_browser, url, server=self._server)
        if not is_open and grant.on_url is None:
            raise ConsentDenied(
                "no browser can be opened here: pass on_url= to show the URL yourself, "
                "or interactive=False",
                error="interaction_required",
            )

    def close(self) -> None:
        """Stop listening."""
        if self._callbacks is not None:
            self._callbacks.close()


async def call_user(function: Callable[..., Any], *args: Any) -> Any:
    """Call a plain or async function of the user and return its result."""
    value = invoke(function, *args)
    return await value if hasattr(value, "__await__") else value


def returned_parameters(returned: Any) -> dict[str, str]:
    """Return the parameters of the URL that the browser was redirected to."""
    if isinstance(returned, str):
        query = returned.partition("#")[0].partition("?")[2]
        try:
            return _query_parameters(query)
        except ValueError as error:
            raise ConsentDenied(
                "the URL of the redirect has too many parameters",
                error="invalid_request",
            ) from error
    if isinstance(returned, Mapping):
        return {str(name): str(value) for name, value in returned.items()}
    raise ConsentDenied(
        f"ask must return the URL of the redirect, got {type(returned).__name__}",
        error="invalid_request",
    )


def open_browser(url: str, *, server: Url | None) -> bool:
    """Open the URL in the user's browser; return whether that seems to have worked.

    It blocks for two seconds at most: call it in a thread if this one runs a loop.
    `server` is None if the URL was checked for its server before.
    """
    checked = check_authorization_url(url, server=server)
    browser = _find_browser()
    if browser is None:
        return False
    outcome: list[bool] = []

    def start() -> None:
        try:
            outcome.append(browser.open(checked))
        except OSError:
            outcome.append(False)

    thread = threading.Thread(target=start, name="mcpwire-browser", daemon=True)
    thread.start()
    thread.join(BROWSER_START_TIMEOUT_S)
    return outcome[0] if outcome else True


def _find_browser() -> webbrowser.BaseBrowser | None:
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    # A text browser would use the terminal, which may be in use.
    is_text = type(browser).__name__ in {"GenericBrowser", "Elinks"}
    return None if is_text and not os.environ.get("BROWSER") else browser


# Redirect


class CallbackServer:
    """An HTTP server on this machine for the redirect of one login.

    The port is bound at once, so that the redirect URI stays valid; requests are
    answered only during `wait`. The port of an earlier redirect URI is used if it is
    free, because an authorization server may compare the whole URI.
    """

    def __init__(
        self, *, port: int | None = None, preferred: str | None = None
    ) -> None:
        self._listener = _open_listener(port, preferred)
        host, self.port = self._listener.getsockname()[:2]
        _servers[self.port] = self
        shown_host = f"[{host}]" if ":" in host else host
        self._authority = f"{shown_host}:{self.port}"
        self.redirect_uri = f"http://{self._authority}{PATH}"
        self._tasks: dict[asyncio.Task[None], None] = {}  # by connection, oldest first
        register_after_fork(self)

    async def wait(self, state: str) -> dict[str, str]:
        """Wait for the redirect, close the port, and return the parameters."""
        loop = asyncio.get_running_loop()
        redirect: asyncio.Future[dict[str, str]] = loop.create_future()

        def on_connection(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            if len(self._tasks) == MAX_CONNECTIONS:
                oldest = next(iter(self._tasks))
                del self._tasks[oldest]
                oldest.cancel()
            task = loop.create_task(self._serve(reader, writer, state, redirect))
            self._tasks[task] = None
            task.add_done_callback(lambda _: writer.close())
            task.add_done_callback(lambda task: self._tasks.pop(task, None))

        server = await asyncio.start_server(
            on_connection,
            sock=self._listener,
            limit=MAX_REQUEST_BYTES,
            start_serving=False,
        )
        try:
            await server.start_serving()
            return await redirect
        finally:
            server.close()
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        state: str,
        redirect: asyncio.Future[dict[str, str]],
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            params = None
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                response = _TOO_LARGE
            else:
                response, params = _check_request(head, self._authority, state)
            writer.write(response)  # a page fits into the send buffer
            writer.write_eof()
            if params is not None and not redirect.done():
                redirect.set_result(params)
            # Closing with unread bytes would reset the connection and lose the page.
            async with asyncio.timeout(PAGE_TIMEOUT_S):
                while await reader.read(MAX_REQUEST_BYTES):
                    pass

    def close(self) -> None:
        """Close the port."""
        self._listener.close()
        if _servers.get(self.port) is self:
            del _servers[self.port]

    after_fork = close  # closes the copy in a forked process; the parent keeps its own


def _response(status: str, text: str, extra: str = "") -> bytes:
    """Return an HTTP response, which contains no part of the request."""
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{text}</title>"
        f"<p>{text}</p></html>\n"
    )
    head = (
        f"HTTP/1.1 {status}\r\n"
        "content-type: text/html; charset=utf-8\r\n"
        "cache-control: no-store\r\n"
        "content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n"
        "referrer-policy: no-referrer\r\n"
        "x-content-type-options: nosniff\r\n"
        f"connection: close\r\n{extra}content-length: {len(page)}\r\n\r\n"
    )
    return (head + page).encode("ascii")


_DONE: Final = _response("200 OK", "You are logged in and can close this window.")
_NOT_DONE: Final = _response(
    "200 OK", "The login was not completed. You can close this window."
)
_BAD: Final = _response("400 Bad Request", "This is not the expected login.")
_NOT_FOUND: Final = _response("404 Not Found", "There is nothing here.")
_NOT_ALLOWED: Final = _response(
    "405 Method Not Allowed", "There is nothing here.", "allow: GET\r\n"
)
_TOO_LARGE: Final = _response(
    "431 Request Header Fields Too Large", "The request is too large."
)


def _check_request(
    head: bytes, authority: str, state: str
) -> tuple[bytes, dict[str, str] | None]:
    """Return the response to a request, and the parameters if it is the redirect."""
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    verb, _, rest = line.partition(b" ")
    target, _, version = rest.partition(b" ")
    path, _, query = target.partition(b"?")
    pairs = (field.partition(b":") for field in fields)
    hosts = [value.strip() for name, _, value in pairs if name.lower() == b"host"]
    # Another host name indicates DNS rebinding by a page. A browser omits the port if
    # it is the default port.
    authorities = ([authority.encode()], [authority.removesuffix(":80").encode()])
    if not version.startswith(b"HTTP/1.") or hosts not in authorities:
        return _BAD, None
    if path != PATH.encode():
        return _NOT_FOUND, None
    if verb != b"GET":
        return _NOT_ALLOWED, None
    try:
        params = _query_parameters(query.decode("ascii"), errors="strict")
    except ValueError:
        return _BAD, None
    # 2026-07-28 basic/authorization/security-considerations, "Open Redirection": a
    # response with another state is discarded.
    has_state = compare_digest(params.get("state", "").encode(), state.encode())
    if not has_state or params.keys().isdisjoint({"code", "error"}):
        return _BAD, None
    return (_NOT_DONE if "error" in params else _DONE), params


def _query_parameters(query: str, errors: str = "replace") -> dict[str, str]:
    """Return the parameters of a query; raise `ValueError` for too many.

    A parameter that occurs twice is ignored (RFC 6749 section 3.1).
    """
    pairs = parse_qsl(
        query, keep_blank_values=True, errors=errors, max_num_fields=_MAX_PARAMETERS
    )
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def _open_listener(port: int | None, preferred: str | None) -> socket.socket:
    """Return a listening socket that only this machine can reach."""
    previous = _REDIRECT_URI.fullmatch(preferred or "")
    if port is None and previous is not None:
        with contextlib.suppress(OSError, OverflowError):  # else use any port
            return _listen_on(int(previous[1]))
    try:
        return _listen_on(port or 0)
    except OSError as error:
        place = f"port {port}" if port is not None else "a port"
        raise AuthError(
            f"cannot listen on {place} of this machine for the redirect after the "
            f"login: {os.strerror(error.errno or 0)}"
        ) from error


def _listen_on(port: int) -> socket.socket:
    # On POSIX, `create_server` reuses ports in TIME_WAIT and does not share ports.
    backlog = 4 * MAX_CONNECTIONS
    try:
        return socket.create_server(("127.0.0.1", port), backlog=backlog)
    except OSError as error:
        if error.errno not in _NO_SUCH_ADDRESS:
            raise
    return socket.create_server(("::1", port), family=socket.AF_INET6, backlog=backlog)
