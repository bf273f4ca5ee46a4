"""Recorded pages, replayed with a clock moved by hand, give exactly the sums that the pages give.

What is expected is read from the pages by prometheus_client's parser and added up here, the restart by hand.
"""

from collections import defaultdict
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.sample import EngineName, SampleReader
from spec_decode_exporter.window.poll import Reset
from tests.fakes.engines import poll, trace

WINDOWS = (10.0, 30.0, 60.0, 300.0)
WALL = 1_795_225_677.0
"""Unix time of the restart trace's beginning, see its README."""
CREATED = 1.7952257678679671e09 - WALL
"""When the second process' counters were created, on the trace's clock."""

NAMES = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "first_tokens": "vllm:time_to_first_token_seconds_count",
    "decode_steps": "vllm:inter_token_latency_seconds_count",
    "preemptions": "vllm:num_preemptions_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
}
SECONDS = "vllm:inter_token_latency_seconds_sum"
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def parsed(page, engine):
    """All values of one engine by sample name, a list where there are positions or buckets."""
    values = defaultdict(dict)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.labels.get("engine") == engine:
                key = sample.labels.get("position", sample.labels.get("le", ""))
                values[sample.name][key] = sample.value
    return values


class Replay:
    """A trace, and what the exporter and prometheus_client make of it."""

    def __init__(self, name, engine):
        self.watch = EngineMonitor(WINDOWS)
        self.reader = SampleReader()
        self.rows = trace(name)
        self.engine = engine
        self.pages = []

    def polls(self):
        """Feed poll after poll; yield the moment after each that succeeded."""
        for row in self.rows:
            reading = self.reader.read(row["page"].encode(), with_latencies=row["histograms"])
            sample = reading.samples[EngineName("tiny-llama", self.engine)]
            poll(self.watch, sample, row["t"], WALL, 10.0)
            self.pages.append((row["t"], parsed(row["page"], self.engine), row["histograms"]))
            yield row["t"]

    def run(self):
        """Feed all polls; return the moment of the last."""
        return list(self.polls())[-1]

    def increments(self):
        """Begin, end and pages of every increment since the last restart; a first page of None is nothing."""
        found = []
        for (begin, before, _), (end, after, _) in pairwise(self.pages):
            if after[NAMES["drafts"]][""] < before[NAMES["drafts"]][""]:
                found = [(CREATED, end, None, after)]  # with another K: windows are reset
            else:
                found.append((begin, end, before, after))
        return found


def grown(increments, name, key=""):
    return sum(
        after[name][key] - (before[name].get(key, 0) if before else 0) for _, _, before, after in increments
    )


@pytest.mark.parametrize(
    ("name", "engine"), [("restart_k3_k5", "0"), ("dp2_multiapi", "0"), ("dp2_multiapi", "1")]
)
def test_after_every_poll_every_window_is_the_sum_that_the_pages_give(name, engine):
    replay = Replay(name, engine)
    for newest in replay.polls():
        increments = replay.increments()
        for evaluated in replay.watch.snapshot.evaluation.windows:
            window = evaluated.window
            inside = [one for one in increments if one[0] >= newest - window.length - 0.5]
            assert window.polls == len(inside)
            assert window.seconds == pytest.approx(sum(end - begin for begin, end, *_ in inside))
            for counter, series in NAMES.items():
                assert getattr(window.total, counter) == grown(inside, series)
            seconds = pytest.approx(grown(inside, SECONDS), abs=1e-6)
            assert window.total.decode_nanoseconds / 1e9 == seconds
            positions = replay.pages[-1][1][POSITIONS]
            assert window.positions == tuple(
                grown(inside, POSITIONS, str(place)) for place in range(len(positions))
            )
            running = [after["vllm:num_requests_running"][""] for *_, after in inside]
            mean = window.mean.running_requests
            assert mean == (pytest.approx(sum(running) / len(running)) if running else None)


def test_a_restart_after_42_s_without_an_answer_with_another_k_loses_and_adds_nothing():
    replay = Replay("restart_k3_k5", "0")
    replay.run()
    assert max(after[0] - before[0] for before, after in pairwise(replay.pages)) > 42
    first, last_of_3 = replay.pages[0][1], next(page for t, page, _ in replay.pages if t == 49.131)
    last = replay.pages[-1][1]
    totals = replay.watch.history.totals()
    for counter, name in NAMES.items():
        assert getattr(totals.counters, counter) == last_of_3[name][""] - first[name][""] + last[name][""]
    assert totals.positions == tuple(
        last_of_3[POSITIONS].get(str(place), 0) + last[POSITIONS][str(place)] for place in range(5)
    )
    assert totals.resets == {Reset.RESTART: 1, Reset.DECREASE: 0}
    assert totals.covered_seconds == pytest.approx(49.131 - 0.001 + 187.402 - CREATED, abs=1e-6)
    assert replay.watch.history.tokens == 5
    assert replay.watch.snapshot.broken == frozenset()
