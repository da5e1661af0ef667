"""Clients with faults in HTTP, sessions and event streams."""

import asyncio
import contextlib
import json
import re

import httpx
from client_mutants import exchanges, outgoing, requests, use_all

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"


def is_request(request):
    return request.method == "POST" and b'"id"' in request.content


def header_is(name, value, find=lambda _: True):
    """Return a change of requests; a value of ``None`` removes the field."""

    def change(request):
        if find(request):
            request.headers.pop(name, None)
            if value is not None:
                request.headers[name] = value

    return change


HEADERS = (
    ("C-LHTTP-02.a", header_is("accept", "application/json")),
    ("C-E02.a", header_is("content-type", "text/plain")),
    ("C-LHTTP-29.a", header_is(VERSION, None, lambda r: r.method == "DELETE")),
    ("C-LHTTP-29.b", header_is(VERSION, "2025-03-26", lambda r: VERSION in r.headers)),
    ("C-LHTTP-24.a", header_is(SESSION, None, lambda r: r.method == "DELETE")),
    ("C-LHTTP-24.b", header_is(SESSION, None, lambda r: b'"result"' in r.content)),
    (
        "C-LHTTP-24.c",
        header_is(SESSION, "!", lambda r: '"' in r.headers.get(SESSION, "")),
    ),
    ("C-F28.a", header_is(SESSION, "none", lambda r: SESSION not in r.headers)),
    ("C-LHTTP-14.a", header_is("accept", "*/*", lambda r: r.method == "GET")),
    (
        "C-F32.a",
        header_is("last-event-id", "part-1", lambda r: "last-event-id" in r.headers),
    ),
)
for _case, _change in HEADERS:
    requests(_case, "http")(_change)


@outgoing("C-LHTTP-03.a", "http")
def sends_lists(message):
    return [json.dumps([message]).encode()] if "id" not in message else None


class Body(httpx.AsyncByteStream):
    """The body of a response with other chunks."""

    def __init__(self, response, chunks):
        self.stream, self.chunks = response.stream, chunks

    def __aiter__(self):
        return self.chunks

    async def aclose(self):
        await self.chunks.aclose()
        await self.stream.aclose()


async def changed_chunks(stream, change):
    """Yield changed chunks; `change` also gets the empty one at the end."""
    async for chunk in stream:
        yield change(chunk)
    yield change(b"")


def changes_chunks(make_change):
    """Return a client that changes the chunks of responses; one change for each."""

    async def change(request, send):
        response = await send(request)
        if request.method == "POST":
            chunks = changed_chunks(response.stream, make_change(response))
            response.stream = Body(response, chunks)
        return response

    return change


@exchanges("C-LHTTP-14.b", "http")
async def reads_nothing_of_the_get_stream(request, send):
    response = await send(request)
    if request.method == "GET" and "last-event-id" not in request.headers:
        chunks = changed_chunks(response.stream, lambda chunk: chunk and b":\n\n")
        response.stream = Body(response, chunks)
    return response


def stops_at(is_refused):
    """Return a client that raises at a response with such a type, size or body."""

    def make_change(response):
        body = b""

        def change(chunk):
            nonlocal body
            body += chunk
            if is_refused(response, body):
                raise ValueError("this response is unknown")
            return chunk

        if response.headers.get("content-length") == "0":  # nobody reads the body
            change(b"")
        return change

    return changes_chunks(make_change)


def is_event_stream(response):
    return "event-stream" in response.headers.get("content-type", "").lower()


def has(pattern):
    """Return whether an event stream matches a pattern."""
    return lambda r, body: is_event_stream(r) and re.search(pattern, body)


REFUSED = (
    ("C-F24.a", lambda r, _: ";" in r.headers.get("content-type", "")),
    ("C-F24.b", lambda r, _: "chunked" in str(r.headers) and not is_event_stream(r)),
    ("C-F25.a", lambda r, body: r.status_code == 200 and not body),
    ("C-RPC-13.a", has(b"data: \\[")),
    ("C-TR-HTTP-13.a", has(b"^event: message\ndata: {")),
    ("C-TR-HTTP-13.b", has(b"\r\n")),
    ("C-TR-HTTP-13.c", has(b"\r[^\n]")),
    ("C-TR-HTTP-13.d", has(b"data.*\ndata")),
    ("C-TR-HTTP-13.e", has(b"data:[^ ]")),
    ("C-TR-HTTP-13.f", has(b"\0")),
    ("C-F30.c", has(b"^\xef\xbb\xbf")),
    ("C-TR-HTTP-13.h", has(b"^data")),
    ("C-TR-HTTP-20.a", has(b"(?m)^:")),
    ("C-F30.a", has(b"event: ping")),
    ("C-F30.b", lambda _, body: len(body) > 4 * 1024**2),
    ("C-LHTTP-06.a", has(b"data:\n")),
    ("C-LHTTP-11.a", has(b"notifications/message")),
)
for _case, _is_refused in REFUSED:
    exchanges(_case, "http")(stops_at(_is_refused))


exchanges("C-TR-HTTP-13.g", "http")(
    changes_chunks(lambda _: lambda chunk: chunk.decode().encode())
)


@exchanges("C-F23.a", "http")
class FailsOnClosedConnection:
    stream = None

    async def __call__(self, request, send):
        if self.stream is not None and self.stream.get_extra_info("is_readable"):
            raise ConnectionResetError
        response = await send(request)
        if request.method == "POST":
            self.stream = response.extensions["network_stream"]
        return response


# --- requests that are repeated -------------------------------------------------------


def repeats(is_failed, method="POST"):
    """Return a client that repeats a request as long as it fails."""

    async def change(request, send):
        response = await send(request)
        if request.method == method:
            while is_failed(response, await read_start(response)):
                await response.aclose()
                response = await send(request)
        return response

    return change


@exchanges("C-F21.a", "http")
async def repeats_without_response(request, send):
    while True:
        with contextlib.suppress(httpx.RemoteProtocolError):
            return await send(request)


@exchanges("C-F22.a", "http")
async def repeats_at_cut_body(request, send):
    while True:
        response = await send(request)
        try:
            await read_start(response)
        except httpx.RemoteProtocolError:
            continue
        return response


async def read_start(response):
    """Return the body, of an event stream up to its first message; it stays."""
    stream, body = aiter(response.stream), b""
    async for chunk in stream:
        body += chunk
        if is_event_stream(response) and b"data" in body:
            break

    async def whole():
        yield body
        async for chunk in stream:
            yield chunk

    response.stream = Body(response, whole())
    return body


def status_is(status):
    return lambda response, _: response.status_code == status


def _page_of(content_type):
    """Return a predicate for successful responses with a page."""

    def is_page(response, body):
        is_type = content_type in response.headers.get("content-type", "")
        return response.status_code == 200 and is_type and b"<p>" in body

    return is_page


def _unavailable(*, has_time):
    return lambda response, _: (
        response.status_code == 503 and ("retry-after" in response.headers) == has_time
    )


REPEATED = (
    ("C-F24.c", _page_of("text/html")),
    ("C-F24.d", _page_of("application/json")),
    ("C-F26.a", lambda r, body: r.status_code == 400 and b"not now" in body),
    ("C-F26.b", status_is(401)),
    ("C-F26.c", status_is(403)),
    ("C-F26.d", status_is(404)),
    ("C-F26.e", status_is(429)),
    ("C-F26.f", status_is(500)),
    ("C-F26.g", _unavailable(has_time=False)),
    ("C-F26.h", status_is(307)),
    ("C-F36.a", _unavailable(has_time=True)),
    ("C-F31.a", lambda _, body: body == b": working\n\n"),
    (
        "C-TR-HTTP-22.a",
        lambda _, body: body.startswith(b"id: 1") and b"data" not in body,
    ),
)
for _case, _is_failed in REPEATED:
    exchanges(_case, "http")(repeats(_is_failed))
exchanges("C-E07.a", "http")(repeats(lambda _, body: body == b"", "GET"))


@exchanges("C-F25.b", "http")
async def repeats_accepted(request, send):
    response = await send(request)
    while is_request(request) and response.status_code == 202:
        await response.aread()  # it frees its connection
        response = await send(request)
    return response


@exchanges("C-S02.a", "http")
async def follows_redirects(request, send):
    response = await send(request)
    if response.status_code != 307:
        return response
    fields = {k: v for k, v in request.headers.items() if k != "host"}
    url = response.headers["location"]
    return await send(
        httpx.Request("POST", url, headers=fields, content=request.content)
    )


# --- sessions -------------------------------------------------------------------------


@exchanges("C-LHTTP-27.a", "http")
async def keeps_its_session(request, send):
    response = await send(request)
    is_lost = response.status_code == 404 and SESSION in request.headers
    return httpx.Response(500) if is_lost else response


@exchanges("C-LHTTP-27.b", "http")
class ForgetsTheRequest:
    starts = 0

    async def __call__(self, request, send):
        is_start = b'"initialize"' in request.content
        self.starts += is_start
        if self.starts > 1 and is_request(request) and not is_start:
            return httpx.Response(400)
        return await send(request)


@exchanges("C-F27.a", "http")
async def renews_without_end(request, send):
    while (response := await send(request)).status_code == 404:
        if SESSION not in request.headers:
            break
        start = b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'
        fields = {k: v for k, v in request.headers.items() if k != SESSION}
        fields["content-length"] = str(len(start))
        new = await send(
            httpx.Request("POST", request.url, headers=fields, content=start)
        )
        await asyncio.gather(response.aread(), new.aread())
        request.headers[SESSION] = new.headers[SESSION]
    return response


@exchanges("C-LHTTP-28.a", "http")
async def ends_silently(request, send):
    return httpx.Response(204) if request.method == "DELETE" else await send(request)


async def use_and_delete(target):
    await use_all(target)
    async with httpx.AsyncClient(timeout=0.5) as client:
        (await client.delete(target.url)).raise_for_status()


for _letter in "abc":
    exchanges(f"C-E04.{_letter}", "http", use=use_and_delete)(
        lambda request, send: send(request)
    )


# --- streams --------------------------------------------------------------------------


@exchanges("C-LHTTP-21.a", "http")
async def never_resumes(request, send):
    if "last-event-id" in request.headers:
        return httpx.Response(405)
    return await send(request)


@exchanges("C-F31.b", "http")
async def resumes_always(request, send):
    response = await send(request)
    if is_request(request) and is_event_stream(response):
        fields = {"last-event-id": "1"}
        await (await send(httpx.Request("GET", request.url, headers=fields))).aread()
    return response


exchanges("C-LHTTP-08.a", "http")(
    changes_chunks(lambda _: lambda chunk: chunk.replace(b"retry: 500", b"retry: 1"))
)


class NeedsTheGetStream:
    def __init__(self):
        self.status = asyncio.Future()

    async def __call__(self, request, send):
        if is_request(request) and b"tools/list" in request.content:
            assert await asyncio.wait_for(self.status, 2) == 200
        response = await send(request)
        if request.method == "GET" and not self.status.done():
            self.status.set_result(response.status_code)
        return response


for _letter in "abcd":
    exchanges(f"C-F29.{_letter}", "http")(NeedsTheGetStream)
