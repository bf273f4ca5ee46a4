"""Warnings of a plan, each at its limit."""

from __future__ import annotations

import pytest

from spec_decode_exporter.reports.plan.plan_warnings import PlanWarningName, plan_warnings
from tests.reports.plan.conftest import LLAMA_8B, LLAMA_70B, planned
from tests.reports.plan.test_checkpoint import tokenizer


def warned(*words):
    return {str(each.name) for each in plan_warnings(planned(*words))}


QUIET = ("--target", "70B", "--draft", "7B", "--gpus", "2", "--gpu-memory", "141GB", "--batch", "8")


def test_a_typical_pair_with_enough_memory_has_no_warnings():
    assert warned(*QUIET) == set()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--gpu-memory", "100GB"), None),
        (("--gpu-memory", "99GB"), "target_share"),
        (("--gpu-memory", "60GB"), "target_alone"),
        (("--draft", "8.76B"), "large_draft"),
        (("--draft", "8.75B"), None),
        (("--draft", "5.8B"), "small_draft"),
        (("--draft", "5.84B"), None),
        (("--draft", "70B"), "draft_larger"),
        (("--batch", "51"), None),
        (("--batch", "52"), "compute_bound"),
        (("--cost.draft-cost-ratio", "0.975", "--acceptance", "1"), None),
        (("--cost.draft-cost-ratio", "0.976"), "never_pays"),
        (("--acceptance", "0.35"), "loses"),
        (("--acceptance", "0.42"), None),
    ],
)
def test_each_warning_has_its_limit(words, name):
    assert (name in warned(*QUIET, *words)) if name else not warned(*QUIET, *words)


@pytest.mark.parametrize(("draft", "says"), [("21.1B", False), ("21.2B", True)])
def test_a_draft_above_15_percent_of_the_memory_is_too_large(draft, says):
    assert ("draft_share" in warned(*QUIET, "--draft", draft)) is says


@pytest.mark.parametrize(("size", "says"), [("82.1GB", True), ("82.2GB", False)])
def test_a_small_cache_of_unknown_use_has_a_warning(size, says):
    words = ("--gpu-memory", size, "--utilisation", "1", "--overhead", "0")
    assert ("little_cache" in warned(*QUIET, "--draft", "8B", *words, "--batch", "8")) is says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--gpu-memory", "80GB"), "With that the target fits without a draft:"),
        (("--gpu-memory", "81559MiB"), None),
        (("--gpu-memory", "95GB"), None),
        (("--gpu-memory", "87GB"), "With that the weights fit:"),
        (("--gpu-memory", "60GB"), None),
    ],
)
def test_gpus_have_more_memory_than_their_name_suggests(words, says):
    """81559MiB are 85.5 GB: two such GPUs give a 70B 153.9 GB, of which 140 are weights and 4 overhead."""
    found = {each.name: each.text for each in plan_warnings(planned(*QUIET, "--draft", "8B", *words))}
    assert (says in found[PlanWarningName.GPU_MEMORY]) if says else PlanWarningName.GPU_MEMORY not in found


def test_attention_heads_must_divide_over_the_gpus(folder):
    odd = folder("odd", {**LLAMA_70B, "num_attention_heads": 60, "head_dim": 128})
    assert "heads" in warned("--target", odd, "--draft", "8B", "--gpus", "8")
    assert "heads" not in warned("--target", odd, "--draft", "8B", "--gpus", "4")


def test_vocabulary_sizes_must_match(folder, llamas):
    other = folder("other", {**LLAMA_8B, "vocab_size": 32000})
    found = plan_warnings(planned("--target", llamas[1], "--draft", other, "--gpus", "4"))
    assert "The draft has 32,000 tokens and the target 128,256" in str(found)
    assert "vocabulary" not in warned(*llamas)


def test_tokens_of_the_vocabularies_must_match(folder):
    target = folder("t", LLAMA_70B, **{"tokenizer.json": tokenizer({"a": 0, "b": 1})})
    for tokens, says in (({"a": 1, "b": 0}, True), ({"b": 1, "a": 0}, False)):
        draft = folder("d", LLAMA_8B, **{"tokenizer.json": tokenizer(tokens)})
        assert ("vocabulary" in warned("--target", target, "--draft", draft, "--gpus", "4")) is says


@pytest.mark.parametrize(("more", "says"), [({}, True), ({"target_hidden_size": 4096}, False)])
def test_a_head_of_another_width_has_a_warning(folder, more, says):
    head = folder("e", {**LLAMA_8B, "num_hidden_layers": 1, "hidden_size": 2048, **more})
    target = folder("t", LLAMA_8B)
    assert ("other_width" in warned("--target", target, "--draft", head, "--method", "eagle3")) is says


def test_sequences_displaced_by_the_draft_have_a_warning(llamas):
    found = {each.name: each.text for each in plan_warnings(planned(*llamas, "--batch", "40"))}
    assert PlanWarningName.BATCH in found
    assert (
        "Of 40 sequences of 8,192 tokens 32 fit at a time; without the draft 40 would"
        in found[PlanWarningName.BATCH]
    )
