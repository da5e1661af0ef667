"""The schemas, for the tests of the types."""

import json

import pytest

from mcpwire.versions import REVISIONS


@pytest.fixture(scope="session")
def schemas(spec_dir):
    return {
        revision.name: json.loads(
            (spec_dir / revision.name / "schema.json").read_text(encoding="utf-8")
        )
        for revision in REVISIONS
    }
