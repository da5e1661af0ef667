"""The calls of a load and their due times."""

import itertools

import pytest

import mcpwire
from mcpwire.bench import Call, Load, read_mix
from mcpwire.testing import Recorder


def test_constant_rate_has_calls_at_equal_intervals():
    load = Load(rate=4, seconds=2)
    assert list(load.due(0, 1)) == pytest.approx([0, 0.25, 0.5, 0.75])
    assert list(load.due(1, 2)) == pytest.approx([1, 1.25, 1.5, 1.75])


@pytest.mark.parametrize("shape", ["constant", "ramp", "spike"])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_and_slices_share_the_calls_without_loss(shape, workers):
    load = Load(rate=100, seconds=3, shape=shape, workers=workers)
    alone = list(Load(rate=100, seconds=3, shape=shape).due(0, 3))
    slices = itertools.pairwise([0, 0.7, 1.9, 3])
    shared = [
        at
        for begin, end in slices
        for worker in range(workers)
        for at in load.due(begin, end, worker)
    ]
    assert sorted(shared) == pytest.approx(alone)


def test_ramp_ends_at_the_rate_and_spike_peaks_in_the_middle():
    ramp = Load(rate=100, shape="ramp")
    assert [ramp.rate_at(part) for part in (0, 0.5, 1)] == pytest.approx([5, 52.5, 100])
    spike = Load(rate=100, shape="spike")
    assert [spike.rate_at(part) for part in (0, 0.5, 0.7)] == pytest.approx(
        [20, 100, 20]
    )


def test_mix_is_sampled_by_weight_and_seed():
    mix = read_mix(
        '[{"method": "ping", "weight": 3},'
        ' {"method": "tools/call", "params": {"name": "echo", "arguments": {"a": 1}}}]'
    )
    load = Load(calls=mix, seed=7)

    def chosen(*keys):
        return list(itertools.islice(load.choices(*keys), 4_000))

    assert chosen(0, 1) == chosen(0, 1) != chosen(0, 2)
    assert 2_850 < chosen(0, 1).count(mix[0]) < 3_150
    assert str(mix[1]) == "tools/call echo"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a mix must be JSON"),
        ("[]", "at least one call"),
        ('{"method": "ping"}', "at least one call"),
        ("[3]", "call 1 of the mix must be an object, got 3"),
        ('[{"method": "ping"}, {}]', "call 2 of the mix needs a method, got None"),
        ('[{"method": "ping", "wieght": 2}]', "unknown key 'wieght'"),
        ('[{"method": "a", "params": []}]', r"params of call 1 must be an object"),
        ('[{"method": "tools/call"}]', "call 1 of the mix needs the name of a tool"),
        ('[{"method": "a", "weight": true}]', "weight of call 1 must be a number"),
        ('[{"method": "a", "weight": 0}]', "weight must be above zero"),
    ],
)
def test_invalid_mix_is_refused_with_its_position(text, message):
    with pytest.raises(ValueError, match=message):
        read_mix(text)


async def test_mix_can_be_the_requests_of_a_tape(tmp_path):
    server = mcpwire.Server("recorded")
    server.add_tool(lambda: "x", name="a")
    server.add_resource("demo://x", "x")
    path = tmp_path / "tape.jsonl"
    with Recorder(path) as recorder:
        async with mcpwire.Client(server, trace=recorder) as client:
            for _ in range(3):
                await client.call_tool("a")
            await client.list_resources()
    calls = {str(call): call.weight for call in read_mix(path.read_text())}
    assert calls == {"tools/call a": 3, "resources/list": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "rate must be above zero and finite, got 0"),
        ({"rate": 1e9}, "rate must be at most 1,000,000 a second, got 1000000000.0"),
        ({"seconds": float("inf")}, "seconds must be above zero and finite"),
        ({"shape": "ramp"}, "the shape 'ramp' needs a rate"),
        ({"calls": ()}, "at least one call"),
        ({"sessions": 0}, "sessions must be at least 1, got 0"),
        ({"mode": "old"}, "mode must be one of auto, .*, 2026-07-28, got .old."),
        ({"warm_up": -1}, "warm_up must be finite and not negative, got -1"),
        ({"warm_up": float("inf")}, "warm_up must be finite and not negative, got inf"),
    ],
)
def test_invalid_load_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Load(**options)


def test_load_title_describes_the_load():
    assert Load().title == "ping, 1 user"
    assert Load(users=8).title == "ping, 8 users"
    load = Load(calls=(Call.tool("echo"),), rate=2000, shape="ramp")
    assert load.title == "tools/call echo, 2000 calls/s (ramp)"
