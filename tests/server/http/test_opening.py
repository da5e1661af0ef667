"""Sessions over HTTP: slow opening, resuming, and ids from the dispatcher."""

import asyncio
import json

import pytest
import raw_client
from asgi_driver import Visit, scope
from hosted import fields

from mcpwire.errors import InternalError, InvalidRequest
from mcpwire.server.dispatcher import Dispatcher
from mcpwire.server.http.app import AsgiApp
from mcpwire.server.request import IN_MEMORY, Session
from mcpwire.types import Implementation
from mcpwire.versions import find_revision

INITIALIZE = raw_client.request(0, "initialize", raw_client.session())
LIST = raw_client.request(1, "tools/list", {})
KNOWN = "known-elsewhere"


class SlowDispatcher(Dispatcher):
    """Opens sessions when the test allows it; knows ids that are not in memory."""

    opens_in_task = True
    answers_cancelled = True

    def __init__(self, **options):
        super().__init__(
            Implementation(**raw_client.SERVER),
            capabilities={"tools": {}},
            methods={"tools/list": self.list},
            **options,
        )
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.listing = asyncio.Event()
        self.opening = asyncio.Event()
        self.refusal = None
        self.id = None
        self.discarded, self.closed, self.withdrawn, self.resumed = [], [], [], []
        self.notifications, self.opened = [], []
        self.cancelled = 0

    async def list(self, params, request):
        self.listing.set()
        await self.may_answer.wait()
        return {"tools": []}

    async def wait(self):
        self.opening.set()
        try:
            await self.may_open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.refusal is not None:
            raise self.refusal

    async def open_session(self, params, session, info=IN_MEMORY):
        await self.wait()
        opened = super().initialize(params, session, info)
        self.opened.append(opened[0])
        return opened

    def initialize(self, params, session, info=IN_MEMORY):
        if session is None:
            return super().initialize(params, session, info)
        return session, {"again": True}

    def new_session_id(self, session):
        if isinstance(self.id, Exception):
            raise self.id
        return self.id

    async def resume_session(self, id, info):
        self.resumed.append(id)
        await self.wait()
        if not id.startswith(KNOWN):
            return None
        return Session(find_revision("2025-11-25"), {}, {}, principal=info.principal)

    async def delete_session(self, id, info):
        return id.startswith(KNOWN)

    def withdraw_session_id(self, id):
        self.withdrawn.append(id)

    def discard_session(self, session):
        self.discarded.append(session)
        super().discard_session(session)

    async def wait_session_closed(self, session):
        self.closed.append(session)

    def on_notification(self, session, method, params):
        self.notifications.append(method)
        super().on_notification(session, method, params)


@pytest.fixture
def dispatcher():
    return SlowDispatcher()


@pytest.fixture
async def app(dispatcher):
    made = AsgiApp(dispatcher, max_sessions=2, stream_after=30.0)
    yield made
    dispatcher.may_open.set()
    await made.aclose()


def begin_request(app, message, verb="POST", **more):
    named = fields(mcp_protocol_version=None, **more)
    body = b"" if message is None else json.dumps(message).encode()
    return Visit(scope(verb, headers=named), body).begin(app)


async def post(app, message, **more):
    return await begin_request(app, message, **more).done()


async def open_session(app):
    return (await post(app, INITIALIZE)).headers["mcp-session-id"]


async def status(app, verb, id):
    return (await begin_request(app, None, verb, mcp_session_id=id).done()).status


async def test_session_opens_asynchronously_with_the_dispatchers_id(dispatcher, app):
    dispatcher.id = "of-the-dispatcher"
    dispatcher.may_open.clear()
    visit = begin_request(app, INITIALIZE)
    await dispatcher.opening.wait()
    assert visit.status is None
    dispatcher.may_open.set()
    answer = await visit.done()
    assert answer.headers["mcp-session-id"] == "of-the-dispatcher"
    answer = await post(app, LIST, mcp_session_id="of-the-dispatcher")
    assert (answer.status, answer.json()["result"]) == (200, {"tools": []})


async def test_disconnect_while_opening_cancels_and_frees_the_session(dispatcher, app):
    dispatcher.may_open.clear()
    visit = begin_request(app, INITIALIZE)
    await dispatcher.opening.wait()
    await visit.disconnect()
    assert dispatcher.cancelled == 1
    assert visit.status == 499
    dispatcher.may_open.set()
    for _ in range(2):  # its place is free again
        assert (await post(app, INITIALIZE)).status == 200


async def test_failure_to_open_for_a_client_that_has_gone_is_no_error(
    dispatcher, app, caplog
):
    async def open_session(*_):
        dispatcher.opening.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionResetError("while it was cancelled")

    dispatcher.open_session = open_session
    visit = begin_request(app, INITIALIZE)
    await dispatcher.opening.wait()
    await visit.disconnect()
    assert (visit.status, caplog.records) == (499, [])


async def test_session_opened_after_a_disconnect_is_discarded(dispatcher, app):

    async def stubborn(params, session, info):
        opened = Dispatcher.initialize(dispatcher, params, session, info)
        dispatcher.opening.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return opened

    dispatcher.open_session = stubborn
    visit = begin_request(app, INITIALIZE)
    await dispatcher.opening.wait()
    await visit.disconnect()
    assert len(dispatcher.discarded) == 1


async def test_opening_sessions_count_towards_the_maximum(dispatcher, app):
    dispatcher.may_open.clear()
    visits = [begin_request(app, INITIALIZE) for _ in range(3)]
    answer = await visits[2].done()
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    dispatcher.may_open.set()
    assert [(await visit.done()).status for visit in visits[:2]] == [200, 200]


async def test_error_while_opening_is_the_response_to_initialize(dispatcher, app):
    dispatcher.refusal = InternalError("the upstream 'a' is not there")
    answer = await post(app, INITIALIZE)
    assert (answer.status, answer.json()["error"]["code"]) == (200, -32603)


async def test_session_without_a_valid_id_is_discarded(dispatcher, app):
    dispatcher.id = InvalidRequest("the id would be too long")
    answer = await post(app, INITIALIZE)
    assert answer.json()["error"]["code"] == -32600
    assert len(dispatcher.discarded) == 1


@pytest.mark.system("O29")
async def test_requests_with_the_same_unknown_id_resume_it_once(dispatcher, app):
    dispatcher.may_open.clear()
    visits = [begin_request(app, INITIALIZE, mcp_session_id=KNOWN) for _ in range(2)]
    visits += [
        begin_request(app, {**LIST, "id": id}, mcp_session_id=KNOWN) for id in (7, 8)
    ]
    await dispatcher.opening.wait()
    dispatcher.may_open.set()
    answers = [await visit.done() for visit in visits]
    assert [answer.status for answer in answers] == [200] * 4
    assert answers[0].json()["result"] == answers[1].json()["result"] == {"again": True}
    assert answers[2].json()["result"] == answers[3].json()["result"] == {"tools": []}
    assert "mcp-session-id" not in answers[0].headers
    assert dispatcher.resumed == [KNOWN]


@pytest.mark.system("O53")
async def test_session_id_unknown_to_the_dispatcher_gets_404(app):
    for message in (INITIALIZE, LIST):
        assert (await post(app, message, mcp_session_id="unknown")).status == 404
    for verb in ("GET", "DELETE"):
        assert await status(app, verb, "unknown") == 404


async def test_unknown_session_ids_evict_no_session(app):
    ids = [await open_session(app) for _ in range(2)]
    await post(app, LIST, mcp_session_id="unknown")
    for id in ids:
        assert (await post(app, LIST, mcp_session_id=id)).status == 200


async def test_resumed_session_evicts_an_idle_one_or_is_refused(dispatcher, app):
    first = await open_session(app)
    assert (await post(app, LIST, mcp_session_id=f"{KNOWN}-1")).status == 200
    assert (await post(app, LIST, mcp_session_id=f"{KNOWN}-2")).status == 200
    assert (await post(app, LIST, mcp_session_id=first)).status == 404
    dispatcher.may_answer.clear()
    busy = []
    for number in (1, 2):
        dispatcher.listing.clear()
        busy.append(begin_request(app, LIST, mcp_session_id=f"{KNOWN}-{number}"))
        await dispatcher.listing.wait()
    assert (await post(app, LIST, mcp_session_id=f"{KNOWN}-3")).status == 503
    assert len(dispatcher.discarded) == 2
    dispatcher.may_answer.set()
    assert [(await visit.done()).status for visit in busy] == [200, 200]


async def test_error_while_resuming_is_the_response_to_all_waiters(dispatcher, app):
    dispatcher.refusal = InternalError("the upstream 'a' is not there")
    visits = [begin_request(app, LIST, mcp_session_id=KNOWN) for _ in range(2)]
    for visit in visits:
        assert (await visit.done()).json()["error"]["code"] == -32603


async def test_closing_the_application_answers_requests_that_wait(dispatcher, app):
    dispatcher.may_open.clear()
    visit = begin_request(app, LIST, mcp_session_id=KNOWN)
    await dispatcher.opening.wait()
    await app.aclose()
    assert (await visit.done()).status == 404
    assert dispatcher.cancelled == 1


async def test_get_resumes_a_session_of_another_process(dispatcher, app):
    visit = begin_request(app, None, "GET", mcp_session_id=KNOWN)
    await visit.until(lambda visit: visit.status == 200)
    await visit.disconnect()
    assert dispatcher.resumed == [KNOWN]


@pytest.mark.system("O57")
async def test_delete_withdraws_the_id_and_waits_for_closing(dispatcher, app):
    id = await open_session(app)
    assert await status(app, "DELETE", id) == 204
    assert dispatcher.withdrawn == [id]
    assert dispatcher.discarded == dispatcher.closed
    assert len(dispatcher.discarded) == 1
    assert (await post(app, LIST, mcp_session_id=id)).status == 404


@pytest.mark.system("O57")
async def test_delete_of_an_id_known_to_the_dispatcher_resumes_nothing(dispatcher, app):
    assert await status(app, "DELETE", KNOWN) == 204
    assert dispatcher.resumed == []


async def test_duplicate_session_id_of_the_dispatcher_gets_500(dispatcher, app):
    dispatcher.id = "twice"
    assert (await post(app, INITIALIZE)).status == 200
    assert (await post(app, INITIALIZE)).status == 500


@pytest.mark.system("O60")
async def test_cancelled_request_is_answered_if_the_dispatcher_requires_it(
    dispatcher, app
):
    id = await open_session(app)
    dispatcher.may_answer.clear()
    visit = begin_request(app, LIST, mcp_session_id=id)
    await dispatcher.listing.wait()
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    await post(app, {"jsonrpc": "2.0", **cancel}, mcp_session_id=id)
    answer = await visit.done()
    assert answer.json()["error"] == {"code": -32800, "message": "request cancelled"}


async def test_client_notifications_reach_the_dispatcher(dispatcher, app):
    id = await open_session(app)
    for method in ("notifications/initialized", "notifications/roots/list_changed"):
        await post(app, {"jsonrpc": "2.0", "method": method}, mcp_session_id=id)
    assert dispatcher.notifications == [
        "notifications/initialized",
        "notifications/roots/list_changed",
    ]


async def test_session_can_send_a_request_outside_of_any_call(dispatcher, app):
    id = await open_session(app)
    stream = begin_request(app, None, "GET", mcp_session_id=id)
    await stream.until(lambda visit: visit.status == 200)
    (session,) = dispatcher.opened
    pending = asyncio.ensure_future(session.ask("roots/list", {}))
    await stream.until(lambda visit: any("roots/list" in str(e) for e in visit.sent))
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}
    await post(app, answer, mcp_session_id=id)
    assert await pending == {"roots": []}
    await stream.disconnect()


async def test_server_can_end_a_session(dispatcher, app):
    id = await open_session(app)
    (session,) = dispatcher.opened
    session.end()
    assert session.is_closed
    assert dispatcher.discarded == [session]
    assert session.end is None
    assert (await post(app, LIST, mcp_session_id=id)).status == 404
