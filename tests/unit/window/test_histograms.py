"""Histograms: latencies and answer lengths over the longest window."""

from __future__ import annotations

from itertools import accumulate
from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.histograms import Answers, Histograms, answers_of

BOUNDS = (0.1, 1.0, inf)
INTERVAL = 10.0


def latencies(*counts, bounds=BOUNDS):
    return {Latency.DECODE_STEP: Buckets(bounds, counts)}


class Fed:
    """Histograms: poll n, at 10 n seconds, has n observations below 0.1 s, 2 n below 1 s, 3 n in all.

    It has n answers of at most 100 tokens, too.
    """

    def __init__(self, length=300.0, polls=0) -> None:
        self.histograms = Histograms(length)
        self.now = -INTERVAL
        for poll in range(polls):
            self.poll((poll, 2 * poll, 3 * poll), poll)

    def poll(self, counts, answers=0, *, bounds=BOUNDS):
        self.now += INTERVAL
        lengths = Buckets((100.0, inf), (answers, answers))
        self.histograms.add(latencies(*counts, bounds=bounds), lengths, self.now, INTERVAL)
        return self

    def counts(self, later=0.0):
        found = self.histograms.latencies(self.now + later)
        return found[Latency.DECODE_STEP].counts if found else None

    def answers(self, later=0.0):
        return self.histograms.answers(self.now + later).requests


@pytest.mark.parametrize(("polls", "within"), [(0, None), (1, None), (4, 3), (31, 30), (100, 30)])
def test_a_window_has_what_each_bucket_got_since_its_begin(polls, within):
    fed = Fed(polls=polls)
    assert fed.counts() == (within and (within, 2 * within, 3 * within))
    assert fed.histograms.answers(fed.now) == Answers(*(n * (within or 0) for n in (1, 10**5, 10**4, 10**6)))


@pytest.mark.parametrize(("later", "is_there"), [(0.0, True), (9.9, True), (30.0, True), (30.1, False)])
def test_a_window_stays_until_three_intervals_without_histograms(later, is_there):
    fed = Fed(polls=100)
    assert (fed.counts(later), fed.answers(later)) == (((30, 60, 90), 30) if is_there else (None, 0))


def test_an_outage_longer_than_the_window_is_not_in_it():
    fed = Fed(length=60.0).poll((1, 1, 1))
    fed.now = 90.0
    assert fed.poll((100, 100, 100)).counts() is None
    assert fed.poll((101, 102, 103)).counts() == (1, 2, 3)


def test_the_histograms_of_a_page_belong_together():
    """Their order does not matter, and one that is broken takes the page with it."""

    def queue(*counts):
        return {Latency.QUEUE: Buckets((5.0, inf), counts)}

    histograms = Histograms(60.0)
    histograms.add(latencies(1, 2, 3) | queue(0, 1), None, 0.0, INTERVAL)
    histograms.add(queue(3, 2) | latencies(2, 4, 6), None, 10.0, INTERVAL)
    assert histograms.latencies(10.0) == {}
    histograms.add(queue(4, 6) | latencies(3, 6, 9), None, 20.0, INTERVAL)
    assert histograms.latencies(20.0) == latencies(1, 2, 3) | queue(1, 4)


def test_other_bounds_reset_the_window():
    fed = Fed(polls=5).poll((7, 9), bounds=(0.5, inf))
    assert fed.counts() is None
    fed.poll((8, 11), bounds=(0.5, inf))
    assert fed.histograms.latencies(fed.now) == latencies(1, 2, bounds=(0.5, inf))


def test_after_a_restart_observations_count_from_its_begin():
    fed = Fed(polls=3)
    fed.histograms.restart(25.0)
    fed.poll((1, 1, 5), 4)
    assert (fed.counts(), fed.answers()) == ((2 + 1, 4 + 1, 6 + 5), 2 + 4)


def test_after_a_restart_at_an_unknown_time_latencies_and_answers_are_still_of_one_window():
    fed = Fed(length=30.0, polls=10)
    fed.histograms.restart(None)
    assert (fed.poll((1, 1, 5), 7).counts(), fed.answers()) == ((2, 4, 6), 2)
    assert (fed.poll((2, 2, 9), 8).counts(), fed.answers()) == ((1 + 1, 2 + 1, 3 + 4), 1 + 1)


@pytest.mark.parametrize("counts", [(1, 1, 1), (3, 9, 8), (30, 30, 29)])
def test_buckets_that_decrease_or_are_not_cumulative_are_not_counted(counts):
    fed = Fed(polls=3).poll(counts, 9)
    assert (fed.counts(), fed.answers()) == ((2, 4, 6), 2)


def test_impossible_answers_take_the_page_with_them():
    fed = Fed(polls=3).poll((3, 6, 9), 1)
    assert (fed.counts(), fed.answers()) == ((2, 4, 6), 2)
    assert (fed.poll((4, 8, 12), 2).counts(), fed.answers()) == ((3, 6, 9), 3)


@pytest.mark.parametrize(("length", "within"), [(30.0, 3), (90.0, 7)])
def test_another_length_of_the_window_holds_from_the_next_page_on(length, within):
    fed = Fed(length=60.0, polls=10)
    fed.histograms.keep = length
    assert fed.poll((10, 20, 30), 10).counts() == (within, 2 * within, 3 * within)


COUNT = st.one_of(st.integers(0, 9), st.integers(0, 2**53 - 1), st.just(2**53 - 1))


@given(st.lists(st.tuples(COUNT, COUNT, COUNT), max_size=20))
def test_the_counts_over_a_window_are_a_valid_histogram_for_any_page(pages):
    fed = Fed(length=60.0)
    for counts in pages:
        found = fed.poll(counts).counts() or ()
        assert [0, *found] == sorted([0, *found])


# Answer lengths

LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, inf)
COUNTS = st.lists(st.integers(0, 10_000), min_size=len(LENGTHS), max_size=len(LENGTHS))


def answers(counts):
    counts = dict(zip(LENGTHS, counts, strict=True)) if isinstance(counts, list) else counts
    return answers_of(Buckets(LENGTHS, tuple(accumulate(counts.get(bound, 0) for bound in LENGTHS))))


@pytest.mark.parametrize(
    ("bucket", "tokens"),
    [
        (1, 1.0),  # the first bucket is one token
        (500, sqrt(200 * 500)),  # the geometric midpoint
        (inf, 5000 * sqrt(2.5)),  # the last bucket is as wide as the widest before it
    ],
)
def test_the_length_of_an_answer_follows_from_its_bucket(bucket, tokens):
    assert answers({bucket: 2}).millitokens == pytest.approx(2000 * tokens, rel=1e-5)


@pytest.mark.parametrize("buckets", [None, Buckets(LENGTHS, (0,) * len(LENGTHS)), Buckets((inf,), (5,))])
def test_without_answers_or_with_one_bucket_of_any_length_nothing_is_known(buckets):
    found = answers_of(buckets)
    assert (found.equal_share, found.life_share) == (None, None)


@given(COUNTS.filter(any), COUNTS)
def test_the_sums_of_all_requests_are_the_sums_of_their_parts(one, other):
    both = answers([a + b for a, b in zip(one, other, strict=True)])
    assert both == tuple(a + b for a, b in zip(answers(one), answers(other), strict=True))
    # By Cauchy and Schwarz: (Σl²)² is at most Σl·Σl³, and (Σl)² at most n·Σl².
    assert 0 < both.life_share <= both.equal_share * (1 + 1e-3) <= 1 + 1e-3
