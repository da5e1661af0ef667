"""Lines that a stranger can cause any number of times do not fill the log."""

import pytest

from mcpwire.server.log_limit import LogLimit


@pytest.fixture(autouse=True)
def interval(monkeypatch):
    monkeypatch.setattr(LogLimit, "INTERVAL_S", 1.0)


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def limit(now):
    return LogLimit(lambda: now[0])


def test_each_kind_has_a_line_a_second(limit, now):
    lines = []

    def write(message, *args):
        lines.append(message % args)

    for n in range(3):
        limit.log(write, "bad token %d", n)
        limit.log(write, "bad frame")
    now[0] += 1
    limit.log(write, "bad token %d", 9)
    limit.log(write, "bad token %d", 10)
    now[0] += 1
    limit.log(write, "bad frame")
    assert lines == [
        "bad token 0",
        "bad frame",
        "bad token 9 (2 more were not logged)",
        "bad frame (2 more were not logged)",
    ]


def test_options_go_to_the_logger(limit):
    seen = []
    limit.log(lambda *args, **options: seen.append((args, options)), "x", exc_info=1)
    assert seen == [(("x",), {"exc_info": 1})]
