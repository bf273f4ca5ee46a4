"""An experiment that is compared again and again."""

from spec_decode_exporter.experiments.experiment import Claims, compare
from spec_decode_exporter.window.engine_windows import NANO
from tests.fakes.arms import EAGLE, NOW, PLAIN, SETTINGS, TIME, member, times, window_of

SLOWER = EAGLE | {"decode_nanoseconds": 8 * NANO, "end_to_end_nanoseconds": 8_800_000_000}
LONGEST = 300.0


def looked(claims, moment, eagle=EAGLE, running=6.0):
    """Compare again; return the winner and the better method for the slower drafter."""
    now = NOW + moment
    members = [
        member("off", window_of(PLAIN, now=now)),
        member("eagle", window_of(eagle, now=now, running=running)),
        member("ngram", window_of(SLOWER, now=now)),
    ]
    found = compare(SETTINGS, members, (30.0, LONGEST), now, claims)
    (winner,) = [name for name, arm in found.arms.items() if arm.wins[TIME]] or [None]
    faster = found.faster_method("ngram", members[2])
    return winner, faster and faster.method


def test_winner_and_better_method_are_named_once_they_stood_for_a_whole_longest_window():
    claims = Claims()
    found = [looked(claims, moment) for moment in (0, 150, 299, 300, 305)]
    assert found == [(None, None)] * 3 + [("eagle", "eagle")] * 2


def test_traffic_that_explains_the_speed_up_ends_it_at_once():
    claims = Claims()
    for moment in (0, 300):
        looked(claims, moment)
    assert looked(claims, 305, eagle=times(EAGLE, 0.25), running=1.5) == (None, None)
    assert [looked(claims, moment)[0] for moment in (310, 605, 610)] == [None, None, "eagle"]
