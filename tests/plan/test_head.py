"""Heads that draft from the target's hidden states."""

from __future__ import annotations

import pytest

from exporter.plan.configuration import ModelError
from tests.plan.conftest import LLAMA_8B, planned
from tests.plan.test_counting import CASES

EAGLE3 = {**LLAMA_8B, "num_hidden_layers": 1, "draft_vocab_size": 32000}
HIDDEN = 4096
LAYER = 2 * HIDDEN * 128 * (32 + 8) + 3 * HIDDEN * 14336 + 2 * HIDDEN


def head(*words):
    return planned(*words).wanted.draft.model


def test_an_eagle_head_is_a_layer_and_what_joins_it(folder):
    model = head("--target", folder("t", LLAMA_8B), "--method", "eagle", "--gpu-memory", "80GB")
    assert model.parameters.total == LAYER + 2 * HIDDEN**2 + HIDDEN
    assert model.parameters.borrowed == 128256 * HIDDEN
    assert model.shape.attention[0].layers == 1


def test_an_eagle3_head_has_an_output_matrix_of_its_own(folder):
    """By its own configuration, its attention sees the token beside the hidden state."""
    target = folder("t", LLAMA_8B)
    by_target = head("--target", target, "--method", "eagle3")
    by_config = head("--target", target, "--method", "eagle3", "--draft", folder("e", EAGLE3))
    assert by_target.parameters.total == LAYER + 3 * HIDDEN**2 + HIDDEN + 32000 * HIDDEN
    assert by_config.parameters.total == by_target.parameters.total + HIDDEN * 128 * (32 + 16)
    assert by_config.parameters.borrowed == by_config.parameters.embedding == 0


def test_the_weights_of_a_head_are_those_of_its_files(folder):
    index = {"model.safetensors.index.json": {"metadata": {"total_size": 850_000_000}}}
    model = head(
        "--target", folder("t", LLAMA_8B), "--method", "eagle3", "--draft", folder("e", EAGLE3, **index)
    )
    assert (model.weight_bytes, model.counted) == (850_000_000, False)


def test_a_head_of_a_given_size_is_taken_at_its_word():
    assert head("--target", "70B", "--method", "eagle3", "--draft", "900M").weight_bytes == 1_800_000_000


def test_the_head_of_deepseek_has_all_the_experts_of_a_layer(folder):
    """11.5B of its 671B published ones lie in the module beside; without embedding and output matrix here."""
    target = folder("t", {"model_type": "deepseek_v3", **CASES["deepseek_v3"][0]})
    model = head("--target", target, "--method", "mtp", "--gpus", "8", "--gpu-memory", "141GB")
    assert model.parameters.total == pytest.approx(11.6e9, rel=0.02)
    assert model.parameters.active < 0.1 * model.parameters.total


def test_a_head_is_cheap(folder):
    found = planned("--target", folder("t", LLAMA_8B), "--method", "eagle", "--batch", "1", "--context", "1")
    assert found.costs.at(4).draft_cost_ratio - 0.03 == pytest.approx((LAYER + 2 * HIDDEN**2 + 128257 * HIDDEN) / (8_030_261_248 - 128256 * HIDDEN), rel=1e-3)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--method", "eagle3"), "has no size: give --draft"),
        ((), "say what drafts: --draft 8B, or --method"),
        (("--method", "ngram", "--draft", "1B"), "ngram searches the text and has no draft"),
    ],
)
def test_what_is_missing_or_too_much_is_said(words, says):
    with pytest.raises(ModelError, match=says):
        planned("--target", "70B", *words)
