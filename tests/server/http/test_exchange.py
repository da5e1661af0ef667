"""One HTTP request over ASGI: its body, its response, its client."""

import asyncio
import threading

import pytest
from asgi_driver import Visit, scope
from clocks import on_a_clock_by_hand
from loop_polling import until
from proportion import grows_in_proportion

from mcpwire import Limits
from mcpwire.errors import LocalProtocolError, ParseError
from mcpwire.server.http.exchange import (
    ClientGone,
    Exchange,
    Headers,
    HttpProblem,
    Stoppable,
    TimerQueue,
)
from mcpwire.testing import VirtualClockLoop


def opened(body=None, *, limits=None, **options):
    visit = Visit(scope(**options), body)
    made = Exchange(visit.scope, visit.receive, visit.send, limits or Limits())
    return visit, made


def test_header_names_are_lower_cased_and_values_are_stripped():
    headers = Headers([(b"X-One", b" 1\t"), (b"x-two", b"a"), (b"X-Two", b"b")])
    assert headers == {"x-one": "1", "x-two": "a, b"}
    names = ("x-one", "x-two", "x-three")
    assert [headers.get(name) for name in names] == ["1", "a, b", None]
    assert [headers.all(name) for name in names] == [["1"], ["a", "b"], []]
    assert [headers.repeats(name) for name in names] == [False, True, False]


def test_a_field_that_is_repeated_often_is_read_in_linear_time():
    # Not every web server limits the size of a head.
    assert grows_in_proportion(Headers, lambda n: [(b"a", b"b")] * n, 400_000)


def test_handlers_see_all_header_fields_except_credentials():
    fields = [("Accept", "*/*"), ("Authorization", "Bearer abc"), ("X-Key", "k")]
    _, made = opened(headers=fields)
    made.credentials |= {"x-key"}
    assert made.info.headers == {"accept": "*/*"}
    assert made.info is made.info


def test_handlers_that_change_their_headers_do_not_change_the_request():
    _, made = opened(headers=[("Accept", "*/*")])
    made.info_with(None).headers.clear()
    assert made.headers == {"accept": "*/*"}


@pytest.mark.case("D14")
@pytest.mark.attack("S13")
@pytest.mark.parametrize(
    "length",
    ["11", "9" * 5000, "1" + "0" * 16],
    ids=["one more", "5,000 digits", "17 digits"],
)
async def test_too_large_content_length_is_refused_without_reading(length):
    visit, made = opened(limits=Limits(body=10), headers=[("Content-Length", length)])
    with pytest.raises(HttpProblem) as caught:
        await made.body()
    assert caught.value.status == 413
    assert caught.value.headers == (("connection", "close"),)
    assert visit.receive_count == 0


@pytest.mark.case("D14")
@pytest.mark.attack("S13")
async def test_body_size_is_checked_while_it_is_read():
    visit, made = opened(limits=Limits(body=10), http_version="2")
    for _ in range(5):
        visit.give(b"1234", more=True)
    with pytest.raises(HttpProblem) as caught:
        await made.body()
    assert caught.value.status == 413
    assert caught.value.headers == ()
    assert visit.receive_count == 3


async def test_body_of_exactly_the_limit_is_accepted():
    _, made = opened(
        b"1234567890", limits=Limits(body=10), headers=[("Content-Length", "10")]
    )
    assert await made.body() == b"1234567890"


async def test_too_large_body_with_a_false_content_length_is_refused():
    _, made = opened(
        b"12345678901", limits=Limits(body=10), headers=[("Content-Length", "3")]
    )
    with pytest.raises(HttpProblem) as caught:
        await made.body()
    assert caught.value.status == 413


@on_a_clock_by_hand
@pytest.mark.parametrize("is_next", [False, True])
async def test_body_can_be_refused_in_the_loop_turn_of_its_timeout(is_next):
    _, made = opened(limits=Limits(body_timeout=1.0))
    loop = asyncio.get_running_loop()
    task = loop.create_task(made.body())
    await asyncio.sleep(0)  # until it reads
    stopped = loop.create_future()
    stop = lambda: stopped.set_result(made.stop_reading(HttpProblem(503, "it ends")))  # noqa: E731 - one line for two ways
    loop.call_later(2.0, *([loop.call_soon, stop] if is_next else [stop]))
    loop.jump(3.0)  # both timers are due in one turn
    with pytest.raises(HttpProblem) as caught:
        await task
    assert stopped.done()
    assert caught.value.status == 503


@pytest.mark.parametrize(
    ("events", "ends_by", "cancellations"),
    [
        ("stop", TimeoutError, 0),
        ("stop stop", TimeoutError, 0),
        ("stop finish", TimeoutError, 0),
        ("stop cancel", asyncio.CancelledError, 1),
        ("cancel stop", asyncio.CancelledError, 1),
        ("cancel", asyncio.CancelledError, 1),
        ("finish", None, 0),
    ],
)
@pytest.mark.parametrize("earlier", [0, 1])
async def test_only_a_stop_alone_ends_its_block_by_a_timeout_error(
    events, ends_by, cancellations, earlier
):
    loop = asyncio.get_running_loop()
    waiting, block, ended = loop.create_future(), Stoppable(), []

    async def run():
        task = asyncio.current_task()
        for _ in range(earlier):  # a cancellation that the task has survived
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(0)
        try:
            with block:
                await waiting
        except (TimeoutError, asyncio.CancelledError) as error:
            ended.append(type(error))
        block.stop()  # too late
        await asyncio.sleep(0)
        return task.cancelling() - earlier

    task = loop.create_task(run())
    for _ in range(earlier + 1):
        await asyncio.sleep(0)  # until it waits
    for event in events.split():
        {
            "stop": block.stop,
            "cancel": task.cancel,
            "finish": lambda: waiting.set_result(None),
        }[event]()
    assert await task == cancellations
    assert ended == ([] if ends_by is None else [ends_by])


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_cancelled_reader_stays_cancelled(is_late):
    _, made = opened()
    task = asyncio.get_running_loop().create_task(made.body())
    await asyncio.sleep(0)  # until it reads
    if is_late:
        made.stop_reading(HttpProblem(503, "no"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_disconnect_while_reading_the_body_raises_client_gone():
    visit, made = opened()
    visit.give(b"a", more=True)
    visit.leave()
    with pytest.raises(ClientGone):
        await made.body()
    assert made.is_gone
    with pytest.raises(ClientGone):
        await made.reply(400)


async def test_watch_returns_when_the_client_disconnects():
    visit, made = opened(b"")
    await made.body()
    assert not made.is_gone
    task = asyncio.get_running_loop().create_task(made.watch())
    visit.give(b"")  # some servers repeat it
    visit.leave()
    await asyncio.wait_for(task, 30)
    assert made.is_gone


async def test_reply_with_a_message_sends_one_start_and_one_body():
    visit, made = opened()
    made.extra.append((b"x-extra", b"1"))
    await made.reply(200, {"a": 1}, [("X-More", "2")])
    assert visit.sent == [
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [
                (b"x-more", b"2"),
                (b"content-type", b"application/json"),
                (b"content-length", b"7"),
                (b"x-extra", b"1"),
            ],
        },
        {"type": "http.response.body", "body": b'{"a":1}', "more_body": False},
    ]
    assert made.status == 200


@pytest.mark.case("D03")
async def test_reply_without_a_message_has_no_content_type():
    visit, made = opened()
    await made.reply(202)
    assert visit.headers == {"content-length": "0"}
    assert visit.body == b""


async def test_204_reply_has_no_content_length():
    visit, made = opened()
    await made.reply(204)
    assert visit.headers == {}


async def test_head_is_answered_without_a_body():
    visit, made = opened(verb="HEAD")
    await made.reply_bytes(200, b"abc", "text/plain")
    assert visit.headers["content-length"] == "3"
    assert visit.body == b""


async def test_unencodable_message_starts_no_response():
    visit, made = opened()
    with pytest.raises(LocalProtocolError):
        await made.reply(200, {"a": object()})
    assert visit.sent == []


@pytest.mark.case("D16")
@pytest.mark.rule("TR-HTTP-18")
async def test_stream_headers_disable_caching_and_buffering():
    visit, made = opened()
    await made.start_stream()
    await made.write(b"a")
    await made.write(b"b", is_last=True)
    assert visit.status == 200
    assert visit.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
    }
    assert [event["more_body"] for event in visit.sent[1:]] == [True, False]
    assert visit.body == b"ab"


def test_http_problem_has_the_json_rpc_error_of_its_cause():
    problem = HttpProblem(403, "why", [("a", "b")])
    assert problem.error.code == -32600
    assert problem.error.message == "why"
    assert str(problem) == "403: why"
    assert HttpProblem(400, ParseError("no")).error.code == -32700


async def test_nothing_is_sent_to_a_client_that_is_gone():
    visit, made = opened()
    await made.start_stream()
    visit.leave()
    await made.watch()
    with pytest.raises(ClientGone):
        await made.write(b"a")
    assert len(visit.sent) == 1


def in_virtual_time(main):
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        return runner.run(main())


class Repeating:
    """A callback that adds itself again each time it is called."""

    def __init__(self, queue):
        self.queue = queue
        self.called = 0

    def __call__(self):
        self.called += 1
        self.queue.add(self)


def test_one_timer_serves_callbacks_that_add_themselves_again():
    async def main():
        loop = asyncio.get_running_loop()
        timers = []
        call_at = loop.call_at
        loop.call_at = lambda at, *args, **options: (
            timers.append(at),
            call_at(at, *args, **options),
        )[1]
        queue = TimerQueue(10)
        each = [Repeating(queue) for _ in range(10)]
        for callback in each:
            queue.add(callback)
            await asyncio.sleep(0.5)
        end = loop.time() + 1_000
        await asyncio.sleep(end - loop.time())
        assert all(99 <= callback.called <= 101 for callback in each)
        # One for each time that one of them was due, and one for each sleep above.
        assert len(timers) <= 1_010 + 11

    in_virtual_time(main)


def test_failing_callback_does_not_stop_the_others():
    async def main():
        failures, called = [], []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        queue = TimerQueue(1)

        def fail():
            raise ValueError("broken")

        queue.add(fail)
        queue.add(lambda: called.append(loop.time()))
        begin = loop.time()
        await asyncio.sleep(1.5)
        assert [type(each["exception"]) for each in failures] == [ValueError]
        assert [at - begin for at in called] == [pytest.approx(1)]

    in_virtual_time(main)


def test_a_callback_may_discard_another_that_is_due():
    async def main():
        called = []
        queue = TimerQueue(1)
        other = Repeating(queue)
        queue.add(lambda: (called.append(1), queue.discard(other)))
        queue.add(other)
        await asyncio.sleep(5)
        assert (called, other.called) == ([1], 0)

    in_virtual_time(main)


def test_a_callback_is_called_on_the_loop_where_it_was_added_last():
    queue, called, is_added = TimerQueue(0.02), [], threading.Event()

    def callback():
        called.append(asyncio.get_running_loop())
        queue.discard(callback)

    async def add_again():
        queue.add(callback)
        is_added.set()
        await until(lambda: called)

    async def add():
        queue.add(callback)
        second = threading.Thread(target=asyncio.run, args=(add_again(),))
        second.start()
        is_added.wait(10)
        await asyncio.to_thread(second.join)
        return asyncio.get_running_loop()

    first = asyncio.run(add())
    assert len(called) == 1
    assert called != [first]


def test_event_loops_of_several_threads_have_separate_timers():
    queue = TimerQueue(0.1)
    barrier = threading.Barrier(2)
    called = []

    async def wait():
        ended = asyncio.Event()
        queue.add(ended.set)
        await asyncio.to_thread(barrier.wait, 10)
        async with asyncio.timeout(10):
            await ended.wait()
        called.append(asyncio.get_running_loop())

    threads = [threading.Thread(target=asyncio.run, args=(wait(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(called)) == 2
