"""Logins of the blocking client: users' functions in threads, Ctrl-C, no event loop."""

import socket
import threading
from urllib.parse import urlsplit

import pytest
from authorization_server import browse, oauth, protected_legacy, protected_server
from ctrl_c import interrupting

import mcpwire
import mcpwire.sync

pytestmark = pytest.mark.fault("F39")

BOUND_S = 30.0
BACK = "https://app.example/oauth/callback"


@pytest.fixture
def ctrl_c():
    with interrupting() as interrupt:
        yield interrupt


def test_login_functions_work_without_an_event_loop(auth, stateless):
    target = mcpwire.Http(stateless.url, auth=oauth(redirect_uri=BACK))
    status = mcpwire.sync.login(target)
    assert status == mcpwire.sync.login_status(target) == mcpwire.login_status(target)
    with mcpwire.sync.Client(target) as client:
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"
    assert mcpwire.sync.logout(target) is True
    assert mcpwire.sync.login_status(target) is None
    begun = mcpwire.sync.begin_login(target)
    status = mcpwire.sync.finish_login(target, browse(begun.url))
    assert status.issuer == auth.issuer
    assert auth.grants == ["authorization_code"] * 2


@pytest.mark.pain("P31")
def test_a_blocking_ask_function_does_not_block_other_threads(auth, stateless):
    ask_called, may_answer = threading.Event(), threading.Event()

    def ask(url):
        ask_called.set()
        assert may_answer.wait(BOUND_S)
        return browse(url)

    stateless.is_open = True
    with mcpwire.sync.Client(
        mcpwire.Http(stateless.url, auth=oauth(ask=ask))
    ) as client:
        stateless.is_open = False
        stateless.free.add("tools/list")
        results = []
        caller = threading.Thread(
            target=lambda: results.append(client.call_tool("echo", {"text": "hi"}))
        )
        caller.start()
        assert ask_called.wait(BOUND_S)
        assert client.list_tools()
        may_answer.set()
        caller.join(BOUND_S)
        assert [result.text for result in results] == ["hi"]


@pytest.mark.parametrize("mode", ["auto", "2024-11-05"])
def test_an_async_ask_function_is_awaited(auth, mode):
    async def ask(url):
        return browse(url)

    serve = protected_legacy if mode == "2024-11-05" else protected_server
    with serve(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth(ask=ask))
        with mcpwire.sync.Client(target, mode=mode) as client:
            assert client.call_tool("echo", {"text": "hi"}).text == "hi"


def test_close_does_not_wait_for_a_running_ask_function(auth, stateless):
    ask_called, answered = threading.Event(), threading.Event()

    def never(url):
        ask_called.set()
        answered.wait(BOUND_S)
        return url

    stateless.is_open = True
    client = mcpwire.sync.Client(mcpwire.Http(stateless.url, auth=oauth(ask=never)))
    client.connect()
    stateless.is_open = False
    call = client.start_call("echo", {"text": "hi"})
    assert ask_called.wait(BOUND_S)
    client.close()
    assert not answered.is_set()
    with pytest.raises(mcpwire.MCPError):
        call.result()
    answered.set()


@pytest.mark.pain("P32")
def test_ctrl_c_during_a_refresh_keeps_the_new_tokens(auth, stateless, ctrl_c):
    """The server has spent the old refresh token by then: there is only the new one."""
    may_answer = threading.Event()

    def slowly(request):
        usual = auth.usual(request)
        ctrl_c()
        request.conn.wait_for(may_answer, BOUND_S)
        return usual

    target = mcpwire.Http(stateless.url, auth=oauth())
    with mcpwire.sync.Client(target) as client:
        auth.expire_all()
        auth.on["token"] = slowly
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("echo", {"text": "given up"})
        may_answer.set()
        del auth.on["token"]
        assert client.call_tool("echo", {"text": "on"}).text == "on"
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert auth.reuses == 0


def test_ctrl_c_during_a_login_closes_the_callback_port(auth, stateless, ctrl_c):
    shown = []

    def show_and_interrupt(url):
        shown.append(url)
        ctrl_c()

    grant = mcpwire.OAuth(
        storage=mcpwire.MemoryStorage(), open_browser=show_and_interrupt
    )
    client = mcpwire.sync.Client(mcpwire.Http(stateless.url, auth=grant))
    with pytest.raises(KeyboardInterrupt):
        client.connect()
    client.close()
    back = callback_of(shown[0])
    with pytest.raises(ConnectionRefusedError), socket.socket() as sock:
        sock.connect((back.hostname, back.port))


def callback_of(url):
    return urlsplit(browse(url))
