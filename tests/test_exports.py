"""The public API: what `mcpwire` exports, lazily and documented."""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
from child_python import printed_by
from sources import PATCHING, Module

import mcpwire

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "mcpwire" / "__init__.py"


def typing_imports():
    module = Module.parse("mcpwire", SOURCE.read_text(), is_package=True)
    return {
        name: node.module
        for guard in module.tree.body
        if isinstance(guard, ast.If)
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        for name in names_of(node.module, alias.name)
    }


def names_of(module, name):
    if name == "*":
        return [
            each
            for each in importlib.import_module(module).__all__
            if each != "rpc_error"
        ]
    return [name]


EXPORTS = typing_imports()
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for path in (ROOT / "mcpwire").rglob("*.py")
    if not path.name.startswith("__")
)


def test_type_checkers_see_exactly_the_exports():
    assert set(EXPORTS) | {"__version__"} == set(mcpwire.__all__)


def test_no_name_is_exported_twice():
    assert len(set(mcpwire.__all__)) == len(mcpwire.__all__)


@pytest.mark.parametrize("name", EXPORTS)
def test_each_export_is_the_object_of_its_module(name):
    module = importlib.import_module(EXPORTS[name])
    assert getattr(mcpwire, name) is getattr(module, name)


def test_dir_lists_the_exports():
    assert set(mcpwire.__all__) <= set(dir(mcpwire))


def test_unknown_name_raises_an_attribute_error_with_its_name():
    with pytest.raises(AttributeError, match="no_such_name"):
        mcpwire.no_such_name  # noqa: B018 - the access is the subject


def modules_loaded_by(code):
    lister = "import sys; print(*sorted(m for m in sys.modules if 'mcpwire' in m))"
    return set(printed_by("-I", "-c", f"{code}\n{lister}").split())


def test_importing_the_package_loads_only_its_root():
    assert modules_loaded_by("import mcpwire") <= {"mcpwire", "mcpwire._package"}


def test_importing_an_error_loads_only_the_errors():
    loaded = modules_loaded_by("from mcpwire import RPCError")
    assert loaded <= {"mcpwire", "mcpwire._package", "mcpwire.errors"}


CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


@cache
def documented_code():
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return "\n".join(code for text in texts for code in CODE.findall(text))


@pytest.mark.parametrize("name", EXPORTS)
def test_each_exported_name_is_shown_in_the_readme_or_the_docs(name):
    assert re.search(rf"\b{re.escape(name)}\b", documented_code())


def undocumented(name, value):
    """Yield the parts of a public object without their own docstring."""
    if not inspect.getdoc(value):
        yield name
    if not inspect.isclass(value):
        return
    for member, inner in vars(value).items():
        function = getattr(inner, "__func__", getattr(inner, "fget", inner))
        is_code = inspect.isfunction(function) and function.__module__ is not None
        if is_code and not member.startswith("_") and not function.__doc__:
            yield f"{name}.{member}"


@pytest.mark.parametrize("name", EXPORTS)
def test_each_exported_class_function_and_method_has_a_docstring(name):
    value = getattr(mcpwire, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        assert list(undocumented(name, value)) == []


def test_missing_docstring_is_found():
    class Bare:
        def method(self): ...

        @property
        def value(self): ...

        @staticmethod
        def plain(): ...

        def _private(self): ...

    assert list(undocumented("Bare", Bare)) == [
        *("Bare", "Bare.method", "Bare.value", "Bare.plain")
    ]


@pytest.mark.parametrize("name", sorted({*MODULES} - PATCHING))
def test_names_in_the_all_of_a_module_are_unique_and_defined(name):
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert len(set(exported)) == len(exported)
    assert [export for export in exported if not hasattr(module, export)] == []
