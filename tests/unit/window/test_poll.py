"""Increments and resets between two polls, and the identities that one page breaks."""

from dataclasses import replace
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.engines import ENGINES, Counter
from spec_decode_exporter.scrape.sample import SampleReader
from spec_decode_exporter.window.poll import UNKNOWN, Check, Counters, Reset, step
from tests.conftest import make_sample
from tests.every import every

WALL = 1_790_000_000.0


def first(sample, moment=0.0):
    return step(None, sample, moment, WALL + moment).poll


def after(before, sample, *, wall=WALL + 11.0):
    """Return the step from one sample to another, a second later."""
    return step(first(before, 10.0), sample, 11.0, wall)


def outcome(taken):
    return taken.reset, taken.increment is not None


RESET, COUNTED = (Reset.DECREASE, False), (None, True)


@every(Counters._fields)
def test_any_counter_that_decreases_is_a_reset_and_nothing_is_added(counter):
    taken = after(make_sample(**{counter: 5}), make_sample(**{counter: 4}))
    assert outcome(taken) == RESET
    assert getattr(taken.poll.counters, counter) == 4


@pytest.mark.parametrize(
    ("before", "now", "load"), [(9.0, 2.0, 9.0), (2.0, 9.0, 9.0), (None, 2.0, 2.0), (None, None, 0.0)]
)
def test_the_load_of_an_increment_is_the_larger_of_its_two_ends(before, now, load):
    samples = make_sample(1, running_requests=before), make_sample(2, running_requests=now, created=WALL)
    assert after(*samples).increment.load == load
    earlier = make_sample(1, running_requests=64.0, created=WALL)
    restarted = after(earlier, make_sample(1, running_requests=now, created=WALL + 10.5))
    assert restarted.increment.load == (now or 0.0)


@pytest.mark.parametrize("drafts", [5, 500])
def test_a_process_created_since_the_last_poll_is_counted_from_its_creation(drafts):
    before = make_sample(100, 400, 200, created=WALL, positions=(90, 60, 30, 20))
    now = make_sample(drafts, 4 * drafts, 8, created=WALL + 10.25, positions=(4, 2, 1, 1))
    taken = after(before, now)
    assert taken.reset is Reset.RESTART
    assert (taken.increment.begin, taken.increment.end) == (10.25, 11.0)
    assert taken.increment.counters[:3] == (drafts, 4 * drafts, 8)
    assert taken.increment.positions == (4, 2, 1, 1)


@pytest.mark.parametrize(
    ("created", "wall"),
    [
        (WALL - 3600, WALL + 11),  # another server at the same address
        (WALL + 10, WALL + 11),
        (WALL + 11.5, WALL + 11),  # the server's clock is ahead: its start on our clock is unknown
        (WALL - 3595, WALL - 3589),  # our clock was set back between the polls
        (WALL + 11, WALL + 16),  # our clock was set forward: the increment would overlap the one before
    ],
)
def test_a_process_whose_begin_is_not_known_to_be_since_the_last_poll_is_a_starting_point(created, wall):
    before, now = make_sample(100, 400, 200, created=WALL), make_sample(9000, 36_000, 8, created=created)
    taken = after(before, now, wall=wall)
    assert outcome(taken) == (Reset.RESTART, False)
    assert taken.poll.counters[:3] == (9000, 36_000, 8)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(make_sample(10, 40, 9, positions=(5, 4)), make_sample(11, 44, 9, positions=(6, 3)), RESET, id="a position decreases"),
        pytest.param(make_sample(100, 400, 200, created=WALL), make_sample(5, 20, 8, created=WALL), RESET, id="counters fall with the same creation time"),
        pytest.param(make_sample(5, 20, 8), make_sample(6, 24, 9, created=WALL), COUNTED, id="a creation time appears"),
        pytest.param(make_sample(6, 24, 9, created=WALL), make_sample(7, 28, 10), COUNTED, id="a creation time vanishes"),
        pytest.param(make_sample(decode_nanoseconds=0), make_sample(decode_nanoseconds=2**62, created=WALL + 10.5), RESET, id="an increment of centuries"),
        pytest.param(make_sample(decode_nanoseconds=0, created=WALL), make_sample(decode_nanoseconds=2**62, created=WALL + 10.5), (Reset.RESTART, False), id="one after a restart"),
    ],
)  # fmt: skip
def test_decreases_are_resets_and_creation_times_that_come_or_go_are_none(before, now, expected):
    taken = after(before, now)
    assert outcome(taken) == expected
    assert taken.poll.created == (now.created or before.created)


def test_a_series_that_vanishes_keeps_its_last_value_until_it_comes_back():
    gone = after(make_sample(10, 40, 20, positions=(10, 6, 4)), make_sample(None, 44, 22, positions=(11,)))
    assert gone.reset is None
    assert gone.increment.counters[:3] == (0, 4, 2)
    assert gone.increment.positions == (1, 0, 0)
    back = step(gone.poll, make_sample(12, 48, 24, positions=(12, 7, 5)), 12.0, WALL + 12)
    assert back.increment.counters[:3] == (2, 4, 2)
    assert back.increment.positions == (1, 1, 1)


@pytest.mark.parametrize(
    ("before", "positions", "expected"),
    [((), (3, 2), (3, 2)), ((1,), (4, 1), (3, 1)), ((1, 1), (4,), (3, 0))],
)
def test_a_series_that_the_first_page_lacks_is_0_there(before, positions, expected):
    taken = after(make_sample(positions=before), make_sample(3, 12, 5, positions=positions))
    assert taken.reset is None
    assert taken.increment.counters[:3] == (3, 12, 5)
    assert taken.increment.positions == expected


# D, T, A and the positions increase one after the other while a page is rendered: 16 drafts may be torn, and two
# more for each running request.
@pytest.mark.parametrize(
    ("accepted", "first_position", "running", "expected"),
    [
        (64, 0, 0, COUNTED),
        (65, 0, 0, RESET),  # more accepted than 16 drafts of 4 tokens
        (16, 16, 0, COUNTED),
        (17, 17, 0, RESET),  # more drafts with a first token than there are
        (18, 18, 1, COUNTED),
        (19, 19, 1, RESET),
        (72, 0, 1, COUNTED),
        (73, 0, 1, RESET),
    ],
)
@pytest.mark.parametrize("first_runs", [True, False])
def test_counters_that_disagree_by_more_than_a_torn_page_are_a_reset(
    accepted, first_position, running, expected, first_runs
):
    loads = (running, 0) if first_runs else (0, running)
    before = make_sample(1000, 4000, 100, positions=(50, 30, 20, 0), running_requests=float(loads[0]))
    positions = (50 + first_position, 30, 20, 0)
    now = make_sample(1000, 4000, 100 + accepted, positions=positions, running_requests=float(loads[1]))
    assert outcome(after(before, now)) == expected


@pytest.mark.parametrize(
    ("positions", "running", "expected"),
    [
        ((150, 90, 60), 0, COUNTED),
        ((150, 126, 30), 0, COUNTED),  # 66 and 50: torn by 16 drafts
        ((150, 127, 30), 0, RESET),
        ((150, 127, 30), 1, COUNTED),
        ((150, 60, 47), 0, RESET),
        ((150, 90, 60, 900), 0, COUNTED),  # a position that the page before lacks
    ],
)
def test_more_tokens_accepted_at_a_position_than_at_the_one_before_are_another_process(
    positions, running, expected
):
    """Without creation times, a process that has overtaken the one before."""
    before = make_sample(1000, 4000, 100, positions=(100, 60, 30))
    now = make_sample(1100, 4400, 240, positions=positions, running_requests=float(running))
    assert outcome(after(before, now)) == expected


@pytest.mark.parametrize(
    ("tokens", "seconds", "expected"),
    [(10**6, 1.0, COUNTED), (10**6 + 1, 1.0, RESET), (10**7, 10.0, COUNTED), (10**6, 0.1, COUNTED)],
)
def test_more_tokens_than_an_engine_can_generate_in_the_time_are_another_process(tokens, seconds, expected):
    before, now = first(make_sample(generation_tokens=5), 10.0), make_sample(generation_tokens=5 + tokens)
    assert outcome(step(before, now, 10.0 + seconds, WALL + 10.0 + seconds)) == expected


@pytest.mark.parametrize(
    ("drafts", "drafted", "positions", "tokens"),
    [
        (0, 0, (0, 0, 0, 0), 4),  # vLLM's Python front end: all are there from the start
        (41, 122, (30, 20, 14, 10), 4),  # n-gram drafts less than it may
        (0, 0, (), 0),  # nothing known yet
        (10, 35, (), 4),  # no position accepted yet: ⌈3.5⌉
        (0, 4, (), 0),  # torn: the draft itself is not there yet
        (200, 1000, (120, 60), 5),  # created one by one: T/D includes the rest
        (1, 2**52, (), 128),  # a broken page must not cause a vast list
        (20, 92, (16, 11, 6, 2), 4),  # torn by 3 drafts of 4 tokens: T/D = 4.6
        (5000, 20_012, (16, 11, 6, 2), 4),  # the same later, T/D = 4.0024
    ],
)
def test_k_is_the_number_of_positions_or_the_mean_length_of_drafts(drafts, drafted, positions, tokens):
    assert first(make_sample(drafts, drafted, 0, positions=positions)).tokens == tokens


@pytest.mark.parametrize(
    ("counters", "positions", "tokens", "running", "broken"),
    [
        ((41, 122, 74), (29, 18, 14, 13), 4, 0, None),
        ((0, 0, 0), (), 0, 0, None),
        ((41, 122, 75), (29, 18, 14, 13), 4, 0, Check.POSITIONS_ADD_UP),
        ((41, 122, 73), (29, 18, 14, 13), 4, 0, Check.POSITIONS_ADD_UP),
        ((41, 122, 74), (), 4, 0, None),  # an engine without positions
        ((41, 122, 74), (29, 18, 13, 14), 4, 0, Check.POSITIONS_DECREASE),
        ((41, 122, 42), (42, 0, 0, 0), 4, 0, Check.POSITIONS_DECREASE),
        ((41, 73, 74), (29, 18, 14, 13), 4, 0, Check.ACCEPTED_WITHIN_DRAFTED),
        ((41, 74, 74), (29, 18, 14, 13), 4, 0, None),
        ((1000, 4064, 0), (0, 0, 0, 0), 4, 0, None),  # torn by 16 drafts
        ((1000, 4065, 0), (0, 0, 0, 0), 4, 0, Check.DRAFTED_WITHIN_CONFIGURED),
        ((1000, 4072, 0), (0, 0, 0, 0), 4, 1, None),  # two more for each running request
        ((1000, 4073, 0), (0, 0, 0, 0), 4, 1, Check.DRAFTED_WITHIN_CONFIGURED),
    ],
)
def test_the_identities_of_a_page(counters, positions, tokens, running, broken):
    poll = first(make_sample(*counters, positions=positions, running_requests=float(running)))
    assert poll.broken_checks(tokens) == ({broken} if broken else set())


@given(st.lists(st.integers(0, 8), max_size=60), st.integers(1, 8), st.integers(0, 8))
def test_possible_counters_break_no_identity(lengths, tokens, shown):
    """However short the drafts and however few of the positions are shown yet."""
    lengths = [min(length, tokens) for length in lengths]
    counts = [sum(length > place for length in lengths) for place in range(tokens)]
    positions = counts[: max(shown, sum(map(bool, counts)))]
    poll = first(make_sample(len(lengths), tokens * len(lengths), sum(lengths), positions=positions))
    assert poll.broken_checks(poll.tokens) == frozenset()


def test_tokens_of_decode_steps_and_rejected_tokens_are_unknown_if_one_of_their_counters_is():
    known = UNKNOWN._replace(draft_tokens=40, accepted_tokens=30, generation_tokens=50, first_tokens=5)
    assert (known.decoded_tokens, known.rejected_tokens) == (45, 10)
    for name in ("generation_tokens", "first_tokens"):
        assert known._replace(**{name: None}).decoded_tokens is None
    for name in ("draft_tokens", "accepted_tokens"):
        assert known._replace(**{name: None}).rejected_tokens is None


def test_of_counts_of_six_digits_more_may_seem_accepted_than_was_drafted():
    before, now = (make_sample(10**8, 3 * 10**8, count, positions=(count,)) for count in (10**7, 10**7 + 100))
    assert outcome(after(before, now)) == RESET
    (kind,) = [each for each in ENGINES if each.digits]
    assert outcome(after(replace(before, kind=kind), replace(now, kind=kind))) == COUNTED


# Engines that count verifications of requests that ended


def ended(requests, verifications, generated, steps=3.0):
    counts = {"num_requests": requests, "spec_verify_calls": verifications, "generation_tokens": generated}
    lines = [f"sglang:{name}_total {count}\n" for name, count in counts.items()]
    page = "".join([*lines, f"sglang:spec_num_steps {steps}\n"]).encode()
    (sample,) = SampleReader().read(page, with_latencies=False).samples.values()
    return sample


REQUEST = st.lists(st.integers(0, 3), max_size=5)  # accepted tokens of each draft


@given(st.lists(st.tuples(REQUEST, st.booleans()), min_size=1, max_size=20))
def test_counters_that_follow_from_verifications_are_exact_whenever_a_page_is_read(requests):
    """A torn page has the tokens of a request, but not yet the request and its verifications."""
    poll, totals, sums = first(ended(5, 40, 100), 0.0), [0, 0, 0], [5, 40, 100]
    for moment, (drafts, is_torn) in enumerate(requests, 1):
        tokens = 1 + len(drafts) + sum(drafts)
        pages = [(1, len(drafts), tokens)]
        if is_torn:
            pages = [(0, 0, tokens), (1, len(drafts), 0)]
        for place, page in enumerate(pages):
            sums = [old + new for old, new in zip(sums, page, strict=True)]
            taken = step(poll, ended(*sums), moment + place / 2, WALL + moment + place / 2)
            assert taken.reset is None
            poll = taken.poll
            totals = [old + new for old, new in zip(totals, taken.increment.counters[:3], strict=True)]
    drafts = [accepted for request, _ in requests for accepted in request]
    assert totals[0] == len(drafts)
    assert sums[2] - sums[0] - sums[1] <= poll.counters.accepted_tokens
    assert totals[1] >= 3 * len(drafts)
    if not any(is_torn for _, is_torn in requests):
        assert totals == [len(drafts), 3 * len(drafts), sum(drafts)]
    assert poll.tokens == 3


def test_k_is_the_largest_that_the_gauge_has_shown_and_drafts_count_by_that_of_the_time():
    poll = first(ended(0, 0, 0, steps=0.0))
    assert poll.tokens == 0
    found = []
    for number, steps in enumerate((5.0, 2.0, 0.0), 1):
        taken = step(poll, ended(number, 10 * number, 10 * number + number), number, WALL + number)
        poll = taken.poll
        found.append((taken.increment.counters.draft_tokens, poll.tokens))
        poll = step(poll, ended(number, 10 * number, 10 * number + number, steps), number, WALL).poll
    assert found == [(30, 3), (30, 5), (30, 5)]
    # Requests that ran with a larger K may have more accepted tokens than K of now allows.
    taken = step(poll, ended(4, 40, 94, steps=1.0), 9.0, WALL + 9.0)
    assert (taken.reset, taken.increment.counters[1:3]) == (None, (50, 50))


def test_draft_tokens_of_a_position_that_the_page_lacks_stay():
    before, now = (
        replace(make_sample(*counters), drafted=drafted)
        for counters, drafted in (((9, 24, 0), (9, 8, 7)), ((20, 40, 0), (20, 20)))
    )
    assert after(before, now).increment.drafted == (11, 12, 0)


@pytest.mark.parametrize("steps", [0.0, nan])
def test_without_a_shown_k_the_draft_tokens_alone_are_unknown(steps):
    before, now = ended(5, 400, 1005, steps), ended(6, 500, 1206, steps)
    taken = after(before, now)
    assert outcome(taken) == COUNTED
    assert (now[Counter.DRAFT_TOKENS], taken.increment.counters[:3]) == (None, (100, 0, 100))
    assert taken.poll.broken_checks(taken.poll.tokens) == frozenset()


@pytest.mark.parametrize(("kind", "reset"), [("sglang", None), ("vllm", Reset.DECREASE)])
def test_a_batch_may_end_at_once_with_more_tokens_than_a_second_allows(kind, reset):
    tokens = "generation_tokens_total"
    pages = [f"{kind}:{tokens} {count}\n".encode() for count in (5, 2 * 10**6)]
    readings = [SampleReader().read(page, with_latencies=False).samples.values() for page in pages]
    assert after(*(sample for (sample,) in readings)).reset is reset


def test_a_replica_that_is_added_to_a_page_brings_no_past_with_it():
    """Its creation time is newer, and nothing fell: what it and the others counted before is not new."""
    before = make_sample(100_010, 400_040, 200_020, created=WALL - 9000)
    added = make_sample(100_025, 400_100, 200_050, created=WALL + 10.2)
    assert (after(before, added).reset, after(before, added).increment) == (Reset.RESTART, None)
    restarted = make_sample(15, 60, 30, created=WALL + 10.2)
    assert after(before, restarted).increment.counters.drafts == 15


def test_positions_and_accepted_tokens_are_no_more_than_drafts_only_where_drafts_are_counted():
    samples = [make_sample(None, 400 * n, 200 * n, positions=(120 * n, 80 * n)) for n in (1000, 2000)]
    taken = after(*samples)
    assert (taken.reset, taken.increment.counters.draft_tokens) == (None, 400_000)
    assert taken.poll.broken_checks(taken.poll.tokens) == frozenset()
    assert (taken.poll.tokens, taken.poll.has_drafts) == (2, False)
