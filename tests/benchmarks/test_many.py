"""The benchmark of many servers and sessions, run with a few of each."""

import os

import pytest


@pytest.fixture
def bench(compiled):
    return compiled("bench_many")


def test_each_baseline_is_measured_too(bench):
    names = {each.name for each in bench.variants()}
    assert {each.baseline for each in bench.variants()} == {bench.FLOOR, bench.SERVER}
    assert {bench.FLOOR, bench.SERVER} < names


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
@pytest.mark.parametrize(
    ("name", "files"), [("Group, children", 4), ("gateway, a child each", 5)]
)
async def test_each_server_uses_a_fixed_number_of_files(bench, name, files):
    variant = next(each for each in bench.variants() if each.name == name)
    figures = await bench.measure_variant(variant, 3)
    assert figures.keys() == {"each_kib", "files_each", "opening_ms", "cpu_us"}
    assert figures["files_each"] == files
    assert min(figures["opening_ms"], figures["cpu_us"]) > 0
