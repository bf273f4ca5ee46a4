"""The engine table: what every row must have."""

import re
from collections import Counter as Tally

import pytest

from spec_decode_exporter.history.history_targets import HistoryTarget, every_engine
from spec_decode_exporter.scrape.engines import (
    ENGINES,
    MEANINGS,
    Counter,
    EngineMark,
    Gauge,
    Latency,
    tokens_setting,
)
from spec_decode_exporter.scrape.sample import SampleReader
from tests.paths import DATA

PAGES = DATA / "pages"
every_kind = pytest.mark.parametrize("kind", ENGINES, ids=lambda kind: kind.name)


def test_no_sample_name_has_two_meanings_and_every_quantity_has_a_name():
    names = [
        f"{prefix}{name}"
        for kind in ENGINES
        for prefix in kind.prefixes
        for row in kind.names.values()
        for name in row
    ]
    assert max(Tally(names).values()) == 1
    assert len(MEANINGS) == len(names) + 1
    assert {meaning.quantity for meaning in MEANINGS.values()} == {*Counter, *Gauge, *Latency, *EngineMark}


@every_kind
def test_a_recorded_page_is_read_as_its_kind_and_found_by_the_selectors_of_histories(kind):
    found = 0
    for path in PAGES.glob("*.[op]*m"):
        reading = SampleReader().read(path.read_bytes(), with_latencies=False)
        if reading.engine_kind != kind.name:
            continue
        found += 1
        [prefix] = {MEANINGS[name].prefix for name in reading.shown.names} - {""}
        for selector, wanted in (
            (every_engine(""), {b"process_start_time_seconds"}),
            (HistoryTarget(kind, prefix, {}, {EngineMark.CREATED}).selector(), set()),
        ):
            names = re.compile(re.search(r'__name__=~"([^"]*)"', str(selector))[1].replace("\\\\", "\\"))
            unselected = {name for name in reading.shown.names if not names.fullmatch(name.decode())}
            infos = {name for name in unselected if MEANINGS[name].quantity is EngineMark.KV_CACHE}
            assert unselected - infos <= wanted, path.name
    assert found, f"add a page of {kind.title} to tests/data/pages"


@pytest.mark.parametrize(
    ("kind", "method", "setting"),
    [
        ("", "", "num_speculative_tokens"),
        ("vllm", "ngram", "num_speculative_tokens"),
        ("llamacpp", "", "--spec-draft-n-max"),
        ("llamacpp", "draft_model", "--spec-draft-n-max"),
        ("llamacpp", "ngram-simple", "--spec-ngram-simple-size-m"),
        ("llamacpp", "ngram-mod", "--spec-ngram-mod-n-max"),
        ("sglang", "eagle", "--speculative-num-steps"),
    ],
)
def test_the_setting_of_k_is_that_of_the_engine_and_of_llamacpps_n_gram_type(kind, method, setting):
    assert tokens_setting(kind, method) == setting
