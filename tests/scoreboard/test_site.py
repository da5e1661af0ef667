"""The site of two small stored reports, and its comparison with another site."""

import json
from html.parser import HTMLParser

import pytest

from mcpwire.check import Cell, Level, Report, Result, Verdict

NAMES = {"one": "Go", "two": "Rust", "three": "C#"}
DISPUTES = """
[[dispute]]
cases = ["RPC-13"]
subjects = ["two"]
objection = "Nobody <sends> batches."
source = "2025-03-26 basic/index"
sentence = "MUST support receiving"
"""


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.found += [v for k, v in attributes if k in {"href", "src"}]


def result(verdict, case="RPC-13.a", level=Level.MUST):
    cell = Cell("server", "stdio", "2025-03-26")
    return Result(
        case=case,
        cell=cell,
        level=level,
        verdict=verdict,
        title="t",
        source="s",
        family="jsonrpc",
        expected="e",
        actual="a",
        again=f"mcpwire check --only {case}",
        octets=((0.0, "sent", 0, b"[]"),),
    )


def report(*results):
    return Report(
        subject="one",
        server={"name": "calls itself otherwise", "version": "9"},
        profile="2026.1",
        seed=1,
        started="2026-11-26T09:00:00+00:00",
        machine={"system": "Linux", "python": "3.11", "cores": "2"},
        tool="mcpwire 0",
        results=results,
        notes=("2026-07-28: no",),
    )


@pytest.fixture
def made(board, tmp_path):
    """Return a folder with a site, the subjects, and a function that writes sites."""
    folder = tmp_path / "subjects"
    folder.mkdir()
    for order, (name, language) in enumerate(NAMES.items()):
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nlanguage = "{language}"\nsdk = "sdk"\nversion = "1"\n'
            f'order = {order}\ncommand = ["{{bin}}/{name}"]\n'
            'install = { pypi = ["x==1"] }\n'
        )
    (tmp_path / "disputes.toml").write_text(DISPUTES)
    module, site = board("subjects"), board("site")
    subjects = module.read_subjects(folder)

    def write(to, *verdicts):
        for subject, verdict in zip(subjects, verdicts, strict=False):
            other = result(Verdict.WARN, "B01.a", Level.SHOULD)
            site.store(to, subject, "stdio", report(result(verdict), other))
        site.store_facts(
            to,
            {
                "one": {
                    "problem": "",
                    "size": 3_000_000,
                    "start": [0.2, 0.1, 0.3],
                    "caller": {},
                },
                "two": {**site.NO_FACTS, "problem": "http: <refused>. "},
                "three": {**site.NO_FACTS, "problem": "not installed: none"},
            },
        )
        disputes = module.read_disputes(tmp_path / "disputes.toml")
        site.write_site(to, subjects, disputes)
        return to

    return write(tmp_path / "site", Verdict.PASS, Verdict.FAIL), subjects, write


def test_each_link_leads_to_a_file_and_pages_have_no_script(made):
    folder, _, _ = made
    pages = list(folder.rglob("*.html"))
    assert len(pages) > 8
    for page in pages:
        links = Links(page.read_text("utf-8"))
        assert "script" not in links.tags
        for link in links.found:
            target = (page.parent / link.partition("#")[0]).resolve()
            assert target.is_file(), f"{page}: {link}"
            assert target.is_relative_to(folder)


def test_table_has_one_row_per_subject_with_its_figures(made):
    folder, _, _ = made
    table = json.loads((folder / "scoreboard.json").read_text())["subjects"]
    assert [row["name"] for row in table] == list(NAMES)
    assert table[0]["scores"] == {"stdio": {"2025-03-26": 95}}
    findings = {"MUST": 1, "crash or hang": 0, "SHOULD": 1, "unrun": 0}
    assert table[1]["findings"] == {"stdio": findings}
    text = (folder / "index.html").read_text()
    assert "not installed: none" in text
    assert "http: &lt;refused&gt;" in text
    assert ">200</td>" in text
    assert ">3</td>" in text
    made_page = (folder / "made.html").read_text()
    assert ".peers/subjects/one/bin/one" in made_page
    assert "2026-07-28: no" in made_page


def test_dispute_is_shown_beside_its_findings(made):
    folder, _, _ = made
    matrix = folder / "matrix"
    disputed = (matrix / "results/two-1/RPC-13.a.html").read_text()
    assert "Nobody &lt;sends&gt; batches." in disputed
    assert "MUST support receiving" in disputed
    assert "mcpwire check --only RPC-13.a" in disputed
    assert "Nobody" not in (matrix / "results/one-1/RPC-13.a.html").read_text()
    assert "Nobody" not in (matrix / "results/two-1/B01.a.html").read_text()
    assert (matrix / "index.html").read_text().count("<sup>") == 1
    assert "Nobody" in (matrix / "subjects/two-1.html").read_text()
    assert "Nobody" in (matrix / "cases/RPC-13.a.html").read_text()


def test_matrix_pages_link_back_to_the_index(made):
    folder, _, _ = made
    text = (folder / "matrix/results/two-1/RPC-13.a.html").read_text()
    assert 'href="../../../index.html"' in text


def test_finding_shared_by_two_servers_of_an_sdk_lists_both(made, tmp_path):
    folder, _, write = made
    assert "What servers of one SDK share" not in (folder / "index.html").read_text()
    both = write(tmp_path / "both", Verdict.FAIL, Verdict.CRASH)
    assert "<td>one, two</td>" in (both / "index.html").read_text()


def test_verdict_differences_between_two_sites_are_named(board, made, tmp_path):
    folder, subjects, write = made
    other = write(tmp_path / "other", Verdict.PASS, Verdict.HANG)
    site = board("site")
    assert site.differences(folder, folder, subjects) == []
    assert site.differences(folder, other, subjects) == [
        "two: RPC-13.a server stdio 2025-03-26: fail, then hang"
    ]
