"""Objects that are still alive, for tests that nothing is left behind."""

import gc
from typing import TypeVar

T = TypeVar("T")


def living(kind: type[T]) -> list[T]:
    """Return the objects of that class which the garbage collector does not free."""
    gc.collect()
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]
