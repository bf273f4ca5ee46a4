"""An experiment that is compared again and again."""

from __future__ import annotations

from random import Random

from spec_decode_exporter.experiments.experiment import ExperimentTracker, compare
from spec_decode_exporter.window.history import NANO, row_of
from spec_decode_exporter.window.ring import Ring
from tests.fakes.arms import (
    EAGLE,
    NOW,
    PLAIN,
    SETTINGS,
    TIME,
    member,
    second_of,
    times,
    window_of,
    window_over,
)
from tests.fakes.windows import increment

SLOWER = EAGLE | {"decode_nanoseconds": 8 * NANO, "end_to_end_nanoseconds": 8_800_000_000}
LONGEST = 300.0
UNKNOWN = ("finished_requests", "end_to_end_nanoseconds")


def looked(tracker, moment, eagle=EAGLE, running=6.0):
    now = NOW + moment
    members = [
        member("off", window_of(PLAIN, now=now)),
        member("eagle", window_of(eagle, now=now, running=running)),
        member("ngram", window_of(SLOWER, now=now)),
    ]
    found = tracker.compare(members, (30.0, LONGEST), now)
    return found, found.faster_method("ngram", members[2])


def winner_of(found):
    (name,) = [name for name, arm in found.arms.items() if arm.wins[TIME]] or [None]
    return name


def test_winner_and_better_method_are_named_once_they_stood_for_a_whole_longest_window():
    tracker = ExperimentTracker(SETTINGS)
    found = [looked(tracker, moment) for moment in (0, 150, 299, 300, 305)]
    assert [winner_of(each) for each, _ in found] == [None, None, None, "eagle", "eagle"]
    assert [faster and faster.method for _, faster in found] == [None, None, None, "eagle", "eagle"]


def test_traffic_that_explains_the_speed_up_ends_it_at_once():
    tracker = ExperimentTracker(SETTINGS)
    for moment in (0, 300):
        looked(tracker, moment)
    ended, no_faster = looked(tracker, 305, eagle=times(EAGLE, 0.25), running=1.5)
    assert (winner_of(ended), no_faster) == (None, None)
    assert [winner_of(looked(tracker, moment)[0]) for moment in (310, 605, 610)] == [None, None, "eagle"]


def test_equal_arms_hardly_ever_have_a_winner_with_repeated_comparisons():
    """Ten hours of two arms that are the same, compared once a minute."""

    def hour(seed):
        random, tracker = Random(seed), ExperimentTracker(SETTINGS)
        rings, states, at_once, stood = (Ring(LONGEST), Ring(LONGEST)), ([0.0], [0.0]), False, False
        for now in map(float, range(1, 3901)):
            for ring, state in zip(rings, states, strict=True):
                moved = second_of(random, 0.02, state, now) | {"decode_steps": 240, "prompt_tokens": 800}
                ring.add(now - 1, now, row_of(increment(load=6.0, **moved), (6.0, 0.0, 0.0)), 1.0)
            if now >= LONGEST and now % 60 == 0:
                members = [
                    member(name, window_over(ring.since(now - LONGEST - 0.5), hidden=UNKNOWN))
                    for name, ring in zip(("off", "eagle"), rings, strict=True)
                ]
                at_once |= winner_of(compare(SETTINGS, members, (LONGEST,), now)) is not None
                stood |= winner_of(tracker.compare(members, (LONGEST,), now)) is not None
        return at_once, stood

    hours = [hour(seed) for seed in range(10)]
    assert sum(at_once for at_once, _ in hours) >= 5
    assert sum(stood for _, stood in hours) <= 2
