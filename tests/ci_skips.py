"""Read pytest's JUnit file: count, and under CI fail for every skip not named here.

A test skipped because a tool, a server or a file is missing looks like a pass. Under CI
everything is installed by the set-up, so there a skip is a failure unless it is listed
with its reason.
"""

import os
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

# Test (`file-module::name` without parameters) -> why it may be skipped under CI.
ALLOWED: dict[str, str] = {}


def skips(report: ET.Element) -> list[tuple[str, str]]:
    """Return the skipped tests as (test, reason); expected failures are not skips."""
    found = []
    for case in report.iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None and skipped.get("type") != "pytest.xfail":
            name = f"{case.get('classname')}::{case.get('name')}"
            found.append((name, skipped.get("message") or ""))
    return found


def allowed(test: str) -> bool:
    return test.partition("[")[0] in ALLOWED


def counts(report: ET.Element) -> tuple[int, int, int]:
    """Return how many tests passed, failed and did not run."""
    suites = list(report.iter("testsuite"))

    def total(*keys: str) -> int:
        return sum(int(suite.get(key) or 0) for suite in suites for key in keys)

    failed, skipped = total("failures", "errors"), total("skipped")
    return total("tests") - failed - skipped, failed, skipped


def main(path: str) -> int:
    report = ET.fromstring(Path(path).read_text(encoding="utf-8"))
    unexpected = [skip for skip in skips(report) if not allowed(skip[0])]
    for test, reason in unexpected:
        print(f"skipped: {test}: {reason}")
    strict = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
    passed, failed, skipped = counts(report)
    if passed == 0:
        print(f"no test passed according to {path}")
        return 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if strict and unexpected:
        print(
            "a skipped test is a failure under CI unless it is listed with its reason"
        )
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
