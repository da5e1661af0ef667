"""What `make test` makes of pytest's JUnit file."""

from xml.etree import ElementTree as ET

import ci_skips
import pytest

PASSED = '<testcase classname="tests.a" name="test_one"/>'
SKIPPED = (
    '<testcase classname="tests.b" name="test_two[x]">'
    '<skipped type="pytest.skip" message="no node"/></testcase>'
)
EXPECTED = (
    '<testcase classname="tests.c" name="test_three">'
    '<skipped type="pytest.xfail" message="known"/></testcase>'
)


def report(*cases, failures=0, errors=0, skipped=0):
    suite = (
        f'<testsuite tests="{len(cases)}" failures="{failures}" errors="{errors}" '
        f'skipped="{skipped}">{"".join(cases)}</testsuite>'
    )
    return ET.fromstring(f"<testsuites>{suite}</testsuites>")


@pytest.mark.parametrize("strict", [False, True])
def test_passed_tests_pass(strict):
    lines, code = ci_skips.judge(report(PASSED, PASSED), strict=strict)
    assert (lines, code) == (["2 passed, 0 failed, 0 skipped"], 0)


@pytest.mark.parametrize("strict", [False, True])
def test_a_skip_is_named_and_fails_under_ci(strict):
    lines, code = ci_skips.judge(report(PASSED, SKIPPED, skipped=1), strict=strict)
    assert lines[0] == "skipped: tests.b::test_two[x]: no node"
    assert lines[-1] == "1 passed, 0 failed, 1 skipped"
    assert code == int(strict)


def test_a_skip_with_a_reason_on_the_list_passes_under_ci(monkeypatch):
    monkeypatch.setitem(ci_skips.ALLOWED, "tests.b::test_two", "another platform")
    lines, code = ci_skips.judge(report(PASSED, SKIPPED, skipped=1), strict=True)
    assert (lines, code) == (["1 passed, 0 failed, 1 skipped"], 0)


def test_an_expected_failure_is_no_skip():
    _, code = ci_skips.judge(report(PASSED, EXPECTED, skipped=1), strict=True)
    assert code == 0


@pytest.mark.parametrize("outcome", ["failures", "errors"])
def test_a_failure_fails(outcome):
    lines, code = ci_skips.judge(report(PASSED, PASSED, **{outcome: 1}), strict=False)
    assert (lines[-1], code) == ("1 passed, 1 failed, 0 skipped", 1)


def test_no_test_at_all_fails():
    assert ci_skips.judge(report(), strict=False)[1] == 1


def test_the_program_reads_the_file_and_ci_from_the_environment(
    tmp_path, monkeypatch, capsys
):
    path = tmp_path / "junit.xml"
    path.write_bytes(ET.tostring(report(PASSED, SKIPPED, skipped=1)))
    monkeypatch.setenv("CI", "")
    assert ci_skips.main(str(path)) == 0
    monkeypatch.setenv("CI", "true")
    assert ci_skips.main(str(path)) == 1
    assert capsys.readouterr().out.endswith("1 passed, 0 failed, 1 skipped\n")
