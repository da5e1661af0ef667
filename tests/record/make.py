"""Makes the record of messages and results, and compares it with the one in `data`.

python tests/record/make.py                   # the differences of all areas
python tests/record/make.py --write           # write the record again
python tests/record/make.py --write NAME ...  # of these areas only
python tests/record/make.py conformance       # the legs of the last run
python tests/record/make.py docs              # the examples of the last run
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from record import docs, official, runner, server_cases, shown  # noqa: E402 - found through the line above

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA: Final = HERE / "data"
DIFFERENCES: Final = HERE / "differences.toml"
AREAS: Final = (*runner.GROUPS, *server_cases.GROUPS)
"""Areas that are made in a few seconds, each in one file."""
RUN_ELSEWHERE: Final = {official.AREA: official, docs.AREA: docs}
"""Areas that are made from other test runs, which are often partial."""


def make(area: str) -> dict[str, Any]:
    if area in RUN_ELSEWHERE:
        return RUN_ELSEWHERE[area].make()
    return (server_cases if area in server_cases.GROUPS else runner).make(area)


def _asyncio(area: str) -> str:
    return f"a{area.replace('-', 'io-', 1)}"


def load(area: str) -> dict[str, Any]:
    """Read the stored record of an area.

    Of the blocking client only the cases that differ from asyncio are stored.
    """
    record = json.loads((DATA / f"{area}.json").read_text(encoding="utf-8"))
    if area.startswith("sync-"):
        record = load(_asyncio(area)) | record
        return {case: each for case, each in record.items() if each}
    return docs.unfold(record) if area == docs.AREA else record


def write(area: str, record: dict[str, Any]) -> None:
    """Store the record of an area; replace only cases that were run."""
    DATA.mkdir(exist_ok=True)
    if area in RUN_ELSEWHERE and (DATA / f"{area}.json").exists():
        kept = load(area)
        rest = kept.keys() - RUN_ELSEWHERE[area].part(kept, record).keys()
        record = record | {key: kept[key] for key in rest}
    if area == docs.AREA:
        shown_there = docs.names()
        record = docs.fold({k: v for k, v in record.items() if k in shown_there})
    if area.startswith("sync-"):
        common = load(_asyncio(area))
        record = {
            case: record.get(case, {})
            for case in {*record, *common}
            if record.get(case) != common.get(case)
        }
    (DATA / f"{area}.json").write_text(shown.dumps(record), encoding="utf-8")


def listed(area: str) -> dict[str, str]:
    """Return the accepted differences by case, with their reasons."""
    text = DIFFERENCES.read_text(encoding="utf-8")
    return tomllib.loads(text).get(area, {})


def compare(area: str, made: dict[str, Any]) -> Iterator[str]:
    """Yield each case that differs and is not listed, or is listed and does not."""
    kept, reasons = load(area), listed(area)
    if area in RUN_ELSEWHERE:
        part = RUN_ELSEWHERE[area].part
        kept, reasons = part(kept, made), part(reasons, made)
    for case in sorted({*kept, *made, *reasons}):
        differs = kept.get(case) != made.get(case)
        if differs and case not in reasons:
            yield f"{area}/{case}:\n" + "\n".join(_lines(kept, made, case))
        elif not differs and case in reasons:
            yield f"{area}/{case}: is listed in {DIFFERENCES.name} and does not differ"


def _lines(kept: Any, made: Any, case: str) -> Iterator[str]:
    import difflib

    texts = [
        shown.dumps({case: each[case]} if case in each else {}) for each in (kept, made)
    ]
    yield from difflib.unified_diff(
        *(t.splitlines() for t in texts), "kept", "made", n=1, lineterm=""
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the record anew")
    parser.add_argument("areas", nargs="*", metavar="NAME", help="only these areas")
    options = parser.parse_args()
    logging.disable()
    found = []
    for area in options.areas or AREAS:
        made = make(area)
        if options.write:
            write(area, made)
        else:
            found += compare(area, made)
    sys.stdout.write("\n\n".join([*found, ""]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
