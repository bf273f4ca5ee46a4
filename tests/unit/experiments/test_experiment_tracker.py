"""An experiment that is compared again and again."""

from spec_decode_exporter.experiments.experiment import Claims, compare
from spec_decode_exporter.window.engine_windows import NANO
from tests.fakes.arms import EAGLE, NOW, PLAIN, SETTINGS, TIME, member, times, window_of

SLOWER = EAGLE | {"decode_nanoseconds": 8 * NANO, "end_to_end_nanoseconds": 8_800_000_000}
LONGEST = 300.0


def looked(claims, moment, eagle=EAGLE, running=6.0):
    now = NOW + moment
    members = [
        member("off", window_of(PLAIN, now=now)),
        member("eagle", window_of(eagle, now=now, running=running)),
        member("ngram", window_of(SLOWER, now=now)),
    ]
    found = compare(SETTINGS, members, (30.0, LONGEST), now, claims)
    return found, found.faster_method("ngram", members[2])


def winner_of(found):
    (name,) = [name for name, arm in found.arms.items() if arm.wins[TIME]] or [None]
    return name


def test_winner_and_better_method_are_named_once_they_stood_for_a_whole_longest_window():
    claims = Claims()
    found = [looked(claims, moment) for moment in (0, 150, 299, 300, 305)]
    assert [winner_of(each) for each, _ in found] == [None, None, None, "eagle", "eagle"]
    assert [faster and faster.method for _, faster in found] == [None, None, None, "eagle", "eagle"]


def test_traffic_that_explains_the_speed_up_ends_it_at_once():
    claims = Claims()
    for moment in (0, 300):
        looked(claims, moment)
    ended, no_faster = looked(claims, 305, eagle=times(EAGLE, 0.25), running=1.5)
    assert (winner_of(ended), no_faster) == (None, None)
    assert [winner_of(looked(claims, moment)[0]) for moment in (310, 605, 610)] == [None, None, "eagle"]
