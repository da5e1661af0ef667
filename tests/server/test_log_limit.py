"""Log lines that a peer can cause are limited in number."""

import logging

import pytest

from mcpwire.server.log_limit import LimitedLogger, LogLimit, error_kind

INTERVAL_S = LogLimit.INTERVAL_S  # the default; other tests log every line


@pytest.fixture(autouse=True)
def interval(monkeypatch):
    monkeypatch.setattr(LogLimit, "INTERVAL_S", INTERVAL_S)


@pytest.fixture
def now(monkeypatch, caplog):
    time = [100.0]
    monkeypatch.setattr("mcpwire.server.log_limit.shared", LogLimit(lambda: time[0]))
    caplog.set_level(logging.DEBUG, "mcpwire")
    return time


logger = LimitedLogger("mcpwire")


@pytest.mark.attack("X13")
def test_each_kind_logs_at_most_one_line_per_interval(now, caplog):
    for n in range(3):
        logger.warning("bad token %d", n)
        logger.warning("bad frame")
    now[0] += 1
    logger.warning("bad token %d", 9)
    logger.warning("bad token %d", 10)
    now[0] += 1
    logger.warning("bad frame", exc_info=ValueError())
    assert caplog.messages == [
        "bad token 0",
        "bad frame",
        "bad token 9 (2 more were not logged)",
        "bad frame (2 more were not logged)",
    ]
    assert [each.exc_info and each.exc_info[0] for each in caplog.records] == [
        *(None, None, None),
        ValueError,
    ]


def test_bounded_number_of_kinds_have_their_own_quota(now, caplog):
    for _ in range(2):
        for n in range(20):
            logger.warning("%d", n, kind=n)
    # Kinds beyond the bound share one quota, which stays used.
    assert caplog.messages == [str(n) for n in range(17)]
    now[0] += 1
    logger.warning("%d", 99, kind=99)
    assert caplog.messages[-1] == "99"


def test_debug_lines_are_not_limited(now, caplog):
    for n in range(3):
        logger.debug("step %d", n)
        logger.info("seen %d", n)
        logger.error("failed", kind=n)
    caplog.set_level(logging.ERROR, "mcpwire")
    logger.warning("off")
    kept = ["step 0", "seen 0", "failed", "step 1", "failed", "step 2", "failed"]
    assert caplog.messages == kept
    assert {each.filename for each in caplog.records} == {"test_log_limit.py"}


def test_error_kind_is_its_type_and_the_raising_line():
    def fails(error):
        raise error

    def caught(error):
        try:
            fails(error)
        except ValueError as raised:
            return error_kind(raised)
        return None

    assert caught(ValueError(1)) == caught(ValueError(2))
    assert caught(UnicodeError()) != caught(ValueError(1))
    assert error_kind(ValueError()) == "ValueError"
