"""HTTP+SSE: the headers of its requests, and whose they are."""

import pytest
from legacy_faces import failure, opened, said
from legacy_server import legacy_server

from mcpwire.errors import LocalProtocolError

pytestmark = pytest.mark.grounds(1, "engine")


def posts(server):
    return [request for request in server.requests if request.verb == "POST"]


@pytest.mark.pain("P27")
def test_headers_are_asked_for_with_every_request(engine):
    names = iter("abcdef")

    async def async_headers():
        return {"X-Name": next(names)}

    for headers in (lambda: {"X-Name": next(names)}, async_headers):
        with (
            legacy_server() as server,
            opened(server.url, engine, headers=headers) as face,
        ):
            face.call("ping")
            face.notify("notifications/initialized")
            server.wait_until(lambda: len(server.requests) == 3)
            got = [request.headers["x-name"] for request in server.requests]
        assert got in (["a", "b", "c"], ["d", "e", "f"])


@pytest.mark.pain("P27")
def test_one_message_may_have_headers_of_its_own(engine):
    with (
        legacy_server() as server,
        opened(server.url, engine, headers={"X-Who": "all", "X-Also": "1"}) as face,
    ):
        assert said(face.tool("a", headers={"X-Who": "a"})) == "a"
        assert face.call("ping", headers={"X-Who": "b"}) == {}
        assert face.call("ping") == {}
        face.notify("notifications/initialized", headers={"X-Who": "c"})
        face.notify("notifications/initialized")
        server.wait_until(lambda: len(posts(server)) == 5)
        got = [request.headers["x-who"] for request in server.requests]
        assert got == ["all", "a", "b", "all", "c", "all"]
        assert {request.headers["x-also"] for request in server.requests} == {"1"}
        assert "params" not in server.requests[2].json


@pytest.mark.parametrize("name", ["X\nY", "X Y", ""])
def test_what_is_no_header_leaves_with_nobody(engine, name):
    with legacy_server() as server, opened(server.url, engine) as face:
        face.ready()
        with pytest.raises(LocalProtocolError):
            face.call("ping", headers={name: "x"})
        with pytest.raises(LocalProtocolError):
            face.notify("notifications/initialized", headers={name: "x"})
        assert face.call("ping") == {}
        assert len(posts(server)) == 1


@pytest.mark.pain("P27")
def test_headers_of_calls_at_once_do_not_mix(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        calls = [face.tool(str(n), headers={"X-Who": str(n)}) for n in range(40)]
        assert [said(call) for call in calls] == [str(n) for n in range(40)]
        for request in posts(server):
            text = request.json["params"]["arguments"]["text"]
            assert request.headers["x-who"] == text


@pytest.mark.pain("P27")
def test_headers_of_a_message_that_did_not_leave_go_with_no_other(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        face.ready()
        bad = {"name": "x", "arguments": {"x": object()}}
        with pytest.raises(LocalProtocolError):
            face.call("tools/call", bad, headers={"X-Who": "me"})
        with pytest.raises(LocalProtocolError):
            face.notify("notifications/initialized", bad, headers={"X-Who": "me"})
        assert face.call("ping") == {}
        face.notify("notifications/initialized")
        server.wait_until(lambda: len(posts(server)) == 2)
        assert not [
            request for request in server.requests if "x-who" in request.headers
        ]


@pytest.mark.pain("P27")
def test_what_a_function_for_headers_raises_comes_out_of_its_call(engine):
    class NoToken(Exception):
        pass

    tokens = [{}, NoToken("a"), {}]

    def headers():
        token = tokens.pop(0)
        if isinstance(token, Exception):
            raise token
        return token

    with legacy_server() as server, opened(server.url, engine, headers=headers) as face:
        face.ready()
        assert isinstance(failure(face.begin("ping")), NoToken)
        assert face.call("ping") == {}
        assert len(posts(server)) == 1


def test_what_it_raises_at_first_comes_out_of_ready(engine):
    def headers():
        raise ZeroDivisionError

    with legacy_server() as server, opened(server.url, engine, headers=headers) as face:
        with pytest.raises(ZeroDivisionError):
            face.ready()
        assert server.requests == []
