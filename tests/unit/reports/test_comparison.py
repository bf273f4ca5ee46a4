"""Comparison of two observations: bounds of differences, outcomes, cautions, pairs of models, text and JSON."""

import json
from math import sqrt

import pytest

from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.reports.comparison import (
    ModelComparison,
    Outcome,
    as_json,
    as_text,
    compared,
    difference,
)
from spec_decode_exporter.reports.observation_view import Measured, ModelView
from spec_decode_exporter.reports.saved_snapshot import SavedSnapshot
from spec_decode_exporter.reports.text import TextStyle
from tests.fakes.references import saved


def exactly(value, half=0.0):
    return Measured(value=value, lower=value - half, upper=value + half)


def model(rate=None, half=0.0, tokens=4, engines=1, name="m", **more):
    """Return a model by the keys of figures; each is a value, or a value and its half-width."""
    figures = {
        name: exactly(*(value if isinstance(value, tuple) else (value,))) for name, value in more.items()
    }
    if rate is not None:
        figures["draft_acceptance_ratio"] = Measured(value=rate) if half is None else exactly(rate, half)
    shares = tuple(exactly(0.8 - 0.1 * place) for place in range(tokens))
    return ModelView(
        model_name=name, engines=engines, method="", draft_model="", server_version="", tokens=tokens,
        figures=figures, position_acceptance_ratio=shares,
    )  # fmt: skip


def snapshot(rates):
    """Return an observation of models, by their names and rates."""
    models = [model(rate, 0.001, name=name) for name, rate in rates.items()]
    return SavedSnapshot(engines=(), seconds=60, models=models)


@pytest.mark.parametrize(
    ("after", "half", "expected"),
    [
        (0.60, 0.04, Outcome.FELL),
        (0.60, 0.06, Outcome.UNCERTAIN),
        (0.66, 0.005, Outcome.LOWER),
        (0.66, 0.02, Outcome.UNCERTAIN),
        (0.69, 0.02, Outcome.SAME),
        (0.70, 0.06, Outcome.UNCERTAIN),
        (0.75, 0.02, Outcome.BETTER),
        (0.75, None, Outcome.UNCERTAIN),
        (None, None, Outcome.UNCERTAIN),
    ],
)
def test_only_a_certain_fall_counts(after, half, expected):
    """Only the later rate has an error; the earlier one is 0.7."""
    assert ModelComparison(before=model(0.7), after=model(after, half)).outcome is expected


def test_another_number_of_draft_tokens_is_not_comparable():
    found = ModelComparison(before=model(0.7, tokens=4), after=model(0.5, tokens=6))
    assert found.outcome is Outcome.NOT_COMPARABLE
    assert len(found.position_acceptance_ratio) == 4


@pytest.mark.parametrize(
    ("reason", "quantity", "before", "alike", "other"),
    [
        (Traffic.LOAD, "running_requests", 10.0, 14.9, 15.1),
        (Traffic.LOAD, "running_requests", 10.0, 6.7, 6.6),
        (Traffic.OUTPUT_TOKENS, "output_tokens_per_request", 200.0, 249.0, 251.0),
        (Traffic.PROMPT_TOKENS, "prompt_tokens_per_request", 400.0, 321.0, 319.0),
        (Traffic.COVERAGE, "coverage_ratio", 0.5, 0.41, 0.39),
    ],
)
def test_unlike_measurements_have_a_caution(reason, quantity, before, alike, other):
    first, similar, different = (model(0.7, **{quantity: value}) for value in (before, alike, other))
    assert ModelComparison(before=first, after=similar).cautions == {}
    assert list(ModelComparison(before=first, after=different).cautions) == [reason]


BUSY = {"requests_per_second": 2.0, "running_requests": 8.0}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(BUSY, BUSY | {"running_requests": 16.0}, id="equal arrivals at a slower server"),
        pytest.param({"requests_per_second": 2.0}, BUSY | {"requests_per_second": 20.0}, id="running requests of one side"),
        pytest.param({"output_tokens_per_request": (200.0, 40.0)}, {"output_tokens_per_request": (260.0, 50.0)}, id="a difference by chance"),
    ],
)  # fmt: skip
def test_no_caution_is_for(before, after):
    assert ModelComparison(before=model(0.7, **before), after=model(0.7, **after)).cautions == {}


@pytest.mark.parametrize(("hits", "cautions"), [(0.29, 0), (0.31, 1)])
def test_prefix_cache_hits_count_by_the_tokens_that_are_computed_of_a_request(hits, cautions):
    lengths = {"prompt_tokens_per_request": 400.0, "output_tokens_per_request": 100.0}
    before, after = (model(0.7, **lengths, prefix_cache_hit_ratio=each) for each in (0.2, hits))
    found = ModelComparison(before=before, after=after)
    assert list(found.cautions) == [Traffic.PREFIX_CACHE] * cautions


def test_load_is_compared_per_engine():
    busy, alone = (model(0.7, running_requests=32.0, engines=number) for number in (2, 1))
    caution = ModelComparison(before=busy, after=alone).cautions[Traffic.LOAD]
    assert caution.startswith("16.0 requests ran on an engine in the mean, and 32.0")


def test_unlike_measurements_without_bounds_have_a_caution():
    """Chance cannot be excluded, nor shown."""
    before, after = (
        model(0.7).model_copy(update={"figures": {"running_requests": Measured(value=value)}})
        for value in (10.0, 20.0)
    )
    assert list(ModelComparison(before=before, after=after).cautions) == [Traffic.LOAD]


# Differences


def test_distances_of_bounds_add_up_as_squares_each_in_its_own_direction():
    """A rise is largest from the lower bound before to the upper bound after."""
    before, after = Measured(value=10.0, lower=7.0, upper=11.0), Measured(value=20.0, lower=18.0, upper=24.0)
    found = difference(before, after)
    assert (found.change, found.lower, found.upper) == (10.0, 10 - sqrt(4 + 1), 10 + 5.0)


@pytest.mark.parametrize("one", [exactly(1.0, 0.1), Measured(value=1.0)])
def test_without_bounds_on_one_side_there_are_none_of_the_difference(one):
    other = Measured(value=2.0)
    for found in (difference(one, other), difference(other, one)):
        assert (abs(found.change), found.lower, found.upper) == (1.0, None, None)
        assert not found.beyond_chance


# Models and engines


ORDER = (Outcome.FELL, Outcome.UNCERTAIN, Outcome.LOWER, Outcome.SAME, Outcome.BETTER)
RATES = dict(zip(ORDER, (0.5, 0.6502, 0.68, 0.7, 0.8), strict=True))
"""From the worst to the best, and a rate of each after one of 0.7."""


def test_the_worst_of_the_models_counts_and_a_missing_one_makes_it_uncertain_at_best():
    before, gone = {"a": 0.7, "b": 0.7}, {"a": 0.7, "gone": 0.7, "away": 0.7}
    for place, worst in enumerate(ORDER):
        for other in ORDER[place:]:
            after = {"a": RATES[other], "b": RATES[worst]}
            assert compared(snapshot(before), snapshot(after)).outcome is worst
        found = compared(snapshot(gone), snapshot({"a": RATES[worst]}))
        assert found.outcome is ORDER[min(place, 1)]


def renamed(snapshot, name):
    """Return an observation with another model name."""
    return snapshot.model_copy(
        update={
            key: tuple(each.model_copy(update={"model_name": name}) for each in getattr(snapshot, key))
            for key in ("engines", "models")
        }
    )


@pytest.mark.parametrize(
    ("before", "after", "outcome", "cautions"),
    [
        ("steady", "again", Outcome.SAME, []),
        ("steady", "worse", Outcome.FELL, []),
        ("worse", "steady", Outcome.BETTER, []),
        ("steady", "a little worse", Outcome.LOWER, []),
        ("steady", "longer", Outcome.NOT_COMPARABLE, []),
        ("steady", "busier", Outcome.SAME, [Traffic.LOAD]),
        ("steady", "two", Outcome.SAME, []),
        ("steady", "other work", Outcome.SAME, [Traffic.OUTPUT_TOKENS]),
        ("two", "one of two", Outcome.FELL, []),
    ],
)
def test_what_changed_and_different_conditions_are_found(before, after, outcome, cautions):
    found = compared(saved(before), saved(after))
    (model,) = found.models
    assert (found.outcome, list(model.cautions)) == (outcome, cautions)


def test_a_single_renamed_model_is_matched():
    found = compared(saved("steady"), renamed(saved("worse"), "llama-awq"))
    assert (len(found.models), found.only_before, found.only_after) == (1, (), ())
    prose = " ".join(as_text(found, TextStyle()).split())
    assert "Changed: model, from `meta-llama/Llama-3.1-8B-Instruct` to `llama-awq`" in prose


def test_unmatched_models_are_named():
    found = compared(snapshot(dict.fromkeys("abc", 0.7)), snapshot(dict.fromkeys("bde", 0.7)))
    assert [pair.after.model_name for pair in found.models] == ["b"]
    assert [model.model_name for model in found.only_before] == ["a", "c"]
    assert [model.model_name for model in found.only_after] == ["d", "e"]
    written = as_text(found, TextStyle())
    assert "Not there now: `a with 4 draft tokens`" in written
    assert "Not in the reference: `e with 4 draft tokens`" in written


VERDICTS = {
    "again": "is the same within chance",
    "worse": "more than 5, and beyond chance.",
    "a little worse": "beyond chance, but certainly by no more than 5.",
    "longer": "Only positions can be compared.",
}


@pytest.mark.parametrize(("after", "verdict"), VERDICTS.items())
@pytest.mark.parametrize("form", ["text", "json"])
def test_the_verdict_is_a_plain_sentence(form, after, verdict):
    found = compared(saved("steady"), saved(after))
    written = {"text": " ".join(as_text(found, TextStyle()).split()), "json": as_json(found)}
    assert verdict in written[form]


def test_json_has_every_figure():
    found = json.loads(as_json(compared(saved("two"), saved("one of two"))))
    assert (found["outcome"], found["threshold"]) == ("fell", 0.05)
    (one,) = found["models"]
    rate = one["figures"]["draft_acceptance_ratio"]
    assert rate["change"] == pytest.approx(rate["after"]["value"] - rate["before"]["value"])
    assert rate["beyond_chance"] is True
    assert one["before"]["engines"] == 2
    assert found["before"]["seconds"] == 300.0


HOSTILE = "a|b`<script>*\x1b[31m\n# c\u202e"


@pytest.mark.parametrize("form", ["text", "json"])
def test_untrusted_names_stay_text(form):
    found = compared(saved("two"), renamed(saved("one of two"), HOSTILE))
    written = {"text": as_text(found, TextStyle()), "json": as_json(found)}[form]
    assert "\x1b" not in written
    assert "\u202e" not in written
    assert not any(line.startswith("# c") for line in written.splitlines())
    if form == "text":
        assert "``a|b`<script>*\\x1b[31m\\n# c\\u202e``" in written.replace("`` ", "``").replace(" ``", "``")
