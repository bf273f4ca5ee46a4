"""Typical costs, compared with published measurements; none of these figures may become worse."""

import pytest

from benchmarks.published import BANDS, DATA, band, missed, rows, scores
from spec_decode_exporter.analysis.window_evaluation import PROBABLY_PAYS
from tests.every import every

KNOWN = rows()
FLOORS = {
    "datacentre": (59, 56, 0, 18),
    "consumer": (47, 43, 0, 38),
    "mixture, 4 GPUs or more": (10, 9, 0, 2),
    "32 requests or more": (17, 15, 0, 14),
    "contexts of 4,000 or more": (5, 3, 0, 2),
    "eagle": (27, 25, 0, 11),
    "eagle3": (27, 26, 0, 8),
    "mtp": (41, 37, 0, 27),
    "dflash": (8, 8, 0, 7),
    "ngram": (3, 3, 0, 3),
}
"""Rows of each kind, those inside the bounds at least, and those false and undecided at most."""


@every(FLOORS)
def test_no_kind_of_measurement_has_become_worse(name):
    its = next(each.rows for each in scores(KNOWN) if each.name == name)
    number, inside, false, undecided = FLOORS[name]
    assert len(its) == number
    assert sum(row.is_inside for row in its) >= inside
    assert sum(row.is_false for row in its) <= false
    assert sum(row.is_undecided for row in its) <= undecided


def test_the_goals_are_met_and_a_row_outside_its_bounds_is_noticed():
    assert list(missed(KNOWN)) == []
    wrong = [row for row in KNOWN if not row.is_inside]
    assert any(
        "datacentre: inside 0.0" in each for each in missed([row for row in wrong if not row.is_consumer])
    )


def test_named_gpus_bring_every_consumer_row_inside():
    consumer = [row for row in rows(names_gpu=True) if row.is_consumer]
    assert [row.cells for row in consumer if not row.is_inside or row.is_false] == []


def test_what_probably_pays_does():
    shares = {(low, high): band(KNOWN, low, high) for low, high in BANDS}
    assert sum(map(len, shares.values())) == len([row for row in KNOWN if row.share is not None])
    likely = [row for (low, _), each in shares.items() if low >= PROBABLY_PAYS for row in each]
    assert sum(row.truth > 1 for row in likely) >= 0.85 * len(likely) > 5


def test_every_row_has_a_source_and_figures_that_are_possible():
    lines = DATA.read_text(encoding="utf-8").splitlines()
    assert len(KNOWN) == len(set(lines[1:])) - sum(
        ",tree," in each or ",no length," in each for each in lines
    )
    for row in KNOWN:
        assert row.cells["source"]
        assert 1 <= float(row.cells["acceptance_length"]) <= int(row.cells["tokens"]) + 1
        assert 0.3 < row.truth < 5


@pytest.mark.parametrize("names_gpu", [True, False])
def test_plan_answers_for_every_row_but_the_smallest_model(names_gpu):
    unknown = {
        row.cells["served_name"] for row in rows(names_gpu=names_gpu) if row.plan.speedup_ratio is None
    }
    assert unknown == {"Qwen3-1.7B"}
