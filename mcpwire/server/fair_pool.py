"""Divides one bounded pool among the clients that share it.

Each item belongs to an owner: a principal, or the network of a client's address. When
the pool is full, an item of the owner with the most items leaves, its longest unused
first. An owner that has no more items than the newcomer's owner loses none for it.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

__all__ = ["FairPool", "client_key", "client_of"]

Item = TypeVar("Item", bound="Hashable")

SCAN_LIMIT: Final = 64
"""How many items `FairPool.to_evict` looks at: thousands may be in use."""


class FairPool(Generic[Item]):
    """The items of one pool, by owner; each owner's longest unused item first.

    All operations take constant time.
    """

    __slots__ = ("_items", "_most", "_owners", "_rank_of", "_ranks")

    def __init__(self) -> None:
        self._owners: dict[Item, Hashable] = {}
        self._items: dict[Hashable, dict[Item, None]] = {}
        # The owners of each number of items, and for each owner those with as many.
        self._ranks: dict[int, dict[Hashable, None]] = {}
        self._rank_of: dict[Hashable, dict[Hashable, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._owners)

    def __contains__(self, item: object) -> bool:
        """Tell whether the pool holds this item."""
        return item in self._owners

    def __iter__(self) -> Iterator[Item]:
        """Iterate over all items, in the order of their arrival."""
        return iter(self._owners)

    def owner(self, item: Item) -> Hashable:
        """Return the owner of an item, which the pool must hold."""
        return self._owners[item]

    def count(self, owner: Hashable) -> int:
        """Return the number of items of one owner."""
        return len(self._items.get(owner, ()))

    def add(self, item: Item, owner: Hashable) -> None:
        """Add an item, as its owner's last used one; it must not be in the pool."""
        self._owners[item] = owner
        items = self._items.setdefault(owner, {})
        self._rank(owner, len(items), len(items) + 1)
        items[item] = None

    def touch(self, item: Item) -> None:
        """Make an item its owner's last used one, if the pool holds it."""
        if item in self._owners:
            owner = self._owners[item]
            items = self._items[owner]
            del items[item]
            items[item] = None
            # Of owners with as many items, one that uses its own loses none before one
            # that does not.
            rank = self._rank_of[owner]
            del rank[owner]
            rank[owner] = None

    def discard(self, item: Item) -> None:
        """Remove an item, if the pool holds it."""
        if item not in self._owners:
            return
        owner = self._owners.pop(item)
        items = self._items[owner]
        self._rank(owner, len(items), len(items) - 1)
        del items[item]
        if not items:
            del self._items[owner]

    def clear(self) -> None:
        """Remove all items."""
        self._owners.clear()
        self._items.clear()
        self._ranks.clear()
        self._rank_of.clear()
        self._most = 0

    def to_evict(
        self, owner: Hashable, may_evict: Callable[[Item], bool] = lambda _: True
    ) -> Item | None:
        """Return the item that leaves for a new one of this owner.

        Args:
            owner: The newcomer's.
            may_evict: Whether an item can leave now; it must not change the pool.

        Returns:
            The longest unused item of the owner with the most, as long as that owner
            has more than the newcomer's; else the newcomer's own longest unused one.
            ``None`` if none of the first 64 may leave; the next call looks at others.
        """
        for item in list(islice(self._candidates(owner), SCAN_LIMIT)):
            if may_evict(item):
                return item
            self.touch(item)
        return None

    def to_displace(
        self,
        owner: Hashable,
        is_idle: Callable[[Item], bool],
        may_end: Callable[[Item], bool] = lambda _: True,
    ) -> Item | None:
        """Return the item that ends for a new one of this owner, or ``None``.

        An owner with more items than this owner loses an idle one, else a busy one.
        Where there is no such owner, this owner loses an idle one of its own.

        Args:
            owner: The newcomer's.
            is_idle: Whether nothing uses an item; it must not change the pool.
            may_end: Whether an item can end at all.
        """

        def is_other(item: Item) -> bool:
            return self._owners[item] != owner and may_end(item)

        rules: tuple[Callable[[Item], bool], ...] = (
            lambda item: is_other(item) and is_idle(item),
            is_other,
            lambda item: may_end(item) and is_idle(item),
        )
        found = (self.to_evict(owner, rule) for rule in rules)
        return next((item for item in found if item is not None), None)

    def _candidates(self, owner: Hashable) -> Iterator[Item]:
        for size in range(self._most, self.count(owner), -1):
            for other in self._ranks.get(size, ()):
                yield from self._items[other]
        yield from self._items.get(owner, ())

    def _rank(self, owner: Hashable, before: int, after: int) -> None:
        if before:
            rank = self._rank_of.pop(owner)
            del rank[owner]
            if not rank:
                del self._ranks[before]
        if after:
            rank = self._rank_of[owner] = self._ranks.setdefault(after, {})
            rank[owner] = None
        if after > self._most or before == self._most not in self._ranks:
            self._most = after


def client_key(name: str, owner: Hashable) -> str:
    """Return a name that also says which client it belongs to, but not who that is.

    Args:
        name: The name; it has no full stop.
        owner: The client, by a value whose `repr` is always the same.
    """
    return f"{name}.{sha256(repr(owner).encode()).hexdigest()[:16]}"


def client_of(key: str) -> str:
    """Return what all keys of one client have in common; a mere name is a client."""
    return key.rpartition(".")[2]
