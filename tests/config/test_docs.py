"""What docs/config.md shows of files and fields is what there is."""

import re
from pathlib import Path

import pytest

from mcpwire.config import load
from mcpwire.config.schema import AUTH_FORMS, FIELDS

PAGE = (Path(__file__).parents[2] / "docs" / "config.md").read_text(encoding="utf-8")
FILES = [
    text
    for text in re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    if text.startswith(("[[", "{\n"))
]
OF = {"any": "all", "stdio": "started", "http": "at a URL"}


@pytest.mark.parametrize("text", FILES, ids=["toml", "json"])
def test_a_file_of_the_page_can_be_used(tmp_path, text):
    path = tmp_path / ("mcp.toml" if text.startswith("[[") else "mcp.json")
    path.write_text(text)
    found = load(path, environment={"WEB_TOKEN": "token"})
    assert (list(found), found.warnings) == (["time", "web"], ())


def test_the_example_can_be_used():
    found = load(Path(__file__).parents[2] / "examples" / "mcp.toml", environment={})
    assert (list(found.enabled), found.warnings) == (["demo"], ())


def test_the_page_has_the_table_of_the_fields():
    rows = [f"| `{n}` | {OF[f.transport]} | {f.meaning} |" for n, f in FIELDS.items()]
    assert "\n".join(rows) in PAGE


def test_the_page_names_all_that_a_login_may_say():
    for form, known in AUTH_FORMS.items():
        if form in known:  # a token is all there is to say
            continue
        row = next(line for line in PAGE.splitlines() if f'"type": "{form}"' in line)
        assert all(f"`{name}`" in row for name in known)
