"""Comparison of the speed of two sites, figure by figure."""

import random

import pytest
from made_results import result, subject

FILE = """
name = "{name}"
kind = "{kind}"
language = "C"
sdk = "none"
version = "1"
order = {order}
command = ["{{bin}}/{name}", "{{target}}"]
install = {{ pypi = ["none==1"] }}
"""
PASSES = 8


@pytest.fixture
def subjects(board, tmp_path):
    """Write the descriptions of a server and two clients."""
    folder = tmp_path / "subjects"
    folder.mkdir()
    kinds = {"server": "server", "first": "client", "second": "client"}
    for order, (name, kind) in enumerate(kinds.items()):
        text = FILE.format(name=name, kind=kind, order=order)
        (folder / f"{name}.toml").write_text(text.replace(', "{target}"', ""))
    return board("subjects").read_subjects(folder)


@pytest.fixture
def measured(board, tmp_path):
    """Return a function that stores a site, with factors of slowness."""
    speed = board("speed")

    def store(name, chance, *, machine=1.0, server=1.0, client=1.0, count=PASSES):
        found = [
            result(
                subject("floor", chance, machine),
                subject("target", chance, machine * server),
            )
            for _ in range(count)
        ]
        speed.store(tmp_path / name, "server.stdio", "ping", speed.join_passes(found))
        levels = [machine * chance.lognormvariate(0, 0.1) for _ in range(count)]
        passes = {
            "first": [{"cpu_us": level} for level in levels],
            "second": [
                {"cpu_us": client * level * chance.lognormvariate(0, 0.02)}
                for level in levels
            ],
        }
        facts = {name: {"caller": {"http": of}} for name, of in passes.items()}
        return tmp_path / name, facts

    return store


def test_passes_are_joined_as_rounds_of_one_result(board):
    chance = random.Random(1)
    of = [result(subject("floor", chance), subject("target", chance), notes=("busy",))]
    joined = board("speed").join_passes([*of, *of, *of])
    assert joined.notes == ("busy",)
    assert joined.load["rounds"] == 3
    assert joined.load["seconds"] == 30.0
    assert joined.seconds == 180.0
    (target,) = joined.targets
    (before,) = of[0].targets
    assert len(target.slices) == 3 * len(before.slices)
    assert {each.round for each in target.slices} == {0, 1, 2}
    assert target.latency_count == 3 * before.latency_count


def test_sites_of_the_same_subjects_do_not_differ(board, subjects, measured):
    # The machine is half as fast.
    chance = random.Random(2)
    sites = measured("old", chance), measured("new", chance, machine=2.0)
    (line,) = board("speed").differences(*sites, subjects)
    assert line.startswith("0 of 4 figures of speed differ; the ends of an interval")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"server": 1.5}, "server stdio ping: p50 1."),
        ({"client": 2.0}, "second http: "),
    ],
)
def test_slower_server_or_client_is_named(board, subjects, measured, change, line):
    chance = random.Random(3)
    sites = measured("old", chance), measured("new", chance, **change)
    found = board("speed").differences(*sites, subjects)
    assert any(each.startswith(line) and "of before (" in each for each in found)
    assert not found[-1].startswith("0 of")


def test_figure_with_few_passes_is_not_compared(board, subjects, measured):
    chance = random.Random(4)
    sites = measured("old", chance), measured("new", chance, server=9.0, count=7)
    (line,) = board("speed").differences(*sites, subjects)
    assert line == "4 figures of speed have too few passes to be compared"


def test_missing_figure_of_a_pass_does_not_shift_later_passes(
    board, subjects, measured
):
    sites = [measured(name, random.Random(5)) for name in ("old", "new")]
    for _, facts in sites:
        for name, caller in facts.items():
            caller["caller"]["http"] = [
                {"cpu_us": 2.0**n * (3 if name == "second" else 1)} for n in range(9)
            ]
        del facts["second"]["caller"]["http"][0]["cpu_us"]
    found = board("speed")._client_multiples(sites[0][1], subjects)
    assert found == {
        "second http": {
            name: [[3.0]] * 8 if name == "cpu_us" else []
            for name in board("speed").CLIENT_FIGURES
        }
    }


def test_sites_without_speed_have_no_differences(board, subjects, tmp_path):
    nothing = tmp_path / "nothing", {}
    assert board("speed").differences(nothing, nothing, subjects) == []
