from __future__ import annotations

import pytest

from spec_decode_exporter.drops.drop import DropChange, DropKind
from spec_decode_exporter.monitor.last_change import LastChange

WALL = 1_790_000_000.0


class History:
    """History whose windows are their lengths."""

    last_seen = 1_000.0

    def window(self, length):
        return length


def change(age):
    return DropChange(DropKind.SUDDEN, True, 2.8, 2.0, 20.0, age)


@pytest.mark.parametrize(("seconds", "is_within"), [(30.1, True), (30.0, False)])
def test_a_change_before_the_longest_window_does_not_count(seconds, is_within):
    last = LastChange()
    last.note([change(age=20.0)], 990.0)
    assert bool(last.within(History(), seconds, WALL)) is is_within
