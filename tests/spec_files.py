"""Finds the specification's machine-readable files, which are not committed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def find(environment: Mapping[str, str], root: Path = ROOT) -> Path | None:
    """Return the folder that MCPWIRE_SPEC names, else the one beside the checkout.

    A missing MCPWIRE_SPEC folder is not replaced by the default.
    """
    named = environment.get("MCPWIRE_SPEC")
    folder = Path(named) if named else root.parent / "shared" / "spec"
    return folder if folder.is_dir() else None


def demand(environment: Mapping[str, str], root: Path = ROOT) -> Path:
    """Return that folder; without it skip the test, and under CI fail it."""
    found = find(environment, root)
    if found is not None:
        return found
    reason = "no specification files: set MCPWIRE_SPEC to their folder"
    if environment.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
