"""Histograms: latencies over the longest window, and acceptance rates of polls."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.answer_lengths import NO_ANSWERS, AnswerLengths
from spec_decode_exporter.window.histograms import HistogramLedger, PollHistogram

BOUNDS = (0.1, 1.0, inf)
INTERVAL = 10.0


def steps(*counts, bounds=BOUNDS):
    return {Latency.DECODE_STEP: Buckets(bounds, counts)}


class Fed:
    """Ledger: poll n, at 10 n seconds, has n observations below 0.1, 2 n below 1, 3 n in total."""

    def __init__(self, length=300.0, polls=0) -> None:
        self.ledger = HistogramLedger(length)
        self.polls = 0
        for _ in range(polls):
            self.poll()

    def poll(self, late=0.0):
        n = self.polls
        self.ledger.add(steps(n, 2 * n, 3 * n), n * INTERVAL + late, INTERVAL)
        self.polls += 1

    def counts(self, newest=None):
        moment = (self.polls - 1) * INTERVAL if newest is None else newest
        found = self.ledger.window(moment)
        return found[Latency.DECODE_STEP].counts if found else None


def test_the_first_page_is_a_starting_point():
    assert Fed(polls=1).counts() is None


def test_a_window_has_what_each_bucket_got():
    assert Fed(polls=4).counts() == (3, 6, 9)


def test_a_window_is_as_long_as_it_is_called():
    assert Fed(polls=100).counts() == (30, 60, 90)


@given(st.lists(st.floats(-0.003, 0.003), min_size=60, max_size=60))
def test_jitter_never_makes_31_increments_out_of_30(jitter):
    fed = Fed()
    for late in jitter:
        fed.poll(late)
    assert fed.counts() == (30, 60, 90)


@pytest.mark.parametrize("since", [0.0, 1.0, 4.9, 5.0, 5.1, 9.9, 19.0])
def test_polls_without_histograms_in_between_take_nothing_from_the_window(since):
    fed = Fed(polls=100)
    assert fed.counts(990.0 + since) == (30, 60, 90)


def test_without_histograms_for_three_of_their_intervals_there_is_no_window():
    fed = Fed(polls=100)
    assert fed.counts(990.0 + 30.0) is not None
    assert fed.counts(990.0 + 30.1) is None


def test_an_outage_longer_than_the_window_is_not_in_it():
    ledger = HistogramLedger(60.0)
    ledger.add(steps(1, 1, 1), 0.0, INTERVAL)
    ledger.add(steps(100, 100, 100), 100.0, INTERVAL)
    assert ledger.window(100.0) == {}
    ledger.add(steps(101, 102, 103), 110.0, INTERVAL)
    assert ledger.window(110.0) == steps(1, 2, 3)


def test_the_order_of_histograms_on_a_page_does_not_matter():
    ledger = HistogramLedger(60.0)
    queue = {Latency.QUEUE: Buckets((5.0, inf), (0, 1))}
    ledger.add(steps(1, 2, 3) | queue, 0.0, INTERVAL)
    ledger.add(queue | steps(2, 4, 6), 10.0, INTERVAL)
    assert ledger.window(10.0) == {
        Latency.DECODE_STEP: Buckets(BOUNDS, (1, 2, 3)),
        Latency.QUEUE: Buckets((5.0, inf), (0, 0)),
    }


def test_other_bounds_reset_the_window():
    fed = Fed(polls=5)
    fed.ledger.add(steps(7, 9, bounds=(0.5, inf)), 50.0, INTERVAL)
    assert fed.ledger.window(50.0) == {}
    fed.ledger.add(steps(8, 11, bounds=(0.5, inf)), 60.0, INTERVAL)
    assert fed.ledger.window(60.0) == steps(1, 2, bounds=(0.5, inf))


def test_after_a_restart_counts_are_from_the_creation():
    fed = Fed(polls=3)
    fed.ledger.reset(25.0)
    fed.ledger.add(steps(1, 1, 5), 30.0, INTERVAL)
    assert fed.ledger.window(30.0) == steps(2 + 1, 4 + 1, 6 + 5)


def test_after_a_reset_at_an_unknown_time_the_next_page_is_a_starting_point():
    fed = Fed(polls=3)
    fed.ledger.reset(None)
    fed.ledger.add(steps(1, 1, 5), 30.0, INTERVAL)
    assert fed.ledger.window(30.0) == steps(2, 4, 6)
    fed.ledger.add(steps(2, 3, 8), 40.0, INTERVAL)
    assert fed.ledger.window(40.0) == steps(2 + 1, 4 + 2, 6 + 3)


def test_a_restart_before_any_histogram_was_seen_is_no_error():
    ledger = HistogramLedger(60.0)
    ledger.reset(5.0)
    ledger.add(steps(1, 1, 1), 10.0, INTERVAL)
    assert ledger.window(10.0) == {}


def test_buckets_that_decrease_are_not_counted():
    fed = Fed(polls=3)
    fed.ledger.add(steps(1, 1, 1), 30.0, INTERVAL)
    assert fed.ledger.window(30.0) == steps(2, 4, 6)


@pytest.mark.parametrize("counts", [(9, 5, 20), (3, 9, 8), (30, 30, 29)])
def test_buckets_that_are_not_cumulative_are_not_counted(counts):
    fed = Fed(polls=3)
    fed.ledger.add(steps(*counts), 30.0, INTERVAL)
    assert fed.ledger.window(30.0) == steps(2, 4, 6)


# Answer lengths


class FedAnswers:
    """Ledger: poll n, at 10 n seconds, has n answers of 100 tokens since the start of the process."""

    def __init__(self, polls) -> None:
        self.ledger = HistogramLedger(60.0)
        for poll in range(polls):
            self.poll(poll, poll)

    def poll(self, poll, answers):
        sums = AnswerLengths(answers, 100_000 * answers, 10**4 * answers, 10**6 * answers)
        self.ledger.add(steps(poll, poll, poll), poll * INTERVAL, INTERVAL, sums)

    def requests(self, newest):
        return self.ledger.answers(newest).requests


def test_answers_are_those_of_the_window():
    assert FedAnswers(1).requests(0.0) == 0
    assert FedAnswers(4).requests(30.0) == 3
    fed = FedAnswers(100)
    assert fed.ledger.answers(990.0) == AnswerLengths(6, 600_000, 6 * 10**4, 6 * 10**6)
    assert fed.requests(990.0 + 30.0) == 6


def test_answers_are_unknown_after_the_windows_end():
    fed = FedAnswers(100)
    assert fed.ledger.answers(990.0 + 30.1) == NO_ANSWERS
    fed.ledger.clear()
    assert fed.ledger.answers(990.0) == NO_ANSWERS


def test_after_a_restart_answers_are_from_the_creation():
    fed = FedAnswers(3)
    fed.ledger.reset(25.0)
    fed.poll(3, 4)
    assert fed.requests(30.0) == 2 + 4


def test_answers_that_decrease_are_not_counted_and_take_no_latencies_with_them():
    fed = FedAnswers(3)
    fed.poll(3, 1)
    assert fed.requests(30.0) == 2
    assert fed.ledger.window(30.0) == steps(3, 3, 3)
    fed.poll(4, 2)
    assert fed.requests(40.0) == 3


def test_a_page_without_answer_lengths_adds_none():
    fed = Fed(polls=3)
    assert fed.ledger.answers(20.0) == NO_ANSWERS


COUNT = st.one_of(st.integers(0, 9), st.integers(0, 2**53), st.sampled_from([2**53 - 1, 2**62, 2**63]))


@given(st.lists(st.tuples(COUNT, COUNT, COUNT), max_size=20))
def test_the_counts_over_a_window_are_a_valid_histogram_for_any_page(pages):
    ledger = HistogramLedger(60.0)
    for number, counts in enumerate(pages):
        ledger.add(steps(*counts), number * INTERVAL, INTERVAL)
        for found in ledger.window(number * INTERVAL).values():
            assert [0, *found.counts] == sorted([0, *found.counts])


def test_clearing_keeps_the_page_from_which_the_next_increment_is_counted():
    fed = Fed(polls=3)
    fed.ledger.clear()
    assert fed.counts() is None
    fed.poll()
    assert fed.counts() == (1, 2, 3)


def test_a_shorter_length_holds_from_now_on():
    fed = Fed(polls=100)
    fed.ledger.keep(60.0)
    assert fed.counts() == (6, 12, 18)


def test_a_longer_length_fills_up():
    fed = Fed(length=60.0, polls=100)
    fed.ledger.keep(120.0)
    assert fed.counts()[0] <= 8
    for _ in range(12):
        fed.poll()
    assert fed.counts() == (12, 24, 36)


def observed(*polls):
    histogram = PollHistogram()
    for drafted, accepted in polls:
        histogram.observe(drafted, accepted)
    return histogram


def test_its_bounds_are_tenths_and_all_are_there_from_the_start():
    bounds = ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0", "+Inf"]
    assert PollHistogram().cumulative() == [(bound, 0) for bound in bounds]


def test_a_poll_counts_with_its_draft_tokens():
    buckets = dict(observed((100, 55), (10, 10)).cumulative())
    assert buckets["0.5"] == 0
    assert buckets["0.6"] == 100
    assert buckets["0.9"] == 100
    assert buckets["1.0"] == buckets["+Inf"] == 110


def test_a_rate_on_a_bound_belongs_to_it():
    assert dict(observed((10, 3)).cumulative())["0.3"] == 10


def test_nothing_accepted_is_in_the_first_bucket():
    assert dict(observed((10, 0)).cumulative())["0.1"] == 10


def test_a_torn_page_above_1_is_above_the_last_bound():
    buckets = dict(observed((10, 11)).cumulative())
    assert (buckets["1.0"], buckets["+Inf"]) == (0, 10)


def test_a_poll_without_drafts_has_no_weight_but_its_accepted_tokens_are_in_the_sum():
    histogram = observed((0, 3), (8, 1))
    assert dict(histogram.cumulative())["+Inf"] == 8
    assert histogram.sum == 4


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))))
def test_buckets_are_those_of_counting_one_by_one(polls):
    histogram = observed(*polls)
    for tenth, (bound, count) in enumerate(histogram.cumulative()[:-1], 1):
        expected = sum(drafted for drafted, accepted in polls if 10 * accepted <= tenth * drafted)
        assert (Fraction(bound), count) == (Fraction(tenth, 10), expected)
    assert histogram.cumulative()[-1][1] == sum(drafted for drafted, _ in polls)
    assert histogram.sum == sum(accepted for _, accepted in polls)
