"""`proportion` distinguishes linear from quadratic growth."""

import pytest
from proportion import calls, grows_in_proportion


def squared(text):
    for _ in range(len(text) // 20):
        text.replace("a", "b")  # which takes far longer than the loop


@pytest.mark.parametrize(
    ("function", "is_linear"),
    [(lambda text: text.replace("a", "b"), True), (squared, False)],
)
def test_quadratic_growth_is_distinguished_from_linear_growth(function, is_linear):
    assert grows_in_proportion(function, "a".__mul__, 80_000) is is_linear


def test_python_and_c_calls_are_counted():
    assert calls(len, ()) == 1
    assert calls(lambda: [len(()), len(())]) - calls(lambda: [len(())]) == 1
