"""Admission of the engines of one target within the fleet's capacity."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, KeysView, Mapping, Sequence
from functools import lru_cache

from spec_decode_exporter.core.capacity import Capacity, places_of
from spec_decode_exporter.scrape.page.layout_map import MAX_ENGINES, MAX_NAMES_TOTAL
from spec_decode_exporter.scrape.page.sample import EngineName, Sample
from spec_decode_exporter.window.poll import step


class Admission:
    """Selects the monitored engines of a target, and those to evict."""

    def __init__(self, capacity: Capacity, columns: Callable[[EngineName], int]) -> None:
        """Take places from ``capacity``; ``columns`` returns the draft positions of an engine so far."""
        self._capacity = capacity
        self._columns = columns
        self._places = MAX_ENGINES
        self._label_bytes = 0

    def label(self, values: Sequence[str]) -> None:
        """Set the values of the labels that every engine of the target has."""
        self._label_bytes = _bytes(values)

    def admitted(
        self,
        target: Hashable,
        samples: Mapping[EngineName, Sample],
        monitored: KeysView[EngineName],
        tokens: int = 0,
    ) -> Mapping[EngineName, Sample]:
        """Return the samples of the engines that have a place; monitored engines come first.

        Engines that the page no longer shows free their places for new ones.

        Args:
            target: Key of the target.
            samples: Engines of the page.
            monitored: Engines that are monitored already.
            tokens: K by the server or the configuration, else 0.
        """
        required = {name: self._places_of(name) for name in monitored - samples.keys()}
        for name, sample in samples.items():
            # The windows of a monitored engine know its positions.
            positions = tokens if name in monitored else max(tokens, step(None, sample, 0.0, 0.0).poll.tokens)
            required[name] = self._places_of(name, positions)
        demand, smallest = sum(required.values()), min(required.values(), default=0)
        self._places = self._capacity.places(target, min(demand, MAX_ENGINES), smallest)
        if demand <= self._places:
            return samples
        by_rank = sorted(samples, key=lambda name: name not in monitored)
        return {name: samples[name] for name in _fitting(by_rank, required, self._places)}

    def surplus(self, by_age: Sequence[EngineName]) -> int:
        """Return the number of the oldest engines that exceed the places or the characters of names."""
        places, characters = self._places, MAX_NAMES_TOTAL
        for kept, name in enumerate(reversed(by_age)):
            characters -= sum(map(len, name))
            places -= self._places_of(name)
            if characters < 0 or places < 0:
                return len(by_age) - kept
        return 0

    def _places_of(self, name: EngineName, positions: int = 0) -> int:
        """Return the places of an engine with ``positions`` draft positions, or those that it had before."""
        return places_of(max(self._columns(name), positions), self._label_bytes + _bytes_of_name(name))


def _fitting(
    names: Sequence[EngineName], required: Mapping[EngineName, int], places: int
) -> Iterator[EngineName]:
    """Yield the first engines that fit into the ``places``."""
    for name in names:
        if required[name] <= places:
            places -= required[name]
            yield name


@lru_cache(maxsize=4096)
def _bytes_of_name(name: EngineName) -> int:
    return _bytes(name)


def _bytes(values: Sequence[str]) -> int:
    return sum(len(value.encode()) for value in values)
