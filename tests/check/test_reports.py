"""Scores, reports in JSON and the other formats, baselines, and pages."""

import asyncio
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import pytest
from browser import CHROMIUM, PAPER, seen

from mcpwire import Stdio
from mcpwire.check import CASES, Cell, Level, Options, Report, Result, Verdict, run
from mcpwire.check.baseline import compare, read_baseline, write_baseline
from mcpwire.check.pages import write_pages
from mcpwire.check.reports import (
    has_failures,
    to_badge,
    to_junit,
    to_markdown,
    to_sarif,
    to_text,
    write_tapes,
)
from mcpwire.check.results import score, worse
from mcpwire.testing.tape import Part, read_tape

SERVER = Stdio(sys.executable, [str(Path(__file__).with_name("server.py"))])
CELL = Cell("server", "stdio", "2025-11-25")
OLDER = Cell("server", "stdio", "2025-06-18")
EVIL = "<script>alert(1)</script>\x1b[31m\x00"


def result(verdict, level=Level.MUST, case="RPC-07.a", cell=CELL, **facts):
    return Result(
        case=case,
        cell=cell,
        level=level,
        verdict=verdict,
        title=f"title of {case}",
        source="2025-11-25 basic",
        family="jsonrpc",
        **facts,
    )


def report(*results, **facts):
    return Report(
        subject="python server.py",
        server={"name": EVIL, "version": "1"},
        profile="2026.1",
        seed=1,
        started="2026-01-01T00:00:00+00:00",
        machine={"system": "Linux", "python": "3.12", "cores": "2"},
        tool="mcpwire 1.0",
        results=results,
        notes=("2026-07-28: no",),
        **facts,
    )


BROKEN = result(
    Verdict.FAIL,
    expected="1",
    actual=EVIL,
    sent='{"id":1}',
    again="mcpwire check --only RPC-07.a",
    octets=((0.0, "sent", 0, b'{"id":1}\n'), (0.1, "received", 0, b"\xff\x00<b>")),
)
MIXED = report(
    BROKEN,
    attrs.evolve(BROKEN, cell=OLDER),
    result(Verdict.PASS, case="RPC-31.a"),
    result(Verdict.WARN, Level.SHOULD, "B01.a", expected="e", actual="a"),
    result(Verdict.ABSENT, case="SCHEMA.CallToolResult"),
    result(Verdict.HANG, Level.ROBUST, "SCHEMA.Error", expected="e", actual="a"),
)


@pytest.mark.parametrize(
    ("verdicts", "points"),
    [
        ([("pass", "MUST")] * 3 + [("pass", "SHOULD")], 100),
        ([("pass", "MUST"), ("absent", "MUST"), ("absent", "SHOULD")], 100),
        ([("lenient", "MUST"), ("pass", "SHOULD")], 100),
        ([("pass", "MUST"), ("warn", "SHOULD")], 95),
        ([("pass", "MUST"), ("pass", "SHOULD"), ("warn", "SHOULD")], 97),
        ([("pass", "MUST")] * 999 + [("fail", "MUST")], 94),
        ([("pass", "MUST"), ("fail", "MUST")], 52),
        ([("pass", "MUST"), ("unrun", "MUST")], 52),
        ([("pass", "MUST")] * 999 + [("crash", "MUST")], 79),
        ([("pass", "MUST"), ("hang", "ROBUST")], 79),
        ([("pass", "MUST"), ("warn", "ROBUST")], 100),
        ([("fail", "MUST"), ("warn", "SHOULD")], 0),
        ([("fail", "MUST")], 5),
    ],
)
def test_score_of_a_cell(verdicts, points):
    results = [result(Verdict(each), Level(level)) for each, level in verdicts]
    assert score(results).points == points


def test_report_survives_a_json_round_trip():
    assert Report.from_json(MIXED.to_json()) == MIXED
    value = json.loads(MIXED.to_json())
    assert value["scores"][0] == {
        "role": "server",
        "transport": "stdio",
        "revision": "2025-06-18",
        "points": 5,
        "must": [0, 1],
        "should": [0, 0],
        "applied": 1,
    }


NOTHING = report(result(Verdict.ABSENT), result(Verdict.ABSENT, case="RPC-31.a"))


def test_cell_without_applicable_cases_has_no_score():
    (score,) = NOTHING.scores().values()
    assert (score.applied, NOTHING.lowest()) == (0, None)
    assert "-  stdio  2025-11-25  no applicable cases" in to_text(NOTHING)
    assert "| server stdio 2025-11-25 | - |" in to_markdown(NOTHING)
    assert json.loads(to_badge(NOTHING))["message"] == "no applicable cases"
    assert MIXED.lowest() == 5


def test_repeat_command_is_not_truncated():
    again = "mcpwire check " + " ".join(f"--map echo=tool_{n}" for n in range(50))
    found = to_text(report(attrs.evolve(BROKEN, again=again)))
    assert f"again     {again}\n" in found


def test_report_conforms_to_its_published_schema():
    from importlib.resources import files

    import jsonschema_rs

    text = (files("mcpwire.check") / "report.schema.json").read_text("utf-8")
    schema = json.loads(text)
    validator = jsonschema_rs.validator_for(schema)
    validator.validate(json.loads(MIXED.to_json()))
    broken = json.loads(MIXED.to_json())
    broken["results"][0]["verdict"] = "good"
    assert not validator.is_valid(broken)


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"format":1}'])
def test_json_that_is_not_a_report_is_refused(text):
    with pytest.raises(ValueError, match="not a report of mcpwire check"):
        Report.from_json(text)


def test_report_of_another_format_is_refused():
    value = json.loads(MIXED.to_json())
    value["format"] = 2
    with pytest.raises(ValueError, match="format 2 is not supported, expected 1"):
        Report.from_json(json.dumps(value).encode())


def test_junit_has_counts_and_findings():
    root = ET.fromstring(to_junit(MIXED))
    suites = {suite.get("name"): suite for suite in root}
    suite = suites["server stdio 2025-11-25"]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        *("5", "1", "1", "1")
    ]
    failure = suite.find("testcase/failure")
    assert failure.get("message") == "fail"
    assert "expected  1" in failure.text
    assert "mcpwire check --only RPC-07.a" in failure.text


def test_junit_is_valid_for_a_target_with_control_characters():
    report = attrs.evolve(MIXED, subject="server \x1b[1m")
    assert ET.fromstring(to_junit(report)).get("name").startswith("mcpwire check serv")


def test_sarif_has_a_rule_and_a_result_for_each_finding():
    run_ = json.loads(to_sarif(MIXED))["runs"][0]
    assert len(run_["results"]) == 4
    rules = {rule["id"] for rule in run_["tool"]["driver"]["rules"]}
    assert rules == {each["ruleId"] for each in run_["results"]}
    assert {each["level"] for each in run_["results"]} == {"error", "warning"}


def test_the_badge_has_the_lowest_score():
    badge = json.loads(to_badge(MIXED))
    assert (badge["message"], badge["color"]) == ("5 of 100", "red")
    good = json.loads(to_badge(report(result(Verdict.PASS))))
    assert (good["message"], good["color"]) == ("100 of 100", "brightgreen")


def test_text_and_markdown_sort_by_severity_and_merge_cells():
    for text in (to_text(MIXED), to_markdown(MIXED)):
        assert text.index("SCHEMA.Error") < text.index("RPC-07.a")
        assert text.index("RPC-07.a") < text.index("B01.a")
        assert text.count("title of RPC-07.a") == 1
        assert "2025-06-18, 2025-11-25" in text
    robust = attrs.evolve(result(Verdict.WARN, Level.ROBUST), source="")
    assert "- ROBUST, stdio 2025-11-25\n" in to_markdown(report(robust))
    assert "\x1b" not in to_text(report(result(Verdict.WARN)))
    assert "\x1b[33m" in to_text(report(result(Verdict.WARN)), colour=True)


def test_failure_depends_on_verdict_level_and_options():
    assert has_failures([result(Verdict.FAIL)])
    assert has_failures([result(Verdict.HANG, Level.ROBUST)])
    assert has_failures([result(Verdict.UNRUN)])
    assert not has_failures([result(Verdict.UNRUN, Level.SHOULD)])
    assert not has_failures(
        [result(Verdict.WARN, Level.SHOULD), result(Verdict.LENIENT)]
    )
    assert has_failures([result(Verdict.WARN, Level.SHOULD)], with_should=True)
    assert not has_failures([result(Verdict.WARN, Level.ROBUST)], with_should=True)


@pytest.mark.parametrize(
    ("case", "sender"), [("RPC-07.a", "client"), ("C-RPC-07.a", "server")]
)
def test_tapes_have_the_octets_of_each_case(tmp_path, case, sender):
    write_tapes(tmp_path, report(attrs.evolve(BROKEN, case=case)))
    first, *_ = read_tape(tmp_path / "stdio-2025-11-25" / f"{case}.jsonl")
    assert first == Part(0.0, sender, b'{"id":1}\n')


# --- comparing ------------------------------------------------------------------------


def test_baseline_accepts_named_findings_only():
    baseline = read_baseline(write_baseline(MIXED))
    assert compare(MIXED, baseline) == attrs.evolve(
        compare(MIXED, baseline), new=(), stale=()
    )
    better = report(result(Verdict.PASS))
    assert compare(better, baseline).stale == (
        "RPC-07.a stdio 2025-11-25 fail, now pass",
    )
    (new,) = compare(report(result(Verdict.CRASH)), baseline).new
    assert new.verdict is Verdict.CRASH
    late = [result(Verdict.FAIL, case=case) for case in ("RPC-31.a", "RPC-07.a")]
    assert compare(report(*late), {}).new == (late[1], late[0])


def test_unrun_case_is_worse_than_any_baseline():
    (new,) = compare(report(result(Verdict.UNRUN)), {}).new
    assert has_failures([new])
    assert write_baseline(report(new)) == ""


def test_server_name_is_escaped_in_markdown():
    named = attrs.evolve(MIXED, server={"name": "![a](http://b) <b>`c`"})
    head = to_markdown(named).splitlines()[0]
    assert head == r"# \!\[a\](http://b) \<b\>\`c\`"


def test_baseline_allows_comments_and_rejects_invalid_lines():
    text = "# all known\n\nRPC-07.a stdio 2025-11-25 fail # since 2.0\n"
    assert read_baseline(text) == {("RPC-07.a", "stdio", "2025-11-25"): Verdict.FAIL}
    with pytest.raises(ValueError, match="line 2 of the baseline: expected CASE"):
        read_baseline("\nRPC-07.a stdio fail")
    with pytest.raises(ValueError, match="line 1 of the baseline: expected CASE"):
        read_baseline("RPC-07.a stdio 2025-11-25 bad")
    with pytest.raises(ValueError, match="line 1 of the baseline: no case 'NOPE'"):
        read_baseline("NOPE stdio 2025-11-25 fail")


def test_worse_returns_results_with_a_more_severe_verdict():
    before = report(result(Verdict.WARN), result(Verdict.PASS, case="RPC-31.a"))
    after = report(
        result(Verdict.FAIL),
        result(Verdict.LENIENT, case="RPC-31.a"),
        result(Verdict.WARN, case="B01.a"),
        result(Verdict.LENIENT, case="SCHEMA.Error"),
    )
    found = [(was and was.verdict, now.case) for was, now in worse(before, after)]
    assert found == [
        (Verdict.WARN, "RPC-07.a"),
        (Verdict.PASS, "RPC-31.a"),
        (None, "B01.a"),
    ]
    assert worse(after, before) == []


# --- pages ----------------------------------------------------------------------------


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.tags = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        found = dict(attributes)
        self.links += [found[name] for name in ("href", "src") if name in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    real = asyncio.run(run(SERVER, Options(revisions=("2025-11-25",))))
    write_pages(folder, [real, MIXED, MIXED])
    return folder


def test_each_link_of_the_pages_leads_to_a_file_of_the_site(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(CASES) / 2
    for page in pages:
        for link in Page(page.read_text("utf-8")).links:
            target = (page.parent / link).resolve()
            assert target.is_file(), f"{page}: {link}"
            assert target.is_relative_to(site)


def test_pages_have_no_script_and_escape_texts(site):
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "script" not in Page(text).tags
        assert "<script>alert" not in text
    slug = next((site / "results").glob("script*"))
    shown = (slug / "RPC-07.a.html").read_text("utf-8")
    assert "&lt;script&gt;alert(1)" in shown
    assert "\\xff\\x00&lt;b&gt;" in shown
    assert "ff 00 3c 62 3e" in shown


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
@pytest.mark.parametrize(("width", "scheme"), [(500, 0), (1300, 1)])
def test_a_browser_shows_the_pages_within_the_window(site, width, scheme):
    slug = next((site / "results").glob("script*"))
    for page in (
        site / "index.html",
        next((site / "subjects").iterdir()),
        site / "cases" / "RPC-07.a.html",
        slug / "RPC-07.a.html",
    ):
        found = seen(page, width, scheme)
        assert found["wide"] <= 0, page
        assert found["paper"].startswith(PAPER[scheme])


def test_subjects_with_equal_names_have_separate_pages(site):
    assert len(list((site / "subjects").iterdir())) == 3
