"""Comparisons of simulated servers: the change is found, and conditions that make it unfair."""

from __future__ import annotations

import json

import pytest

from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.reference.comparison import DRAFT_TOKENS, Outcome
from spec_decode_exporter.reports.reference.comparison_json import as_json
from spec_decode_exporter.reports.reference.comparison_report import report
from spec_decode_exporter.reports.reference.pairing import compared
from spec_decode_exporter.reports.terminal import TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report


def text(comparison):
    """Return the report for a terminal."""
    return text_report(report(comparison), TerminalStyle(width=120))


def prose(comparison):
    """Return the report for a terminal without line breaks."""
    return " ".join(text(comparison).split())


def markdown(comparison):
    """Return the report as Markdown."""
    return markdown_report(report(comparison), TerminalStyle())


@pytest.fixture(name="against")
def against_fixture(references):
    def against(before, after, threshold=0.05):
        return compared(references[before], references[after], threshold)

    return against


def renamed(document, name):
    """Return a reference with another model name."""
    return document.model_copy(
        update={
            key: tuple(each.model_copy(update={"model_name": name}) for each in getattr(document, key))
            for key in ("engines", "models")
        }
    )


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("steady", "again", Outcome.SAME),
        ("steady", "worse", Outcome.FELL),
        ("worse", "steady", Outcome.BETTER),
        ("steady", "a little worse", Outcome.LOWER),
        ("steady", "longer", Outcome.NOT_COMPARABLE),
        ("two", "one of two", Outcome.FELL),
        ("one of two", "two", Outcome.BETTER),
    ],
)
def test_what_changed_is_found(against, before, after, outcome):
    assert against(before, after).outcome is outcome


def test_a_model_is_the_sum_of_its_engines(references):
    document = references["two"]
    (model,), engines = document.models, document.engines
    for counter, count in model.measurement.counts.items():
        assert count == sum(engine.measurement.counts[counter] for engine in engines)
    figures = [each.measurement.quantities for each in (model, *engines)]
    assert figures[0]["running_requests"].value == pytest.approx(32)
    assert figures[0]["generation_tokens_per_second"].value == pytest.approx(
        sum(figure["generation_tokens_per_second"].value for figure in figures[1:]), rel=0.01
    )
    whole, *parts = (figure["draft_acceptance_ratio"].standard_error for figure in figures)
    assert whole < max(parts)


def test_engines_of_a_model_are_also_compared_individually(against):
    (model,) = against("two", "one of two").models
    outcomes = {pair.after.target: pair.comparison.outcome for pair in model.engines}
    assert outcomes == {"a": Outcome.SAME, "b": Outcome.FELL}


@pytest.mark.parametrize(
    ("after", "reasons"),
    [
        ("again", []),
        ("longer", [DRAFT_TOKENS]),
        ("busier", [Traffic.LOAD]),
        ("two", []),
        ("other work", [Traffic.OUTPUT_TOKENS]),
    ],
)
def test_different_conditions_are_reported(against, after, reasons):
    (model,) = against("steady", after).models
    assert [caution.reason for caution in model.comparison.cautions] == reasons


def test_the_load_is_compared_per_engine(against):
    """Two engines with 16 requests each become one with 32: each step has twice as many."""
    (model,) = against("two", "busier").models
    (load,) = model.comparison.cautions
    assert load.reason is Traffic.LOAD
    assert (load.before, load.after) == (pytest.approx(16, abs=0.1), pytest.approx(32, abs=0.1))
    assert "16.0 requests ran on an engine in the mean, and 32.0 do now" in prose(against("two", "busier"))


def test_a_single_renamed_model_is_matched(references):
    found = compared(references["steady"], renamed(references["worse"], "llama-awq"), 0.05)
    assert (len(found.models), found.gone, found.new) == (1, (), ())
    assert "Changed: model, from meta-llama/Llama-3.1-8B-Instruct to llama-awq." in prose(found)


def test_unmatched_models_are_named(references):
    def models(*names):
        documents = [renamed(references["steady"], name) for name in names]
        return documents[0].model_copy(
            update={"models": sum((each.models for each in documents), ()), "engines": ()}
        )

    found = compared(models("a", "b", "c"), models("b", "d", "e"), 0.05)
    assert [pair.after.model_name for pair in found.models] == ["b"]
    assert [model.model_name for model in found.gone] == ["a", "c"]
    assert [model.model_name for model in found.new] == ["d", "e"]
    written = text(found)
    assert "Not there now: a with 4 draft tokens." in written
    assert "Not in the reference: e with 4 draft tokens." in written


VERDICTS = {
    "again": "is the same within chance",
    "worse": "more than 5, and beyond chance.",
    "a little worse": "beyond chance, but certainly by no more than 5.",
    "longer": "the number of draft tokens differs",
}


@pytest.mark.parametrize(("after", "verdict"), VERDICTS.items())
@pytest.mark.parametrize("write", [prose, markdown, as_json])
def test_the_verdict_is_a_plain_sentence(against, write, after, verdict):
    assert verdict in write(against("steady", after))


def test_a_threshold_is_written_as_given(against):
    assert "certainly no fall of more than 7.5." in prose(against("steady", "again", 0.075))
    assert against("steady", "worse", 0.3).outcome is Outcome.LOWER


def test_json_has_every_figure(against):
    found = json.loads(as_json(against("two", "one of two")))
    assert (found["outcome"], found["threshold"]) == ("fell", 0.05)
    (model,) = found["models"]
    rate = model["quantities"]["draft_acceptance_ratio"]
    assert rate["change"] == pytest.approx(rate["after"]["value"] - rate["before"]["value"])
    assert rate["beyond_chance"] is True
    assert [engine["outcome"] for engine in model["engines"]] == ["same", "fell"]
    assert model["before"]["counts"]["drafts"] > 100_000
    assert model["latency_seconds"]["time_to_first_token"]["p50"]["before"]["value"] > 0


HOSTILE = "a|b`<script>*\x1b[31m\n# c\u202e"


@pytest.mark.parametrize("write", [text, markdown, as_json])
def test_untrusted_names_stay_text(references, write):
    after = renamed(references["two"], HOSTILE)
    after = after.model_copy(
        update={"engines": tuple(each.model_copy(update={"restarts": 1}) for each in after.engines)}
    )
    written = write(compared(references["two"], after, 0.05))
    assert "\x1b" not in written
    assert "\u202e" not in written
    assert not any(line.startswith("# c") for line in written.splitlines())
    if write is markdown:
        assert "``a\\|b`<script>*\\x1b[31m\\n# c\\u202e``" in written.replace("`` ", "``").replace(
            " ``", "``"
        )
