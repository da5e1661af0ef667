"""Other web servers run the application, too."""

import asyncio
import contextlib
import json
import sys

import pytest
from asgi_driver import Visit, scope
from hosted import app, call, fields, post, posted
from ports import kept_port
from raw_sockets import PATHS, TIMEOUT_S, raw, socket_request, tells

# Other web servers...


async def check_responses(port):
    url = f"http://127.0.0.1:{port}/mcp"
    status, _, body = await socket_request(url, raw(call()))
    assert status == 200
    assert json.loads(body)["id"] == 1
    message = call(progressToken="t")
    status, head, body = await socket_request(url, raw(message))
    assert status == 200
    assert b"text/event-stream" in head
    assert b'"progress":1' in body
    assert b'"result"' in body
    status, _, body = await socket_request(url, raw(b"{", content_length="1"))
    assert status == 400


@pytest.fixture
def port():
    with kept_port() as kept:
        yield kept


async def test_hypercorn_runs_the_application(port):
    hypercorn = pytest.importorskip("hypercorn.asyncio")
    config = pytest.importorskip("hypercorn.config").Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.errorlog = config.accesslog = None
    config.graceful_timeout = 0.1
    stop = asyncio.Event()
    made = app(tells)
    task = asyncio.get_running_loop().create_task(
        hypercorn.serve(made, config, shutdown_trigger=stop.wait)
    )
    try:
        await wait_for_port(port)
        await check_responses(port)
    finally:
        stop.set()
        await asyncio.wait_for(task, TIMEOUT_S)
    assert (await post(made, call())).status == 503  # it was shut down


async def wait_for_port(port):
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.01)  # another program's port has no event


GRANIAN = """
import asyncio, sys
sys.path[:0] = {paths!r}
import hosted, raw_sockets
from granian.server.embed import Server

server = Server(hosted.app(raw_sockets.tells), port={port}, interface="asgi",
                log_enabled=False, websockets=False)
asyncio.run(server.serve())
"""


async def test_granian_runs_the_application(port):
    pytest.importorskip("granian")
    # Its threads keep some descriptors for as long as the process lives.
    program = GRANIAN.format(paths=PATHS, port=port)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    try:
        await wait_for_port(port)
        await check_responses(port)
    finally:
        child.kill()
        await child.wait()


async def test_starlette_mounts_the_application():
    applications = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    outer = applications.Starlette(routes=[routing.Mount("/api", app=app())])
    for path in ("/api/mcp", "/api/"):
        body = json.dumps(call()).encode()
        visit = Visit(scope(path=path, headers=fields(call())), body)
        await visit.begin(outer).done()
        assert visit.json()["result"]["content"]


async def test_starlette_middleware_gets_a_499_response_after_a_disconnect():
    # Without one it raises, and the server logs a traceback for each such client.
    middleware = pytest.importorskip("starlette.middleware.base")
    statuses = []
    began = asyncio.Event()

    async def slow(params, request):
        began.set()
        await asyncio.Event().wait()

    async def watch(request, call_next):
        answer = await call_next(request)
        statuses.append(answer.status_code)
        return answer

    made = app(slow, json_only=True, stream_after=0.0)
    visit = posted(call()).begin(middleware.BaseHTTPMiddleware(made, watch))
    await began.wait()
    await visit.disconnect()
    assert statuses == [499]
