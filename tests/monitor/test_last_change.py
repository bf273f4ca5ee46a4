"""Age of the last detected change."""

from __future__ import annotations

from math import inf

from spec_decode_exporter.drops.sums import Drop, DropKind, Transition
from spec_decode_exporter.monitor.last_change import LastChange


def change(age):
    return Drop(DropKind.SUDDEN, Transition.BEGAN, 2.8, 2.0, 20.0, age)


def test_the_last_change_is_as_old_as_its_most_likely_moment():
    last = LastChange()
    assert (last.age(1000.0), last.number) == (inf, 0)
    last.note([change(age=20.0), change(age=50.0)], 990.0)
    assert (last.age(1000.0), last.number) == (30.0, 1)


def test_a_change_without_a_moment_or_with_an_earlier_one_leaves_it():
    last = LastChange()
    last.note([change(age=20.0)], 990.0)
    last.note([change(age=None)], 991.0)
    assert (last.age(1000.0), last.number) == (30.0, 1)
    last.note([change(age=100.0)], 995.0)
    assert (last.age(1000.0), last.number) == (30.0, 2)
