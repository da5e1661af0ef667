"""A short soak run, and its detection of growth."""

import sys
from pathlib import Path

import pytest
import soak
from child_python import finished
from unmeasured import unmeasured

IN_A_PROCESS = """
import sys, soak
shell, use, total = sys.argv[1:]
grown = soak.run(shell, use, int(total))
print(grown)
sys.exit(len(grown))
"""

SHORT = {"calls": 3_000, "connects": 200, "shuffled": 300}


@pytest.mark.fault("F44", "F45")
@pytest.mark.parametrize(("shell", "use"), soak.USES)
def test_short_soak_is_flat(shell, use):
    # In a separate process: objects of other tests in this heap would count too.
    command = (sys.executable, "-c", IN_A_PROCESS, shell, use, str(SHORT[use]))
    here = Path(__file__).parent
    done = finished(*command, cwd=here, env=unmeasured(), timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("field", soak.Sample._fields[1:])
def test_growth_over_the_noise_is_reported_with_its_figures(field):
    flat = soak.Sample(10, 8, 1, 1, 0, 20_000, 30_000_000)
    allowed = getattr(soak.GROWTH, field)
    noise = flat._replace(done=100, **{field: getattr(flat, field) + allowed})
    assert soak.grown([flat, noise]) == []
    more = flat._replace(done=100, **{field: getattr(flat, field) + allowed + 1})
    (line,) = soak.grown([flat, more])
    assert line.startswith(f"{field}: ")
    assert line.endswith("after 100")


def objects(*counts):
    return [soak.Sample(n, 8, 1, 1, 0, count, 0) for n, count in enumerate(counts)]


def test_fluctuating_counts_are_flat():
    assert soak.grown(objects(500, 900, 700, 1000, 600, 720, 990, 600, 710, 1600)) == []


@pytest.mark.parametrize("counts", [[8] * 9 + [9], [8] + [9] * 9, [8] * 8 + [9] * 2])
def test_one_more_descriptor_counts_as_growth(counts):
    samples = [soak.Sample(n, count, 1, 1, 0, 0, 0) for n, count in enumerate(counts)]
    assert soak.grown(samples) == ["descriptors: 8 before, 9 after 9"]


def test_one_object_per_connect_counts_as_growth():
    connects = 20  # between two samples of the 200 connects of `make soak`
    assert soak.grown(objects(*range(0, 11 * connects, connects)))


@pytest.mark.parametrize("total", [1, 5, 10, 11, 200, 99_999])
def test_stages_add_up_and_start_with_the_warm_up(total):
    counts = list(soak.stages(total))
    assert sum(counts) == total
    assert counts[0] == max(1, int(total * soak.WARM_UP))
    assert len(counts) == soak.SAMPLES + 1


def test_exit_code_of_the_command_reports_growth(monkeypatch, capsys):
    samples = [soak.Sample(10, 8, 1, 1, 0, 0, 0), soak.Sample(20, 9, 1, 1, 0, 0, 0)]
    monkeypatch.setattr(soak, "USES", {("asyncio", "connects"): lambda _: samples})
    words = ["--shell", "asyncio", "--calls", "0", "--connects", "20"]
    assert soak.main(words) == 1
    assert "GREW descriptors: 8 before, 9 after 20" in capsys.readouterr().out
    samples[1] = samples[0]
    assert soak.main(words) == 0
    assert "flat" in capsys.readouterr().out
