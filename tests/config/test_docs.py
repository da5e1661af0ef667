"""The files and fields in docs/config.md match the code."""

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
def test_example_file_of_the_page_loads_without_warnings(tmp_path, text):
    path = tmp_path / ("mcp.toml" if text.startswith("[[") else "mcp.json")
    path.write_text(text)
    found = load(path, environment={"WEB_TOKEN": "token"})
    assert (list(found), found.warnings) == (["time", "web"], ())


def test_example_configuration_loads_without_warnings():
    found = load(Path(__file__).parents[2] / "examples" / "mcp.toml", environment={})
    assert (list(found.enabled), found.warnings) == (["demo"], ())


def test_page_contains_the_table_of_fields():
    rows = [f"| `{n}` | {OF[f.transport]} | {f.meaning} |" for n, f in FIELDS.items()]
    assert "\n".join(rows) in PAGE


def test_page_names_all_members_of_each_auth_type():
    for form, known in AUTH_FORMS.items():
        if form in known:  # the token is its only member
            continue
        row = next(line for line in PAGE.splitlines() if f'"type": "{form}"' in line)
        assert all(f"`{name}`" in row for name in known)
