"""Exports of `mcpwire.testing` are lazy, have docstrings and are documented."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from child_python import printed_by

from mcpwire import testing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", testing.__all__)
def test_each_export_has_a_docstring_and_is_documented(name):
    value = getattr(testing, name)
    assert name in dir(testing)
    if inspect.isclass(value) or inspect.isroutine(value):
        assert inspect.getdoc(value)
        assert value is getattr(importlib.import_module(value.__module__), name)
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    assert re.search(rf"\b{name}\b", code)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        testing.no_such_name  # noqa: B018 - the access raises


def loaded_by(code):
    lister = "import sys; print(*sys.modules)"
    return set(printed_by("-I", "-c", f"{code}\n{lister}").split())


def test_imports_are_lazy_and_do_not_include_pytest():
    loaded = loaded_by("import mcpwire.testing")
    assert {name for name in loaded if name.startswith("mcpwire.testing.")} == set()
    names = ", ".join(testing.__all__)
    assert "pytest" not in loaded_by(f"from mcpwire.testing import {names}")
