"""Warnings of plans, each at its limit."""

import pytest

from spec_decode_exporter.plan.warnings import warnings
from tests.fakes.model_configs import LLAMA_8B
from tests.unit.plan.conftest import planned


def warned(*words):
    return set(warnings(planned(*words)))


QUIET = ("--target", "70B", "--draft", "7B", "--gpu", "282GB", "--batch", "8")


def test_a_draft_model_with_enough_memory_on_one_gpu_has_no_warnings():
    assert warned(*QUIET) == set()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--gpu", "160GB"), None),
        (("--draft", "69B"), "draft_share"),
        (("--draft", "21.1B"), None),
        (("--draft", "21.2B"), "draft_share"),
        (("--gpus", "2"), "tensor_parallel"),
        (("--gpus", "2", "--tensor-parallel", "1"), None),
        (("--gpus", "2", "--method", "eagle3"), None),
        (("--cost.draft-cost-ratio", "0.999", "--acceptance", "1"), None),
    ],
)
def test_each_warning_has_its_limit(words, name):
    assert (name in warned(*QUIET, *words)) if name else not warned(*QUIET, *words)


@pytest.mark.parametrize("method", ["draft_model", "eagle3"])
def test_a_draft_with_fewer_positions_than_a_sequence_has_a_warning(folder, method):
    target = folder("t", {**LLAMA_8B, "max_position_embeddings": 131_072})
    draft = folder("e", {**LLAMA_8B, "num_hidden_layers": 1, "max_position_embeddings": 2048})
    words = ("--target", target, "--draft", draft, "--method", method)
    found = warnings(planned(*words, "--context", "2049"))["draft_positions"]
    assert "max_position_embeddings is 2,048, and a sequence has 2,049 tokens" in found
    assert "draft_positions" not in warned(*words, "--context", "2048")
    assert "draft_positions" not in warned("--target", draft, "--method", "eagle3", "--context", "2049")


@pytest.mark.parametrize(("more", "says"), [({}, True), ({"target_hidden_size": 4096}, False)])
def test_a_head_of_another_width_has_a_warning(folder, more, says):
    head = folder("e", {**LLAMA_8B, "num_hidden_layers": 1, "hidden_size": 2048, **more})
    target = folder("t", LLAMA_8B)
    assert ("other_width" in warned("--target", target, "--draft", head, "--method", "eagle3")) is says


def test_an_architecture_that_is_compared_with_none_has_a_warning_unless_its_files_have_the_size(folder):
    index = {"metadata": {"total_size": 16_000_000_000}}
    novel = {**LLAMA_8B, "model_type": "novel"}
    assert "usual_shape" in warned("--target", folder("m", novel), "--method", "ngram")
    whole = folder("n", novel, **{"model.safetensors.index.json": index})
    assert "usual_shape" not in warned("--target", whole, "--method", "ngram")


def test_sequences_displaced_by_the_draft_have_a_warning(llamas):
    found = warnings(planned(*llamas, "--batch", "40"))["batch"]
    assert "Of 40 sequences of 8,192 tokens 32 fit at a time; without the draft 40 would" in found
