"""No secret is in any message, log record, repr or traced head."""

import logging
import traceback

import pytest
from faulty import ANSWER, ENGINES, ONCE, answering, outcome, until
from living import living
from mcp_server import scripted_mcp
from ports import kept_port
from raw_server import reply

import mcpwire
from mcpwire.transports.http.direct import DirectEngine
from mcpwire.transports.http.httpx_engine import HttpxEngine
from mcpwire.transports.http.streamable import HttpChannel

pytestmark = pytest.mark.attack("S02")

SECRET = "sentinel-3f9c1d"


def static(url, **options):
    return mcpwire.Http(url, headers={"Authorization": f"Bearer {SECRET}"}, **options)


def by_function(url, **options):
    return mcpwire.Http(url, headers=lambda: {"X-Api-Key": SECRET}, **options)


def in_query(url, **options):
    return mcpwire.Http(f"{url}?key={SECRET}&token={SECRET}", **options)


TARGETS = {"static": static, "function": by_function, "query": in_query}

ANSWERS = {
    "json": None,
    "500": answering(reply(500, b"no")),
    "401": answering(reply(401, b"", www_authenticate='Bearer realm="a"')),
    "404": answering(reply(404)),
    "redirect": answering(reply(307, location=f"https://x.example/?token={SECRET}")),
    "redirect here": answering(reply(307, location=f"/other?token={SECRET}")),
    "html": answering(reply(200, b"<html>", content_type="text/html")),
    "fin": answering(b"", "close"),
    "rst": answering(b"", "reset"),
    "no http": answering(b"what?\r\n\r\n", "close"),
    "cookie": answering(reply(418, b"", set_cookie=f"a={SECRET}")),
}


class Seen:
    """All texts that a user or a log may show."""

    def __init__(self, caplog):
        self.caplog = caplog
        self.texts = []

    def trace(self, event, data):
        if event not in {"send", "receive"}:  # the messages themselves
            self.texts.append(f"{event}: {data!r} {data}")

    def note(self, *values):
        for value in values:
            self.texts += [repr(value), str(value)]
            if isinstance(value, BaseException):
                self.texts.append("".join(traceback.format_exception_only(value)))
                cause = value.__cause__ or value.__context__
                if cause is not None:
                    self.note(cause)

    def assert_clean(self):
        for record in self.caplog.records:
            if record.name.startswith("httpcore"):
                continue  # log records of another library are its own
            self.texts.append(f"{record.name}: {record.getMessage()}")
            self.texts.append(str(record.exc_text or ""))
        found = [text for text in self.texts if SECRET in text]
        assert not found, found[:3]


@pytest.mark.grounds(1, "engine")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("case", ANSWERS)
async def test_shown_texts_hold_no_secret(case, kind, engine, caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "mcpwire")
    seen = Seen(caplog)

    async def sampling(request):
        return ANSWER

    with scripted_mcp() as server:
        target = TARGETS[kind](server.url, engine=engine, server_stream="always")
        client = mcpwire.Client(
            target, recovery=ONCE, trace=seen.trace, sampling=sampling
        )
        await client.connect()
        await until(lambda: "GET" in server.verbs())
        if ANSWERS[case] is not None:
            for key in ("tools/call", "notifications/x", "DELETE", "answer"):
                server.on[key] = ANSWERS[case]
        headers = {"X-Token": SECRET}
        seen.note(
            await outcome(client.call_tool("ask", headers=headers, timeout=1)),
            await outcome(client.notify("notifications/x", headers=headers)),
            await outcome(client.call_tool("echo", headers={"X-Token": SECRET + "\n"})),
            client,
            target,
            *living(HttpChannel),
            *living(DirectEngine),
            *living(HttpxEngine),
            client.negotiation,
            client.stats,
        )
        await client.aclose()
        seen.note(client)
    seen.assert_clean()


@pytest.fixture
def port():
    with kept_port() as unused:
        yield unused


@pytest.mark.system("A14")
@pytest.mark.parametrize("kind", TARGETS)
async def test_connect_error_shows_no_secret(kind, port, caplog):
    caplog.set_level(logging.DEBUG)
    seen = Seen(caplog)
    urls = {
        f"http://127.0.0.1:{port}/mcp": {},
        "https://no.such.host.invalid/mcp": {},
        f"https://127.0.0.1:{port}/mcp": {},
    }
    for url, options in urls.items():
        target = TARGETS[kind](url, **options)
        client = mcpwire.Client(target, recovery=ONCE, trace=seen.trace)
        seen.note(await outcome(client.connect()), client)
    seen.assert_clean()
