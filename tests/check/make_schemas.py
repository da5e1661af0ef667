"""Make `schemas.json.xz` from the specification's schemas: ``--write FOLDER``."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from typing import Any

from mcpwire.check.schemas import DATA_FILE
from mcpwire.versions import REVISIONS
from mcpwire.wire.json import encode_sorted, loads

ROOT = Path(__file__).parents[2]


def stripped(value: Any) -> Any:
    """Return a schema without its descriptions."""
    if isinstance(value, list):
        return [stripped(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: stripped(each)
        for name, each in value.items()
        if name != "description" or not isinstance(each, str)
    }


def make(spec: Path) -> bytes:
    """Return the text of all revisions."""
    return encode_sorted(
        {
            revision.name: stripped(
                loads((spec / revision.name / "schema.json").read_bytes())
            )
            for revision in REVISIONS
        }
    )


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit(__doc__)
    spec = Path(sys.argv[sys.argv.index("--write") + 1])
    data = lzma.compress(make(spec), preset=9)
    (ROOT / "mcpwire" / "check" / DATA_FILE).write_bytes(data)
