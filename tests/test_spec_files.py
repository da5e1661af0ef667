"""The specification's files are found, or their absence is reported."""

import pytest
import spec_files


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "checkout"
    root.mkdir()
    return root


def test_folder_from_the_environment_comes_first(root, tmp_path):
    (tmp_path / "shared" / "spec").mkdir(parents=True)
    named = tmp_path / "elsewhere"
    named.mkdir()
    assert spec_files.demand({"MCPWIRE_SPEC": str(named)}, root) == named


@pytest.mark.parametrize("environment", [{}, {"MCPWIRE_SPEC": ""}])
def test_default_folder_is_beside_the_checkout(root, tmp_path, environment):
    beside = tmp_path / "shared" / "spec"
    beside.mkdir(parents=True)
    assert spec_files.demand(environment, root) == beside


def test_missing_folder_from_the_environment_is_not_replaced(root, tmp_path):
    (tmp_path / "shared" / "spec").mkdir(parents=True)
    assert spec_files.find({"MCPWIRE_SPEC": str(tmp_path / "gone")}, root) is None


def test_without_a_folder_the_test_skips_with_a_reason(root):
    with pytest.raises(pytest.skip.Exception, match="set MCPWIRE_SPEC"):
        spec_files.demand({}, root)


def test_without_a_folder_the_test_fails_under_ci(root):
    with pytest.raises(pytest.fail.Exception, match="set MCPWIRE_SPEC"):
        spec_files.demand({"CI": "1"}, root)
