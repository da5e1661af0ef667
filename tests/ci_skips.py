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


def judge(report: ET.Element, *, strict: bool) -> tuple[list[str], int]:
    """Return what to say, the counts last, and the exit code."""
    unexpected = [skip for skip in skips(report) if not allowed(skip[0])]
    lines = [f"skipped: {test}: {reason}" for test, reason in unexpected]
    passed, failed, skipped = counts(report)
    bad = failed > 0 or passed == 0
    if strict and unexpected:
        lines.append("under CI a skip is a failure unless tests/ci_skips.py lists it")
        bad = True
    lines.append(f"{passed} passed, {failed} failed, {skipped} skipped")
    return lines, int(bad)


def main(path: str) -> int:
    report = ET.fromstring(Path(path).read_text(encoding="utf-8"))
    strict = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
    lines, code = judge(report, strict=strict)
    sys.stdout.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
