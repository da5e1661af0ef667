"""The specification's files are found, or their absence is told as it should be."""

import pytest
import spec_files


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "checkout"
    root.mkdir()
    return root


def test_the_folder_that_is_named_comes_first(root, tmp_path):
    (tmp_path / "shared" / "spec").mkdir(parents=True)
    named = tmp_path / "elsewhere"
    named.mkdir()
    assert spec_files.demand({"MCPWIRE_SPEC": str(named)}, root) == named


@pytest.mark.parametrize("environment", [{}, {"MCPWIRE_SPEC": ""}])
def test_else_it_is_the_one_beside_the_checkout(root, tmp_path, environment):
    beside = tmp_path / "shared" / "spec"
    beside.mkdir(parents=True)
    assert spec_files.demand(environment, root) == beside


def test_a_named_folder_that_is_missing_is_not_replaced(root, tmp_path):
    (tmp_path / "shared" / "spec").mkdir(parents=True)
    assert spec_files.find({"MCPWIRE_SPEC": str(tmp_path / "gone")}, root) is None


def test_without_a_folder_the_test_skips_and_says_why(root):
    with pytest.raises(pytest.skip.Exception, match="set MCPWIRE_SPEC"):
        spec_files.demand({}, root)


def test_without_a_folder_the_test_fails_under_ci(root):
    with pytest.raises(pytest.fail.Exception, match="set MCPWIRE_SPEC"):
        spec_files.demand({"CI": "1"}, root)
