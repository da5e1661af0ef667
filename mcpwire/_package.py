"""The version, and lazily imported names for the `__init__` modules."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__version__ = "0.1.0.dev0"  # the build reads it here


def lazy_names(
    package: str, modules: Mapping[str, str], *others: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package (PEP 562).

    `modules` has the names of each module, relative to the package; `others` are public
    names that are not loaded by `__getattr__`.
    """
    homes = {
        name: f".{module}"
        for module, names in modules.items()
        for name in names.split()
    }
    public = sorted((*homes, *others))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: public, public
