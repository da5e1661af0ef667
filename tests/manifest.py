"""The requirement manifest, compared both ways with the rules and with the markers.

As a program: `python tests/manifest.py` prints the progress of each group of rules,
`python tests/manifest.py --write` marks the rules that tests cover and lowers the
ceiling of the open ones.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

MANIFEST: Final = Path(__file__).parent.parent / "conformance" / "requirements.toml"

STATUS: Final = re.compile(
    r"covered|(open|partly) #[1-9][0-9]*|(waived|not ours): \S.{9,}"
)

TESTED: Final = frozenset({"covered", "partly"})
UNDONE: Final = frozenset({"open", "partly"})


def load(text: str) -> tuple[dict[str, str], int]:
    document = tomllib.loads(text)
    return document["rules"], document["ceiling"]["open"]


def kind_of(status: str) -> str:
    return re.split(r" #|:", status, maxsplit=1)[0]


def count_undone(statuses: Mapping[str, str]) -> int:
    """Return how many rules are open, wholly or in part."""
    return sum(kind_of(status) in UNDONE for status in statuses.values())


def compare_with_rules(
    statuses: Mapping[str, str], rule_ids: Iterable[str]
) -> list[str]:
    """Return the rules without a status, the statuses without a rule, the misspelt."""
    expected = list(rule_ids)
    wrong = [f"{rule}: has no status" for rule in expected if rule not in statuses]
    wrong += [f"{rule}: is no rule" for rule in statuses if rule not in set(expected)]
    if not wrong and list(statuses) != expected:
        wrong.append("the manifest's order is not that of the rules")
    return wrong + [
        f"{rule}: {status!r} is no status"
        for rule, status in statuses.items()
        if not STATUS.fullmatch(status)
    ]


def compare_with_tests(
    statuses: Mapping[str, str], tested: Mapping[str, list[str]]
) -> list[str]:
    """Return the rules for which status and tests contradict each other."""
    wrong = []
    for rule, status in statuses.items():
        tests = tested.get(rule, [])
        if kind_of(status) in TESTED and not tests:
            wrong.append(f"{rule}: {status!r}, but no test carries it")
        elif kind_of(status) not in TESTED and tests:
            wrong.append(f"{rule}: {status!r}, but {tests[0]} carries it")
    for rule, tests in tested.items():
        if rule not in statuses:
            wrong.append(f"{rule}: no such rule, but {tests[0]} carries it")
    return wrong


def compare_with_ceiling(statuses: Mapping[str, str], ceiling: int) -> list[str]:
    """Return a complaint if the ceiling is not the number of open rules."""
    count = count_undone(statuses)
    if count == ceiling:
        return []
    return [f"{count} rules are open, the ceiling says {ceiling}; it only falls"]


def rewrite(text: str, tested: Iterable[str]) -> str:
    """Mark the tested rules as covered, except partly done ones; lower the ceiling."""
    statuses, ceiling = load(text)
    for rule in tested:
        if kind_of(statuses.get(rule, "")) == "partly":
            continue
        text = re.sub(
            rf'^{re.escape(rule)} = ".*"$',
            f'{rule} = "covered"',
            text,
            flags=re.MULTILINE,
        )
    count = count_undone(load(text)[0])
    if count < ceiling:
        text = re.sub(r"^open = \d+$", f"open = {count}", text, flags=re.MULTILINE)
    return text


def tested_rules() -> dict[str, list[str]]:
    """Return each rule id that tests carry, with those tests."""
    import markers

    tested: dict[str, list[str]] = {}
    for marker, rule, test in markers.read_all()[0]:
        if marker == "rule":
            tested.setdefault(rule, []).append(test)
    return tested


def summarize(statuses: Mapping[str, str]) -> str:
    """Return a table: a line per group of rules, a column per status."""
    kinds = ["covered", "partly", "open", "waived", "not ours"]
    groups: dict[str, Counter[str]] = {}
    for rule, status in statuses.items():
        counts = groups.setdefault(rule.rpartition("-")[0], Counter())
        counts[kind_of(status)] += 1
    groups["all"] = sum(groups.values(), Counter())
    rows = [["", *kinds]]
    rows += [
        [name, *(str(counts[kind]) for kind in kinds)]
        for name, counts in groups.items()
    ]
    return "\n".join(
        row[0].ljust(10) + "".join(cell.rjust(10) for cell in row[1:]) for row in rows
    )


def main(arguments: list[str]) -> int:
    """Print the summary; with `--write`, bring the file up to date first."""
    text = MANIFEST.read_text(encoding="utf-8")
    tested = tested_rules()
    if "--write" in arguments:
        text = rewrite(text, tested)
        MANIFEST.write_text(text, encoding="utf-8")
    statuses, ceiling = load(text)
    wrong = compare_with_tests(statuses, tested)
    wrong += compare_with_ceiling(statuses, ceiling)
    sys.stdout.write("\n".join([summarize(statuses), *wrong]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
