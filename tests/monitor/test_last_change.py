from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind
from spec_decode_exporter.monitor.last_change import LastChange

WALL = 1_790_000_000.0


class History:
    """History whose windows are their lengths."""

    last_seen = 1_000.0

    def window(self, length):
        return length


def change(age):
    return DropChange(DropKind.SUDDEN, True, 2.8, 2.0, 20.0, age)


def test_without_a_change_there_is_none():
    last = LastChange()
    last.note([], 1_000.0)
    assert last.within(History(), 300.0, WALL) is None
    assert last.number == 0


def test_the_window_of_a_change_begins_at_it():
    last = LastChange()
    last.note([change(age=20.0)], 990.0)
    found = last.within(History(), 300.0, WALL)
    assert (found.window, found.wall) == (30.0, WALL - 30.0)
    assert last.number == 1


@pytest.mark.parametrize(("seconds", "is_within"), [(30.1, True), (30.0, False)])
def test_a_change_before_the_longest_window_does_not_count(seconds, is_within):
    last = LastChange()
    last.note([change(age=20.0)], 990.0)
    assert bool(last.within(History(), seconds, WALL)) is is_within


def test_of_several_changes_the_last_one_counts():
    last = LastChange()
    last.note([change(age=5.0), change(age=60.0)], 900.0)
    last.note([change(age=400.0)], 990.0)
    assert last.within(History(), 300.0, WALL).window == 105.0
    assert last.number == 2


def test_a_change_without_a_moment_is_not_noted():
    last = LastChange()
    last.note([change(age=None)], 990.0)
    assert last.number == 0
