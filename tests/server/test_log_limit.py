"""Lines that a stranger can cause any number of times do not fill the log."""

import logging

import pytest

from mcpwire.server.log_limit import LimitedLogger, LogLimit, place_of

INTERVAL_S = LogLimit.INTERVAL_S  # what users get; other tests have every line


@pytest.fixture(autouse=True)
def interval(monkeypatch):
    monkeypatch.setattr(LogLimit, "INTERVAL_S", INTERVAL_S)


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def limit(now):
    return LogLimit(lambda: now[0])


@pytest.mark.attack("X13")
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


def test_kinds_have_lines_of_their_own_up_to_a_bound(limit, now):
    lines = []
    for _ in range(2):
        for n in range(20):
            limit.log(lambda *args: lines.append(args), "%d", n, kind=n)
    # Those beyond the bound share one, which nothing of the others frees.
    assert [n for _, n in lines] == list(range(17))
    now[0] += 1
    limit.log(lambda *args: lines.append(args), "%d", 99, kind=99)
    assert lines[-1] == ("%d", 99)


def test_a_limited_logger_bounds_lines_that_are_for_operators(monkeypatch, caplog):
    monkeypatch.setattr("mcpwire.server.log_limit.shared", LogLimit(lambda: 1.0))
    caplog.set_level(logging.DEBUG, "mcpwire")
    logger = LimitedLogger("mcpwire")
    for n in range(3):
        logger.debug("step %d", n)
        logger.info("seen %d", n)
        logger.error("failed", kind=n)
    caplog.set_level(logging.ERROR, "mcpwire")
    logger.warning("off")
    lines = [each.getMessage() for each in caplog.records]
    kept = ["step 0", "seen 0", "failed", "step 1", "failed", "step 2", "failed"]
    assert lines == kept
    assert {each.filename for each in caplog.records} == {"test_log_limit.py"}


def test_the_kind_of_an_error_is_where_it_was_raised():
    def fails(error):
        raise error

    def caught(error):
        try:
            fails(error)
        except ValueError as raised:
            return place_of(raised)
        return None

    assert caught(ValueError(1)) == caught(ValueError(2))
    assert caught(UnicodeError()) != caught(ValueError(1))
    assert place_of(ValueError()) == "ValueError"
