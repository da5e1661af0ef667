"""Synthetic results for the tests of statistics, and the schemas of real ones."""

import json
import random
from functools import lru_cache
from importlib.resources import files

from mcpwire.bench.histogram import histogram
from mcpwire.bench.results import Result, Slice, Subject

ROUNDS = 5
SLICES = 4


def read_schema(name):
    """Return a published schema."""
    file = files("mcpwire.bench") / f"{name}.schema.json"
    return json.loads(file.read_bytes())


@lru_cache
def lag_of(lag):
    """Return a histogram with one lag."""
    return histogram([lag]).encode().decode()


def slice_of(round, latencies, *, cpu=40_000, lag=1_000, **facts):
    """Return one slice of these latencies, in nanoseconds."""
    found = histogram(latencies).encode().decode()
    counted = len(latencies)
    return Slice(
        round=round,
        at=0.0,
        seconds=0.5,
        elapsed=0.5,
        offered=counted,
        done=counted,
        in_time=5e8 * counted / sum(latencies) if latencies else 0,
        missed=0,
        errors={},
        latency=found,
        latency_sum=sum(latencies),
        service=found,
        lag=lag_of(lag),
        generator_cpu=10_000 * counted,
        generator_share=0.2,
        cpu=cpu * counted,
        bytes_sent=200 * counted,
        **facts,
    )


def subject(name, chance, factor=1.0, start=0.015, moment=0.05):
    """Return a server that needs 100 us times `factor` for a call.

    `start` is the spread between starts of one program, `moment` that between moments
    of one machine, both as standard deviations of the logarithm.
    """
    slices = []
    for round in range(ROUNDS):
        level = factor * chance.lognormvariate(0, start)
        for _ in range(SLICES):
            speed = level * chance.lognormvariate(0, moment)
            latencies = [
                int(100_000 * speed * chance.lognormvariate(0, 0.2)) for _ in range(60)
            ]
            slices.append(slice_of(round, latencies, cpu=int(40_000 * speed)))
    server = {"name": name, "version": "1", "revision": "2026-07-28"}
    return Subject(name=name, target=name, server=server, slices=tuple(slices))


def result(*subjects, title="ping, 1 user", **facts):
    """Return a run with these servers."""
    return Result(
        load={"rounds": ROUNDS, "seconds": 10.0},
        title=title,
        started="2026-01-01T00:00:00+00:00",
        machine={"cores": "2"},
        tool="mcpwire 0",
        seconds=60.0,
        subjects=subjects,
        **facts,
    )


@lru_cache(maxsize=200)
def first_of(seed):
    """Return the first server of a run, and the random state after it."""
    chance = random.Random(seed)
    return subject("target", chance), chance.getstate()


def pair(seed, factor):
    """Return a run of two servers, of which the second is slower by a factor."""
    first, state = first_of(seed)
    chance = random.Random()
    chance.setstate(state)
    return result(first, subject("against", chance, factor))
