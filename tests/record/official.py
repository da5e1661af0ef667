"""The record of the official suite: each check of each scenario, from the last run.

`make conformance` writes its results to `.build`, and compares them with the record.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parents[2] / ".build" / "conformance.json"
AREA: Final = "conformance"


def make() -> dict[str, Any]:
    record = {}
    for leg in json.loads(RESULTS.read_text(encoding="utf-8")):
        for result in leg["scenarios"]:
            checks = Counter(f"{c['status']} {c['id']}" for c in result["checks"])
            # How often a check runs may depend on timing; that it runs does not.
            record[f"{leg['leg']}/{result['scenario']}"] = {"checks": sorted(checks)}
    return record


def legs(record: dict[str, Any]) -> set[str]:
    return {key.partition("/")[0] for key in record}


def part(kept: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return the kept record of the legs that were run."""
    ran = legs(made)
    return {key: each for key, each in kept.items() if key.partition("/")[0] in ran}
