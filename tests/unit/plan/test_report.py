"""Reports of plans: the remedy, the text, the JSON, and the warnings, each at its limit."""

import json
import re

import pytest

from spec_decode_exporter.plan.models import COMPARED, DTYPES, METHODS
from spec_decode_exporter.plan.plans import GPUS, PlanOutcome
from spec_decode_exporter.plan.report import as_json, as_text, warnings
from spec_decode_exporter.reports.text import TextStyle
from tests.fakes.golden import is_golden
from tests.fakes.model_configs import LLAMA_8B
from tests.paths import CHECKOUT, DATA
from tests.unit.plan.conftest import folder, planned

GOLDEN = DATA / "plans"
COST = ("--cost.draft-cost-ratio", "0.2")
DOCUMENTATION = CHECKOUT / "docs" / "guide" / "plan.md"
FLAGS = CHECKOUT / "docs" / "reference" / "command-line.md"


def test_the_plan_of_a_pair_is_the_golden_one(llamas):
    plan = planned(*llamas, "--batch", "16", "--throughput", "900", *COST)
    is_golden(GOLDEN / "llamas.txt", as_text(plan, TextStyle()))


def test_models_that_do_not_fit_have_a_remedy():
    plan = planned("--target", "70B", "--draft", "8B", "--gpus", "2", "--gpu", "80GB", *COST)
    is_golden(GOLDEN / "too_large.txt", as_text(plan, TextStyle()))


def test_each_line_of_the_sample_in_the_documentation_is_one_of_the_golden_report():
    report_lines = (GOLDEN / "llamas.txt").read_text(encoding="utf-8").splitlines()
    _, sample = DOCUMENTATION.read_text(encoding="utf-8").split("```text\n")
    shown = sample.split("\n```")[0].splitlines()
    assert len(shown) > 10
    assert set(shown) <= set(report_lines)


def test_every_outcome_architecture_method_dtype_and_gpu_is_documented():
    document = DOCUMENTATION.read_text(encoding="utf-8") + FLAGS.read_text(encoding="utf-8")
    words = [*PlanOutcome, *COMPARED, *METHODS, *DTYPES, *GPUS]  # a warning explains itself
    assert [word for word in words if not re.search(rf"\b{word}\b", document)] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "**FITS** 123 GB are left for the KV cache: 32 sequences"),
        (("--batch", "33"), "**TIGHT** 123 GB"),
        (("--gpus", "3", "--gpu", "H200", *COST), "**REFUSED** 64 attention heads cannot be divided over 3 GPUs: vLLM refuses that. - speed-up"),
        (("--context", "300000"), "**DOES NOT FIT** Not one sequence of 300,000 tokens fits beside the weights."),
        (("--gpus", "2", "--gpu-memory", "141GB", "--context", "262144"), "**DOES NOT FIT** Not one sequence of 262,144 tokens fits beside the weights. **Take more or larger GPUs, weights or a KV cache of fewer bits, or a shorter --context. Without the draft it fits."),
        (("--gpus", "1", "--gpu-memory", "20GB"), "or a shorter --context."),
        (("--cost.draft-cost-ratio", "2"), "With 4 tokens it never pays."),
        (("--acceptance", "0", *COST), "32 sequences of 8,192 tokens. **It pays where more than 0.200 of the draft tokens are accepted, at the best guess of the cost. At the assumed acceptance of 0 no number of tokens pays.**"),
        (("--tokens", "8", "--acceptance", "0.5", *COST), "at the best guess of the cost. Best at 1 token.**"),
        ((), "speed-up at the assumed acceptance of 0.7: **unclear**. Too few published what drafting by draft_model costs; in 10 measurements of 2 sources, with other models, it was 0.25 to 0.47 times as fast."),
    ],
)  # fmt: skip
def test_the_verdict_comes_first(llamas, words, says):
    prose = " ".join(as_text(planned(*llamas, *words), TextStyle()).split())
    assert says in prose.split("target model")[0]


def test_a_target_alone_has_a_remedy_without_words_about_a_draft():
    said = json.loads(as_json(planned("--target", "70B", "--method", "ngram", "--gpu", "H100")))
    assert said["outcome"] == "does_not_fit"
    assert said["remedy"].endswith("or a shorter --context.")


def names_in(value, path=""):
    """Yield the path of every field of a JSON document, with those of an array's first element."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}{name}"
            yield from names_in(inner, f"{path}{name}.")
    elif isinstance(value, list) and value:
        yield from names_in(value[0], path)


def test_json_keeps_the_names_of_its_fields(llamas):
    """Scripts read them."""
    said = json.loads(as_json(planned(*llamas, "--throughput", "900", "--batch", "500", *COST)))
    is_golden(GOLDEN / "fields.txt", "\n".join([*names_in(said), ""]))


def test_an_untrusted_name_does_not_control_a_terminal(tmp_path):
    target = folder(tmp_path / "\x1b[31m|red`", LLAMA_8B)
    found = planned("--target", target, "--draft", "1B")
    assert "\x1b" not in as_text(found, TextStyle()) + as_json(found)


# Warnings


QUIET = ("--target", "70B", "--draft", "7B", "--gpu", "282GB", "--batch", "8")


def test_a_draft_model_with_enough_memory_on_one_gpu_has_no_warnings():
    assert warnings(planned(*QUIET)) == {}


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
    found = warnings(planned(*QUIET, *words))
    assert (name in found) if name else not found


@pytest.mark.parametrize("method", ["draft_model", "eagle3"])
def test_a_draft_with_fewer_positions_than_a_sequence_has_a_warning(tmp_path, method):
    target = folder(tmp_path / "t", {**LLAMA_8B, "max_position_embeddings": 131_072})
    draft = folder(tmp_path / "e", {**LLAMA_8B, "num_hidden_layers": 1, "max_position_embeddings": 2048})
    words = ("--target", target, "--draft", draft, "--method", method)
    found = warnings(planned(*words, "--context", "2049"))["draft_positions"]
    assert "max_position_embeddings is 2,048, and a sequence has 2,049 tokens" in found
    assert "draft_positions" not in warnings(planned(*words, "--context", "2048"))
    alone = planned("--target", draft, "--method", "eagle3", "--context", "2049")
    assert "draft_positions" not in warnings(alone)


@pytest.mark.parametrize(("more", "says"), [({}, True), ({"target_hidden_size": 4096}, False)])
def test_a_head_of_another_width_has_a_warning(tmp_path, more, says):
    head = folder(tmp_path / "e", {**LLAMA_8B, "num_hidden_layers": 1, "hidden_size": 2048, **more})
    target = folder(tmp_path / "t", LLAMA_8B)
    plan = planned("--target", target, "--draft", head, "--method", "eagle3")
    assert ("other_width" in warnings(plan)) is says


def test_an_architecture_that_is_compared_with_none_has_a_warning_unless_its_files_have_the_size(tmp_path):
    index = {"metadata": {"total_size": 16_000_000_000}}
    novel = {**LLAMA_8B, "model_type": "novel"}
    assert "usual_shape" in warnings(planned("--target", folder(tmp_path / "m", novel), "--method", "ngram"))
    whole = folder(tmp_path / "n", novel, **{"model.safetensors.index.json": index})
    assert "usual_shape" not in warnings(planned("--target", whole, "--method", "ngram"))


def test_sequences_displaced_by_the_draft_have_a_warning(llamas):
    found = warnings(planned(*llamas, "--batch", "40"))["batch"]
    assert "Of 40 sequences of 8,192 tokens 32 fit at a time; without the draft 40 would" in found
