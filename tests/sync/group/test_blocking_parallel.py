"""Several things at once in threads: all are done, and what is stopped ends."""

import threading

import pytest

from mcpwire.sync.group.parallel import run_all

BOUND_S = 30.0


class Whole:
    """What ends its tasks when it was stopped often enough."""

    def __init__(self, times=1):
        self.is_stopped = False
        self.times = times
        self.ended = threading.Event()

    def stop(self):
        self.is_stopped = True
        self.times -= 1
        if self.times <= 0:
            self.ended.set()


def test_all_is_done_by_no_more_threads_than_were_allowed():
    done, threads = [], set()

    def task(number):
        threads.add(threading.current_thread())
        done.append(number)

    run_all([lambda number=number: task(number) for number in range(20)], 3)
    assert sorted(done) == list(range(20))
    assert len(threads) <= 3
    assert not any(thread.is_alive() for thread in threads)


def test_nothing_to_do_is_done_at_once():
    run_all([], 8)


def test_what_began_just_as_all_was_stopped_is_stopped_again():
    whole = Whole(times=3)

    def fail():
        whole.stop()

    run_all([fail, lambda: whole.ended.wait(BOUND_S)], 2, whole)
    assert whole.ended.is_set()


def interrupt():
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def test_an_interrupt_leaves_to_itself_what_nobody_can_stop():
    done = []
    with pytest.raises(KeyboardInterrupt):
        run_all([interrupt, lambda: done.append(1)], 1)
    assert done == []


def test_a_thread_that_an_interrupt_kept_from_starting_is_not_waited_for(monkeypatch):
    start = threading.Thread.start
    started = []

    def second_is_interrupted(thread):
        if started:
            raise KeyboardInterrupt
        started.append(thread)
        start(thread)

    whole = Whole()
    monkeypatch.setattr(threading.Thread, "start", second_is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all([lambda: whole.ended.wait(BOUND_S)] * 2, 2, whole)
    assert not started[0].is_alive()
