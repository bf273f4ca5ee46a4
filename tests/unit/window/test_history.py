"""History of one engine: windows, totals, resets, K and processes."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.page.engine_table import Counter, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.engine_history import EngineHistory
from spec_decode_exporter.window.increments import Reset


@pytest.fixture(scope="module", name="busy")
def busy_fixture(make_sample):
    """Return the sample of a server with K = 4 after a number of drafts, each with 2 accepted tokens."""

    def busy(drafts, *, created=None, positions=None, **more):
        shown = (drafts, drafts, 0, 0) if positions is None else positions
        return make_sample(drafts, 4 * drafts, 2 * drafts, positions=shown, created=created, **more)

    return busy


def test_the_first_poll_is_a_starting_point(fed, busy):
    engine = fed()
    engine.poll(busy(1_000_000))
    window = engine.window(30.0)
    assert (window.polls, window.seconds, window[Counter.DRAFTS]) == (0, 0.0, 0)
    assert engine.history.totals().counters[Counter.DRAFTS] == 0


def test_a_window_is_30_increments_of_a_second_and_the_long_one_300(fed, busy):
    engine = fed()
    for second in range(1000):
        engine.poll(busy(second))
    short, long = engine.window(30.0), engine.window(300.0)
    assert (short.polls, short.seconds, short[Counter.DRAFTS]) == (30, 30.0, 30)
    assert (long.polls, long.seconds, long[Counter.DRAFTS]) == (300, 300.0, 300)
    assert short.positions == (30, 30, 0, 0)


@given(st.lists(st.floats(-0.003, 0.003), min_size=70, max_size=70))
def test_jitter_of_3_ms_never_makes_31_increments_out_of_30(fed, busy, jitter):
    engine = fed(longest=30.0)
    for second, late in enumerate(jitter):
        engine.poll(busy(second), after=1.0 + late - (jitter[second - 1] if second else 0.0))
        if second >= 30:
            assert engine.window(30.0).polls == 30


def test_a_late_poll_shifts_the_window_and_loses_nothing(fed, busy):
    engine = fed()
    for second in range(40):
        engine.poll(busy(second), after=1.4 if second == 35 else 1.0)
    window = engine.window(30.0)
    assert (window.polls, window.seconds) == (30, pytest.approx(30.4))


def test_a_window_that_is_not_filled_is_partial(fed, busy):
    engine = fed()
    for second in range(15):
        engine.poll(busy(second))
    assert engine.window(30.0).partial
    engine.poll(busy(15))
    assert not engine.window(30.0).partial
    assert engine.window(300.0).partial


def test_an_outage_is_in_the_windows_that_are_longer(fed, busy):
    engine = fed()
    for second in range(10):
        engine.poll(busy(second))
    engine.poll(busy(100), after=42.0)
    assert engine.window(30.0).polls == 0
    long = engine.window(300.0)
    assert (long.polls, long.seconds, long[Counter.DRAFTS]) == (10, 51.0, 100)
    assert engine.history.totals().covered_seconds == 51.0


def test_memory_is_bounded_however_long_it_goes_on(fed, busy):
    engine = fed(longest=30.0)
    for second in range(2000):
        engine.poll(busy(second))
    assert len(engine.history._ledger._ring) <= 32


def test_an_engine_with_8_positions_takes_100_kb_at_most(fed, make_sample):
    def sample(n):
        steps = 10**6 * n
        return make_sample(
            20 * steps,
            160 * steps,
            90 * steps,
            positions=tuple((20 - place) * steps for place in range(8)),
            generation_tokens=110 * steps,
            first_tokens=steps,
            decode_steps=21 * steps,
            decode_nanoseconds=2 * 10**5 * steps,
            preemptions=n,
            prefix_cache_queries=steps,
            prefix_cache_hits=steps,
            running_requests=20.0,
            waiting_requests=1.0,
            kv_cache_usage=0.5,
            created=1_790_000_000.0,
        )

    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        engine = fed(longest=300.0)
        for n in range(1, 700):
            engine.poll(sample(n), after=0.999)
        gc.collect()  # the interpreter's own stock of free tuples is not the engine's
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert engine.window(300.0).polls == 300
    assert 50_000 < used <= 100_000


class TestResets:
    def test_a_restart_is_counted_from_its_creation(self, fed, busy, at):
        engine = fed()
        for second in range(10):
            engine.poll(busy(100 + second, created=at(-50)))
        engine.poll(busy(3, created=at(40.5)), after=32.0)  # at 42
        window = engine.window(60.0)
        assert window[Counter.DRAFTS] == 9 + 3
        assert window.seconds == 9.0 + 1.5
        assert engine.history.totals().resets == {Reset.RESTART: 1, Reset.DECREASE: 0}

    def test_a_load_balancer_that_flips_between_servers_adds_no_lifetime_totals(self, fed, busy, at):
        engine = fed()
        for second in range(20):
            server = second % 2
            engine.poll(busy(1000 + 5000 * server + second, created=at(-500 - server)))
        assert engine.window(30.0)[Counter.DRAFTS] == 0
        assert engine.history.totals().counters[Counter.DRAFTS] == 0
        assert engine.history.totals().resets[Reset.RESTART] == 19

    def test_a_fall_without_creation_times_adds_nothing_and_goes_on_from_there(self, fed, busy):
        engine = fed()
        for drafts in (100, 110, 4, 6):
            engine.poll(busy(drafts))
        assert engine.window(30.0)[Counter.DRAFTS] == 10 + 2
        assert engine.history.totals().resets == {Reset.RESTART: 0, Reset.DECREASE: 1}

    def test_both_causes_are_there_at_0_from_the_start(self):
        assert EngineHistory(300.0).totals().resets == {Reset.RESTART: 0, Reset.DECREASE: 0}

    def test_an_engine_that_vanishes_and_comes_back_goes_on(self, fed, busy, at):
        engine = fed()
        engine.poll(busy(100, created=at(-5)))
        engine.poll(busy(105, created=at(-5)), after=20.0)
        window = engine.window(30.0)
        assert (window[Counter.DRAFTS], window.seconds) == (5, 20.0)
        assert engine.history.totals().resets[Reset.RESTART] == 0

    def test_a_series_that_vanished_is_unknown_while_it_is_gone(self, fed, busy, make_sample):
        engine = fed()
        for drafts in (1, 2):
            engine.poll(busy(drafts, decode_steps=10 * drafts))
        engine.poll(busy(3))
        assert engine.window(30.0)[Counter.DECODE_STEPS] is None
        engine.poll(busy(4, decode_steps=50))
        assert engine.window(30.0)[Counter.DECODE_STEPS] == 40

    def test_a_server_that_shows_no_positions_after_its_restart_breaks_nothing(self, fed, busy, make_sample):
        engine = fed()
        for drafts in (100, 110):
            engine.poll(busy(drafts))
        for _ in range(3):
            engine.poll(make_sample(0, 0, 0, positions=()))
        assert engine.window(30.0)[Counter.DRAFTS] == 10


class TestAlternatingServers:
    def test_two_creation_times_that_come_back_are_several_servers(self, fed, busy, at):
        engine = fed()
        engine.poll(busy(1, created=at(-1)))
        engine.poll(busy(2, created=at(-2)))
        assert not engine.history.alternates
        engine.poll(busy(3, created=at(-1)))
        assert engine.history.alternates

    def test_many_alternating_servers_are_detected(self, fed, busy, at):
        engine = fed()
        for round_ in range(2):
            for server in range(20):
                engine.poll(busy(1 + round_, created=at(-1 - server)))
        assert engine.history.alternates

    def test_a_restart_is_none(self, fed, busy, at):
        engine = fed()
        for restart in range(5):
            for drafts in range(3):
                engine.poll(busy(drafts, created=at(10 * restart)))
        assert not engine.history.alternates

    def test_a_fall_with_the_creation_time_of_before_is_none(self, fed, busy, at):
        engine = fed()
        engine.poll(busy(1, created=at(-5)))
        engine.poll(busy(9, created=at(-1)))
        engine.poll(busy(3, created=at(-1)))
        assert engine.history.totals().resets == {Reset.RESTART: 1, Reset.DECREASE: 1}
        assert not engine.history.alternates

    def test_it_is_forgotten_after_the_longest_window(self, fed, busy, at):
        engine = fed(longest=30.0)
        for server in (1, 2, 1):
            engine.poll(busy(1, created=at(-server)))
        for _ in range(29):
            engine.poll(busy(1, created=at(-1)))
        assert engine.history.alternates
        engine.poll(busy(1, created=at(-1)))
        assert not engine.history.alternates

    def test_a_creation_time_that_only_appears_later_counts_too(self, fed, busy, at):
        engine = fed()
        engine.poll(busy(1))
        for server in (1, 2, 1):
            engine.poll(busy(1, created=at(-server)))
        assert engine.history.alternates


class TestNumberOfPositions:
    """K changes only with a restart; then the windows are reset."""

    def test_another_k_after_a_restart_clears_the_windows(self, fed, make_sample, at):
        engine = fed()
        for drafts in range(5):
            engine.poll(make_sample(drafts, 3 * drafts, drafts, positions=(drafts, 0, 0), created=at(-9)))
        engine.poll(make_sample(2, 10, 2, positions=(2, 0, 0, 0, 0), created=at(5.5)))
        window = engine.window(30.0)
        assert engine.history.tokens == 5
        assert (window[Counter.DRAFTS], window.positions, window.seconds) == (2, (2, 0, 0, 0, 0), 0.5)
        assert engine.history.totals().counters[Counter.DRAFTS] == 4 + 2

    def test_the_same_k_after_a_restart_does_not(self, fed, busy, at):
        engine = fed()
        for drafts in range(5):
            engine.poll(busy(drafts, created=at(-9)))
        engine.poll(busy(2, created=at(5.5)))
        assert engine.window(30.0)[Counter.DRAFTS] == 4 + 2

    def test_fewer_positions_clear_them_too(self, fed, make_sample):
        engine = fed()
        for drafts in (10, 20):
            engine.poll(make_sample(drafts, 5 * drafts, 0, positions=(0,) * 5))
        engine.poll(make_sample(1, 3, 0, positions=(0,) * 3))
        window = engine.window(30.0)
        assert (window[Counter.DRAFTS], window.positions) == (0, (0, 0, 0))

    def test_positions_that_come_one_by_one_do_not(self, fed, make_sample):
        engine = fed()
        for drafts, positions in ((0, ()), (10, (4,)), (20, (9, 3)), (30, (14, 5, 1))):
            engine.poll(make_sample(drafts, 3 * drafts, sum(positions), positions=positions))
        window = engine.window(30.0)
        assert (window[Counter.DRAFTS], window.positions) == (30, (14, 5, 1))

    def test_a_server_that_shows_its_positions_late_clears_them_once_it_does(self, fed, make_sample):
        engine = fed()
        for drafts in (10, 20):
            engine.poll(make_sample(drafts, 3 * drafts, 0, positions=(0,) * 3))
        engine.poll(make_sample(0, 0, 0))
        assert engine.window(30.0)[Counter.DRAFTS] == 10
        engine.poll(make_sample(4, 20, 6, positions=(4, 2)))
        window = engine.window(30.0)
        assert (window[Counter.DRAFTS], window.positions) == (4, (4, 2))

    def test_positions_that_grow_beyond_the_old_k_soon_after_a_restart_clear_them(self, fed, make_sample):
        engine = fed()
        for drafts in (10, 20):
            engine.poll(make_sample(drafts, 2 * drafts, 0, positions=(0,) * 3))
        engine.poll(make_sample(1, 2, 0, positions=(0,) * 3))  # the new K is 5, but only 3 are there
        assert engine.window(30.0)[Counter.DRAFTS] == 10
        engine.poll(make_sample(3, 9, 5, positions=(1,) * 5))
        window = engine.window(30.0)
        assert (window[Counter.DRAFTS], window.positions) == (2, (1,) * 5)

    def test_long_after_a_restart_more_positions_are_no_other_k(self, fed, make_sample):
        engine = fed(longest=30.0)
        engine.poll(make_sample(10, 20, 0, positions=(0,) * 3))
        for drafts in range(1, 60):
            engine.poll(make_sample(drafts, 2 * drafts, 0, positions=(0,) * 3))
        engine.poll(make_sample(60, 120, 5, positions=(1,) * 5))
        assert engine.window(30.0)[Counter.DRAFTS] == 30

    def test_every_known_position_has_a_total_from_the_start(self, fed, make_sample):
        engine = fed()
        engine.poll(make_sample(7, 28, 5, positions=(4, 1, 0, 0)))
        assert engine.history.totals().positions == (0, 0, 0, 0)

    def test_totals_keep_their_positions_when_k_becomes_smaller(self, fed, make_sample):
        engine = fed()
        engine.poll(make_sample(0, 0, 0, positions=(0,) * 5))
        engine.poll(make_sample(2, 10, 4, positions=(2, 1, 1, 0, 0)))
        engine.poll(make_sample(1, 3, 1, positions=(1, 0, 0)))
        engine.poll(make_sample(2, 6, 2, positions=(2, 0, 0)))
        assert engine.history.totals().positions == (2 + 1, 1, 1, 0, 0)

    def test_every_window_has_the_answers_of_the_longest_one(self, fed, make_sample):
        engine = fed()
        for poll in range(4):
            lengths = Buckets((100.0, float("inf")), (poll, 3 * poll))
            sample = make_sample(1 + poll, latencies={}, answer_lengths=lengths)
            engine.poll(sample)
            engine.history.observe_latencies(sample, engine.moment, 1.0)
        assert [engine.window(seconds).answers.requests for seconds in (2.0, 300.0)] == [9, 9]
        engine.poll(make_sample(9), 100.0)
        assert engine.window(300.0).answers.requests == 0

    def test_histograms_start_again_with_k_and_count_from_the_creation(self, fed, make_sample, at):
        engine = fed()

        def poll(count, tokens, created):
            sample = make_sample(
                positions=(0,) * tokens,
                created=created,
                latencies={Latency.QUEUE: Buckets((float("inf"),), (count,))},
            )
            engine.poll(sample)
            engine.history.observe_latencies(sample, engine.moment, 1.0)
            return engine.history.latencies()

        poll(5, 3, at(-9))
        assert poll(9, 3, at(-9))[Latency.QUEUE].counts == (4,)
        assert poll(2, 5, at(2.5))[Latency.QUEUE].counts == (2,)


class TestWhatIsShown:
    def test_three_intervals_without_a_poll_and_10_s_the_engine_is_gone(self, fed, busy):
        engine = fed(interval=1.0)
        engine.poll(busy(1))
        assert not engine.history.is_gone(engine.moment + 10.0)
        assert engine.history.is_gone(engine.moment + 10.1)
        slow = fed(interval=5.0)
        slow.poll(busy(1))
        assert not slow.history.is_gone(slow.moment + 15.0)
        assert slow.history.is_gone(slow.moment + 15.1)

    def test_longer_windows_fill_up_after_a_change_and_shorter_ones_hold_at_once(self, fed, busy):
        engine = fed(longest=30.0)
        for second in range(100):
            engine.poll(busy(second))
        engine.history.keep(60.0)
        assert engine.window(60.0).polls <= 32
        for second in range(100, 160):
            engine.poll(busy(second))
        assert engine.window(60.0).polls == 60
        engine.history.keep(10.0)
        assert engine.window(10.0).polls == 10

    def test_late_steps_are_unknown_on_windows_under_a_minute_until_they_left_the_longest(self, fed, busy):
        engine = fed(always_counts_drafts=True)
        for second in range(100):
            engine.poll(busy(100 * second, decode_steps=100 * (second - second % 10)))
        assert engine.history.late_steps
        assert not engine.history.knows_steps
        assert engine.window(30.0)[Counter.DECODE_STEPS] is None
        assert engine.window(60.0)[Counter.DECODE_STEPS] == 6000
        for second in range(100, 410):
            engine.poll(busy(100 * second, decode_steps=100 * second))
        assert engine.history.knows_steps
        assert engine.window(30.0)[Counter.DECODE_STEPS] == 3000

    def test_only_a_server_that_always_counts_drafts_is_taken_to_publish_steps_late(self, fed, busy):
        engine = fed()
        for second in range(100):
            engine.poll(busy(100 * second, decode_steps=0))
        assert not engine.history.late_steps
        assert engine.window(30.0)[Counter.DECODE_STEPS] == 0

    def test_the_steps_of_another_process_are_not_late(self, fed, busy):
        engine = fed(always_counts_drafts=True)
        for second in range(1, 20):
            engine.poll(busy(100 * second, decode_steps=0))
        assert engine.history.late_steps
        engine.poll(busy(10, decode_steps=10))
        assert not engine.history.late_steps

    def test_the_steps_of_a_server_that_counts_tokens_are_unknown(self, fed, busy):
        engine = fed()
        sample = busy(
            1, decode_steps=1, latencies={Latency.DECODE_STEP: Buckets((1.0, float("inf")), (1, 1))}
        )
        for _ in range(2):
            engine.poll(sample)
            engine.history.observe_latencies(sample, engine.moment, 1.0)
        assert set(engine.history.latencies()) == {Latency.DECODE_STEP}
        engine.history.counts_tokens_as_steps = True
        assert engine.window(30.0)[Counter.DECODE_STEPS] is None
        assert engine.history.latencies() == {}
        engine.poll(busy(0))  # a reset: it may be another version
        assert not engine.history.counts_tokens_as_steps

    def test_process_seconds_begin_with_the_process(self, fed, busy, at):
        engine = fed()
        for second in range(10):
            engine.poll(busy(second, created=at(-100)))
        assert engine.history.process_seconds == 9.0
        engine.poll(busy(1, created=at(10.5)))
        assert engine.history.process_seconds == 0.5

    def test_before_the_first_poll_there_is_nothing_but_zeros(self):
        history = EngineHistory(300.0)
        assert history.sample is None
        assert history.totals().counters == (0,) * len(Counter)
        assert history.window(30.0).counters == (None,) * len(Counter)
        assert history.latencies() == {}


class TestServersThatAlwaysCountDrafts:
    """vLLM's Rust front end: counters at 0 say nothing, until it decodes."""

    def known(self, engine):
        return (engine.history.speculates, engine.history.is_undecided)

    def test_one_is_undecided_until_its_first_draft(self, fed, make_sample, busy):
        engine = fed(always_counts_drafts=True)
        assert self.known(engine) == (False, False)
        engine.poll(make_sample(0, 0, 0, generation_tokens=0, first_tokens=0))
        assert self.known(engine) == (False, True)
        engine.poll(busy(1))
        assert self.known(engine) == (True, False)

    def test_a_hundred_tokens_without_a_draft_show_that_it_does_not_speculate(self, fed, make_sample):
        engine = fed(always_counts_drafts=True)
        engine.poll(make_sample(0, 0, 0, generation_tokens=129, first_tokens=30))
        assert self.known(engine) == (False, True)
        engine.poll(make_sample(0, 0, 0, generation_tokens=130, first_tokens=30))
        assert self.known(engine) == (False, False)

    def test_after_a_restart_it_is_undecided_again(self, fed, make_sample):
        engine = fed(always_counts_drafts=True)
        engine.poll(make_sample(0, 0, 0, generation_tokens=500))
        engine.poll(make_sample(0, 0, 0, generation_tokens=0))
        assert self.known(engine) == (False, True)

    def test_other_servers_are_never_undecided(self, fed, make_sample):
        for sample in (make_sample(0, 0, 0), make_sample(generation_tokens=5)):
            engine = fed()
            engine.poll(sample)
            assert not engine.history.is_undecided
        engine = fed(always_counts_drafts=True)
        engine.poll(make_sample(generation_tokens=5))
        assert self.known(engine) == (False, False)


class TestSpeculationThatIsSwitched:
    """A restart without speculation, or with it again, is a restart with another K."""

    def test_a_restart_without_speculation_resets_the_windows(self, fed, busy, make_sample, at):
        engine = fed()
        for second in range(1, 6):
            engine.poll(busy(second, created=at(0), decode_steps=second))
        engine.poll(make_sample(created=at(5.5), generation_tokens=7, decode_steps=7))
        window = engine.window(30.0)
        assert (window.polls, window[Counter.DECODE_STEPS], window[Counter.DRAFTS]) == (1, 7, None)
        assert window.positions == ()

    def test_a_restart_with_speculation_again_resets_the_windows(self, fed, busy, make_sample, at):
        engine = fed()
        for second in range(1, 6):
            engine.poll(make_sample(created=at(0), decode_steps=second))
        engine.poll(busy(3, created=at(5.5), decode_steps=3))
        window = engine.window(30.0)
        assert (window.polls, window[Counter.DECODE_STEPS], window[Counter.DRAFTS]) == (1, 3, 3)

    def test_a_restart_without_it_before_and_after_changes_nothing(self, fed, make_sample, at):
        engine = fed()
        for second in range(1, 6):
            engine.poll(make_sample(created=at(0), decode_steps=second))
        engine.poll(make_sample(created=at(5.5), decode_steps=7))
        assert engine.window(30.0)[Counter.DECODE_STEPS] == 4 + 7


class TestConfiguredTokens:
    @pytest.fixture(name="engine")
    def engine_fixture(self, fed, busy, at):
        engine = fed()
        engine.history.configure_tokens(6)
        for second in range(1, 6):
            engine.poll(busy(second, created=at(0)))
        return engine

    def test_another_configured_k_resets_the_windows(self, engine):
        assert engine.history.tokens == 6
        engine.history.configure_tokens(7)
        assert (engine.history.window_resets, engine.window(30.0).polls) == (1, 0)

    def test_a_removed_configured_k_does_not(self, engine):
        engine.history.configure_tokens(0)
        assert engine.history.tokens < 6
        assert (engine.history.window_resets, engine.window(30.0).polls) == (0, 4)
