"""Search for periods without drafts, by readings of two counters."""

from __future__ import annotations

import pytest

from spec_decode_exporter.history.plain_search import ActivityReadings, FoundPeriod, plain_periods
from spec_decode_exporter.history.query_api import SampledSeries


def readings(tokens, drafts):
    """Return readings every 300 s; a dot is a counter that is absent."""
    rows = zip(tokens.split(), drafts.split(), strict=True)
    return [
        (300.0 * n, *(None if each == "." else float(each) for each in row)) for n, row in enumerate(rows)
    ]


def minutes(periods):
    return [(each.begin / 60, each.end / 60, each.ended) for each in periods]


@pytest.mark.parametrize(
    ("tokens", "drafts", "expected"),
    [
        ("1 2 3 4", ". . . .", [(0, 100, False)]),
        ("1 2 3 4", "0 0 0 0", [(0, 100, False)]),
        ("1 2 3 4", "5 6 7 8", []),
        ("1 1 1 1", ". . . .", []),
        ("1 2 1 2 3", ". . 3 6 9", [(0, 10, True)]),
        ("1 2 1 2 3 1 4", "1 2 . . . 3 5", [(5, 25, True)]),
        ("1 2 1 2 1 2 1 2", ". . 1 2 . . 1 2", [(15, 30, True), (0, 10, True)]),
        ("1 2 2 2 2 3", ". . . . . .", [(0, 100, False)]),
        ("1 2 . . 1 2", ". . . . . .", [(0, 100, False)]),
        ("1 2 3 4", "5 5 5 5", []),
        ("", "", []),
    ],
    ids=[
        "without the counter",
        "with one at 0",
        "with drafts",
        "idle",
        "before drafts",
        "between drafts",
        "two, newest first",
        "idle time does not end it",
        "nor absence",
        "a pause of a server that has drafted",
        "nothing",
    ],
)
def test_periods_without_drafts_are_found(tokens, drafts, expected):
    assert minutes(plain_periods(readings(tokens, drafts), 6000.0)) == expected


def test_the_engines_of_a_model_are_summed_and_models_are_apart():
    def series(name, model, *values, engine="0"):
        labels = {"__name__": name, "model_name": model, "engine": engine}
        return SampledSeries(labels, [0.0, 300.0][: len(values)], values)

    found = ActivityReadings()
    tokens, drafts = "vllm:generation_tokens_total", "vllm:spec_decode_num_drafts_total"
    found.add(
        [series(tokens, "a", 1.0, 2.0), series(tokens, "a", 3.0, 4.0, engine="1"), series("up", "a", 1.0)]
    )
    found.add([series(tokens, "b", 1.0, 2.0), series(drafts, "b", 5.0, 6.0)])
    assert found.by_model() == {
        "a": [(0.0, 4.0, None), (300.0, 6.0, None)],
        "b": [(0.0, 1.0, 5.0), (300.0, 2.0, 6.0)],
    }
    assert [plain_periods(each, 400.0) for each in found.by_model().values()] == [
        [FoundPeriod(0.0, 400.0, ended=False)],
        [],
    ]
