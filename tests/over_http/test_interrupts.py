"""The tool that interrupts: what it raises must reach somebody."""

import gc
import sys

from interrupts import Interrupts

import mcpwire.sync


def test_what_a_finaliser_calls_has_no_moment_and_what_comes_after_it_has():
    client = mcpwire.sync.Client("http://127.0.0.1:1/")
    with Interrupts(10**9) as interrupts:
        del client
        assert interrupts.passed == 0
        mcpwire.sync.Client("http://127.0.0.1:1/")
        assert interrupts.passed > 0


def test_the_collector_rests_meanwhile_and_works_again_afterwards():
    with Interrupts(10**9):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_whoever_traced_before_goes_on():
    before = sys.gettrace()
    with Interrupts(10**9):
        assert sys.gettrace() != before
    assert sys.gettrace() == before
