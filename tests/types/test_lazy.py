"""The package imports only the modules in use."""

import ast
import importlib
from pathlib import Path

from child_python import printed_by

from mcpwire import types

HOME = {
    name: module for module, names in types.MODULES.items() for name in names.split()
}


def run(code):
    return set(printed_by("-c", code).split())


def test_importing_the_package_imports_no_types():
    code = "import sys, mcpwire.types; print(*sys.modules)"
    loaded = {name for name in run(code) if name.startswith("mcpwire.types")}
    assert loaded == {"mcpwire.types"}


def test_each_name_is_defined_in_its_listed_module():
    for name, module in HOME.items():
        home = importlib.import_module(f"mcpwire.types.{module}")
        assert getattr(types, name) is getattr(home, name)


def public_names(module):
    """Return the names of classes and aliases that a module defines."""
    path = Path(importlib.import_module(module).__file__)
    found = ast.parse(path.read_text(encoding="utf-8")).body
    names = [node.name for node in found if isinstance(node, ast.ClassDef)]
    aliases = [node.target.id for node in found if isinstance(node, ast.AnnAssign)]
    return {name for name in (*names, *aliases) if not name.startswith("_")}


def test_names_for_type_checkers_match_the_lazy_names():
    tree = ast.parse(Path(types.__file__).read_text(encoding="utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {}
    for node in guard.body:
        for alias in node.names:
            star = public_names(node.module)
            names = star if alias.name == "*" else [alias.name]
            imported |= dict.fromkeys(names, node.module)
    assert imported == {name: f"mcpwire.types.{home}" for name, home in HOME.items()}
    assert types.__all__ == sorted(imported) == dir(types)
