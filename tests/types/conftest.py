"""Shared by the tests of the types: the schemas, and the folder on the path."""

import json
import sys
from pathlib import Path

import pytest

from mcpwire.versions import REVISIONS

# Test folders are not packages, so their helpers are top-level modules.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def schemas(spec_dir):
    """Give each revision's schema."""
    return {
        revision.name: json.loads(
            (spec_dir / revision.name / "schema.json").read_text(encoding="utf-8")
        )
        for revision in REVISIONS
    }
