"""The version, lazily imported names for the `__init__` modules, optional packages."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__version__ = "0.1.0.dev0"  # the build reads it here


def lazy_names(
    package: str, modules: Mapping[str, str], *other_names: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package (PEP 562).

    `modules` has the names of each module, relative to the package; `other_names` are
    public names that are not loaded by `__getattr__`.
    """
    module_of = {
        name: f".{module}"
        for module, names in modules.items()
        for name in names.split()
    }
    public = sorted((*module_of, *other_names))

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: public, public


def import_optional(module: str, package: str, purpose: str) -> Any:
    """Import the module of a package that may be missing; the error names both."""
    try:
        return import_module(module)
    except ImportError as error:
        from mcpwire.errors import LocalProtocolError

        raise LocalProtocolError(
            f"{purpose} needs {package}: pip install {package}"
        ) from error
