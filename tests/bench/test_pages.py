"""The results page: self-contained, exact, and readable in a real browser."""

import random
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import attrs
import pytest
from browser import CHROMIUM, PAPER, seen
from made_results import result, slice_of, subject

from mcpwire.bench import Result
from mcpwire.bench.charts import linear_axis, logarithmic_axis, percentile_axis
from mcpwire.bench.load import Load
from mcpwire.bench.pages import write_page
from mcpwire.bench.reports import to_text
from mcpwire.bench.results import Sample, step_name
from mcpwire.cli.main import main

EVIL = "<script>alert(1)</script>'\"&\x1b[31m"
SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "br", "img"}


def timed(one, faults=()):
    """Return a server with seconds, memory and faults beside its latencies."""
    slices = []
    for at, each in enumerate(one.slices):
        errors = {"RPCError": 2} if at in faults else {}
        window = (at * 0.5, each.done, sum(errors.values()), 100.0, 250.0 + at)
        slices.append(
            attrs.evolve(
                each,
                at=at * 0.5,
                windows=(window,),
                errors=errors,
                reconnects=len(errors),
            )
        )
    samples = tuple(
        Sample(at=at * 0.5 % 2, memory=2**24 + at * 2**14, descriptors=5)
        for at in range(len(slices))
    )
    facts = {"phases": {"wait": 12.5}, "counts": {"reads": 1.0}}
    facts |= {"phases_under_load": {"wait": 250.0}, "connects": (1_000.0, 3_000.0)}
    return attrs.evolve(one, slices=tuple(slices), samples=samples, **facts)


def pair_of_servers():
    chance = random.Random(1)
    floor = timed(subject("floor", chance, 0.3))
    target = timed(subject("target", chance), faults=(3, 4))
    against = timed(subject("against", chance, 1.6))
    server = {"name": EVIL, "version": "1", "revision": "2026-07-28"}
    target = attrs.evolve(target, server=server, target=f"python {EVIL}")
    run = result(floor, target, against, notes=(f"target: {EVIL}",))
    load = attrs.asdict(Load(rate=300.0, rounds=5))
    load["calls"] = [
        {
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": "a b", "n": 3}},
            "weight": 1,
        }
    ]
    return attrs.evolve(run, load=load, title=f"tools/call {EVIL}, 300 calls/s")


def search():
    """Return a search for the highest rate: 200/s met the condition, 300/s did not."""
    chance = random.Random(2)
    steps = []
    for rate, slow in ((100, 1), (200, 2), (300, 400), (400, 900)):
        latencies = [
            int(100_000 * slow * chance.lognormvariate(0, 0.3)) for _ in range(rate)
        ]
        one = attrs.evolve(slice_of(0, latencies), seconds=1.0, elapsed=1.0)
        step = attrs.evolve(subject("step", chance), name=step_name(rate))
        steps.append(attrs.evolve(step, slices=(one,)))
    return result(*steps, highest=200.0, title="ping, 100 calls/s")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(path, [pair_of_servers(), search()])
    return path


@pytest.fixture(scope="module")
def text(page):
    return page.read_text("utf-8")


def charts(text):
    """Return the charts by their ids, each read as XML."""
    found = re.findall(r'<svg class="chart".*?</svg>', text, re.DOTALL)
    made = map(ET.fromstring, found)
    return {each.get("aria-labelledby"): each for each in made}


class Document(HTMLParser):
    """Records links, ids and elements, and checks that all elements are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.ids = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        found = dict(attributes)
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.ids += [found["id"]] if "id" in found else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_and_terminal_show_the_same_phases_and_growth(text):
    for what, value in (("alone", "12.5 us"), ("under load", "250 us")):
        assert f"<dt>target, {what}</dt><dd>wait {value}</dd>" in text
    shown = to_text(pair_of_servers())
    assert "target: one call alone: wait 12.5 us" in shown
    assert "target: a call under load: wait 250 us" in shown
    rows = {
        re.split("  +", line)[0]: re.split("  +", line) for line in shown.split("\n")
    }
    assert rows["connect"][1] == "2 ms"
    for name in ("memory slope", "memory slope low", "memory slope high"):
        assert f'<th scope="row">{name}</th><td>{rows[name][1]}</td>' in text


def test_page_is_well_formed_and_self_contained(text):
    document = Document(text)
    assert document.open == []
    assert "script" not in document.tags
    assert "link" not in document.tags
    assert len(document.ids) == len(set(document.ids))
    assert document.links
    for link in document.links:
        assert link[0] == "#"
        assert link[1:] in document.ids
    assert "url(" not in text
    assert "@import" not in text


def test_server_texts_are_escaped(text):
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


def test_each_chart_has_a_title_axes_and_units(text):
    found = charts(text)
    assert found.keys() == {
        *(f"r1-{name}" for name in ("percentiles", "ratios", "latency", "rate")),
        *("r1-faults", "r1-memory", "r2-rates", "r2-percentiles"),
    }
    for name, svg in found.items():
        assert svg.get("role") == "img"
        assert svg.find(f"{SVG}title").get("id") == name
        assert svg.find(f"{SVG}title").text
    labels = {
        name: [e.text for e in svg.iter(f"{SVG}text") if e.get("class") == "label"]
        for name, svg in found.items()
    }
    assert labels["r1-latency"] == ["time (s)", "latency (us)"]
    assert labels["r1-memory"] == ["time (s)", "resident (MiB)"]
    assert labels["r2-rates"] == ["offered rate (calls/s)", "latency (ms)"]


def drawn(svg):
    """Return the names of the series, each with its number of points."""
    found = {}
    for group in svg.findall(f"{SVG}g"):
        lines = group.findall(f"{SVG}polyline")
        points = [point for line in lines for point in line.get("points").split()]
        found[group.find(f"{SVG}title").text] = len(points)
    return found


def test_each_series_is_drawn(text):
    found = {name: drawn(svg) for name, svg in charts(text).items()}
    curves = found["r1-percentiles"]
    from_begin = "target, from the start of each call"
    assert curves.keys() == {"floor", "target", from_begin, "against"}
    assert min(curves.values()) > 100
    assert found["r1-latency"] == {
        f"{name} {figure}": 20
        for name in ("target", "against")
        for figure in ("p50", "p99")
    }
    assert found["r1-rate"] == found["r1-memory"] == {"target": 20, "against": 20}
    # Two bars each, of two points.
    assert found["r1-faults"] == {"target errors": 4, "target reconnects": 4}
    assert found["r2-rates"] == {"p50": 4, "p99": 4, "p99.9": 4}
    assert found["r2-percentiles"].keys() == {"100/s", "200/s", "300/s"}
    assert set(found["r1-ratios"]) == {"p50", "p90", "p99", "mean", "rate", "cpu"}


def test_chart_elements_lie_within_the_chart(text):
    for svg in charts(text).values():
        _, _, width, height = map(float, svg.get("viewBox").split())
        for line in svg.iter(f"{SVG}polyline"):
            for point in line.get("points").split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= width
                assert 0 <= y <= height
        for mark in svg.iter(f"{SVG}text"):
            assert 0 <= float(mark.get("x")) <= width
            assert 0 <= float(mark.get("y")) <= height


def test_mark_is_at_the_highest_rate_that_met_the_condition(text):
    svg = charts(text)["r2-rates"]
    (mark,) = [e for e in svg.iter(f"{SVG}line") if e.get("class") == "mark"]
    p99 = next(g for g in svg.findall(f"{SVG}g") if g.find(f"{SVG}title").text == "p99")
    points = p99.find(f"{SVG}polyline").get("points").split()
    assert points[1].split(",")[0] == mark.get("x1") == mark.get("x2")
    assert "Highest rate that met the condition: <b>200/s</b>" in text


def test_page_has_figures_comparison_and_command(text):
    assert '<td class="verdict worse">worse</td>' in text
    assert '<th scope="col">against</th>' in text
    assert "wait 12.5 us" in text
    assert "RPCError 4" in text
    assert "mcpwire bench --rate 300/s --against against --call echo" in text
    assert "&#39;text=a b&#39; n:=3 -- python" in text
    assert "mcpwire bench --find-max CONDITION" in text


def test_each_server_is_compared_with_the_first(tmp_path):
    chance = random.Random(3)
    factors = {"target": 1, "slow": 2, "fast": 0.5}
    run = result(*(subject(name, chance, factor) for name, factor in factors.items()))
    write_page(tmp_path / "page.html", [run])
    text = (tmp_path / "page.html").read_text()
    assert {"r1-ratios", "r1-ratios1"} <= charts(text).keys()
    for name in ("slow", "fast"):
        assert f"<h2>Ratio {name} / target</h2>" in text
    assert "<dt>again</dt>" not in text  # no command measures three servers


def test_single_server_is_compared_with_the_floor(tmp_path):
    chance = random.Random(3)
    run = result(subject("floor", chance), subject("target", chance, 2))
    write_page(tmp_path / "page.html", [run])
    text = (tmp_path / "page.html").read_text("utf-8")
    assert '<th scope="col">multiple</th>' in text
    assert charts(text).keys() == {"r1-percentiles"}  # no seconds, no memory


def test_server_without_answers_has_a_page(tmp_path):
    empty = attrs.evolve(slice_of(0, []), offered=9, missed=9)
    one = attrs.evolve(subject("target", random.Random(4)), slices=(empty,))
    write_page(tmp_path / "page.html", [result(one)])
    assert Document((tmp_path / "page.html").read_text("utf-8")).open == []
    none = result(attrs.evolve(one, name="1/s"), highest=0.0)
    write_page(tmp_path / "page.html", [none])
    assert "No rate met the condition." in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("highest", [0.4, 1, 3.3, 99, 1_000, 123_456])
def test_linear_axis_has_round_ticks_and_covers_its_values(highest):
    axis = linear_axis("x", [highest])
    assert 4 <= len(axis.ticks) <= 8
    assert axis.ticks[0] == (0, "0")
    assert axis.position(0) == 0
    assert 0.6 < axis.position(highest) <= 1
    assert axis.position(axis.ticks[-1][0]) == 1


@pytest.mark.parametrize("low", [0.002, 1, 70, 5_000])
@pytest.mark.parametrize("times", [1, 1.3, 4, 90, 10_000])
def test_logarithmic_axis_has_ticks_and_covers_its_values(low, times):
    axis = logarithmic_axis("x", [0, low, low * times])
    assert 2 <= len(axis.ticks) <= 15
    parts = [axis.position(value) for value, _ in axis.ticks]
    assert parts == sorted(set(parts))
    assert 0 < axis.position(low) <= axis.position(low * times) < 1
    assert (axis.position(0), axis.position(float("inf"))) == (0, 1)


def test_axis_units_suit_the_values():
    assert linear_axis("t", [900.0], "us").label == "t (us)"
    assert linear_axis("t", [1_100.0], "us").label == "t (ms)"
    assert linear_axis("m", [3 * 2**20], "B").label == "m (MiB)"
    assert linear_axis("n", []).ticks == linear_axis("n", [0.0]).ticks
    nines = [text for _, text in percentile_axis(100_000).ticks]
    assert nines == ["0", "50", "90", "99", "99.9", "99.99", "99.999"]


# --- the command ----------------------------------------------------------------------


def test_page_command_writes_a_page(tmp_path, capsys):
    for name, run in (("a", pair_of_servers()), ("b", search())):
        (tmp_path / f"{name}.json").write_bytes(run.to_json())
    paths = [str(tmp_path / name) for name in ("out.html", "a.json", "b.json")]
    assert main(["bench", "page", *paths]) == 0
    assert len(charts((tmp_path / "out.html").read_text("utf-8"))) == 8
    missing = str(tmp_path / "missing" / "out.html")
    assert main(["bench", "page", missing, paths[1]]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["bench", "page", paths[0], paths[0]]) == 2
    assert "not a result of mcpwire bench" in capsys.readouterr().err


# --- a real browser -------------------------------------------------------------------

PROBE = """
<script>
const out = [];
for (const text of document.querySelectorAll("svg.chart text")) {
  const a = text.getBoundingClientRect();
  const b = text.ownerSVGElement.getBoundingClientRect();
  const over = Math.max(b.left - a.left, a.right - b.right, a.bottom - b.bottom);
  if (over > 1) out.push(text.textContent);
}
const runs = [];
for (const svg of document.querySelectorAll("svg.chart")) {
  const found = [...svg.querySelectorAll("text")].map(t => t.getBoundingClientRect());
  found.forEach((a, i) => found.slice(i + 1).forEach(b => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > 3) runs.push(svg.getAttribute("aria-labelledby"));
  }));
}
document.title = JSON.stringify({out, runs: [...new Set(runs)]});
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
@pytest.mark.parametrize("width", [500, 1300])
@pytest.mark.parametrize("scheme", PAPER)
def test_a_browser_shows_all_of_it_within_the_window(text, tmp_path, width, scheme):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    found = seen(path, width, scheme, PROBE)
    assert found["wide"] <= 0
    assert found["out"] == []
    assert found["runs"] == []
    assert found["paper"].startswith(PAPER[scheme])


def test_page_of_a_saved_result_is_identical(tmp_path, text):
    restored = [
        Result.from_json(each.to_json()) for each in (pair_of_servers(), search())
    ]
    write_page(tmp_path / "again.html", restored)
    assert (tmp_path / "again.html").read_text("utf-8") == text
