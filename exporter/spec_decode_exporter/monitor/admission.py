"""Admit the engines of one target, as many as there are places for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache

from spec_decode_exporter.core.capacity import Capacity, places_of
from spec_decode_exporter.scrape.page.layout_map import MAX_ENGINES, MAX_NAMES_TOTAL
from spec_decode_exporter.scrape.page.sample import EngineName, Sample
from spec_decode_exporter.window.increments import first


class Admission:
    """Chooses the engines of a target that are watched, and those that are forgotten for others."""

    def __init__(self, capacity: Capacity, columns: Callable[[EngineName], int]) -> None:
        """Take places from ``capacity``; ``columns`` returns the draft positions of an engine so far."""
        self._capacity = capacity
        self._columns = columns
        self._places = MAX_ENGINES
        self._label_bytes = 0

    def label(self, values: Sequence[str]) -> None:
        """Take the values of the labels that every engine of the target has."""
        self._label_bytes = _bytes(values)

    def admitted(
        self,
        target: Hashable,
        samples: Mapping[EngineName, Sample],
        watched: Sequence[EngineName],
        tokens: int = 0,
    ) -> Mapping[EngineName, Sample]:
        """Return the samples of the engines that have a place; those that are watched come first.

        Engines that the page no longer shows make room for new ones.

        Args:
            target: The target's key.
            samples: The engines of the page.
            watched: The engines that are watched.
            tokens: K as far as the server or the configuration says it, else 0.
        """
        taken = {name: self._places_of(name) for name in watched}
        for name, sample in samples.items():
            # Of an engine that is watched, the windows know the positions.
            positions = tokens if name in taken else max(tokens, first(sample, 0.0, 0.0).tokens)
            taken[name] = self._places_of(name, positions)
        demand, least = sum(taken.values()), min(taken.values(), default=0)
        self._places = self._capacity.places(target, min(demand, MAX_ENGINES), least)
        if demand <= self._places:
            return samples
        known = frozenset(watched)
        by_rank = sorted(samples, key=lambda name: name not in known)
        return {name: samples[name] for name in _fitting(by_rank, taken, self._places)}

    def surplus(self, by_age: Sequence[EngineName]) -> int:
        """Return how many of the first engines exceed the places, or the limit on characters of names."""
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
    names: Sequence[EngineName], taken: Mapping[EngineName, int], places: int
) -> Iterator[EngineName]:
    """Yield the first engines that fit into the ``places``."""
    for name in names:
        if taken[name] <= places:
            places -= taken[name]
            yield name


@lru_cache(maxsize=4096)
def _bytes_of_name(name: EngineName) -> int:
    return _bytes(name)


def _bytes(values: Sequence[str]) -> int:
    return sum(len(value.encode()) for value in values)
