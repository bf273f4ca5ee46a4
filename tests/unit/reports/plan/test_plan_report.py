"""Reports of plans: warnings, each at its limit, the remedy, the text and the JSON."""

import json
import re

import pytest

from spec_decode_exporter.reports.plan.checkpoint import METHODS
from spec_decode_exporter.reports.plan.deployment_plan import PlanOutcome
from spec_decode_exporter.reports.plan.model_sizes import DTYPES, FAMILIES
from spec_decode_exporter.reports.plan.plan_report import as_json, as_text, warnings
from spec_decode_exporter.reports.text import TextStyle
from tests.fakes.golden import is_golden
from tests.paths import CHECKOUT, DATA
from tests.unit.reports.plan.conftest import LLAMA_8B, LLAMA_70B, planned

GOLDEN = DATA / "plans"
COST = ("--cost.draft-cost-ratio", "0.2")
DOCUMENTATION = CHECKOUT / "docs" / "guide" / "plan.md"


def text(plan, **style):
    return as_text(plan, TextStyle(**style))


def prose(plan):
    return " ".join(text(plan).split())


def test_the_plan_of_a_pair_is_the_golden_one(llamas):
    is_golden(GOLDEN / "llamas.txt", text(planned(*llamas, "--batch", "16", "--throughput", "900", *COST)))


def test_models_that_do_not_fit_have_a_remedy():
    is_golden(
        GOLDEN / "too_large.txt", text(planned("--target", "70B", "--draft", "8B", "--gpus", "2", *COST))
    )


def test_each_line_of_the_sample_in_the_documentation_is_one_of_the_golden_report():
    report_lines = (GOLDEN / "llamas.txt").read_text(encoding="utf-8").splitlines()
    _, sample = DOCUMENTATION.read_text(encoding="utf-8").split("```text\n")
    shown = sample.split("\n```")[0].splitlines()
    assert len(shown) > 10
    assert set(shown) <= set(report_lines)


def test_every_outcome_family_method_and_dtype_is_documented():
    document = DOCUMENTATION.read_text(encoding="utf-8")
    words = [*PlanOutcome, *FAMILIES, *METHODS, *DTYPES]  # a warning explains itself
    assert [word for word in words if not re.search(rf"\b{word}\b", document)] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "**FITS** 123 GB are left for the KV cache: 32 sequences"),
        (("--batch", "33"), "**TIGHT** 123 GB"),
        (("--context", "300000"), "**DOES NOT FIT** Not one sequence of 300,000 tokens fits beside the weights."),
        (("--gpus", "2", "--overhead", "0", "--utilisation", "1"), "It would fit with the draft in 8 bits"),
        (("--gpus", "2", "--gpu-memory", "81559MiB"), "It would fit with the target in 8 bits. Without the draft it fits."),
        (("--gpus", "2", "--gpu-memory", "141GB", "--context", "262144"), "**DOES NOT FIT** Not one sequence of 262,144 tokens fits beside the weights. **It would fit with the KV cache in 8 bits (--kv-cache-dtype fp8). Without the draft it fits."),
        (("--gpus", "1", "--gpu-memory", "57GB"), "It would fit with both in 4 bits."),
        (("--gpus", "1", "--gpu-memory", "20GB"), "Take more or larger GPUs, or a shorter --context."),
        (("--cost.draft-cost-ratio", "2"), "With 4 tokens it never pays."),
        (("--acceptance", "0", *COST), "**FITS** 123 GB are left for the KV cache: 32 sequences of 8,192 tokens. **At the assumed acceptance of 0 no number of tokens pays: 0.56 times as fast with 4. At the best guess of the cost it pays where more than"),
        (("--tokens", "8", "--acceptance", "0.5", *COST), "At the assumed acceptance of 0.5, 8 tokens do not pay: 0.77 times as fast. At the best guess of the cost it pays where more than"),
    ],
)  # fmt: skip
def test_the_verdict_comes_first(llamas, words, says):
    found = prose(planned(*llamas, *words))
    assert says in found.split("target model")[0]


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


def test_an_untrusted_name_does_not_control_a_terminal(folder):
    target = folder("\x1b[31m|red`", LLAMA_8B)
    found = planned("--target", target, "--draft", "1B")
    assert "\x1b" not in text(found) + as_json(found)


# Warnings


def warned(*words):
    return set(warnings(planned(*words)))


QUIET = ("--target", "70B", "--draft", "7B", "--gpus", "2", "--gpu-memory", "141GB", "--batch", "8")
CACHE = ("--draft", "8B", "--utilisation", "1", "--overhead", "0")


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
        (("--cost.draft-cost-ratio", "0.999", "--acceptance", "1"), None),
        (("--cost.draft-cost-ratio", "1.001"), "never_pays"),
        (("--acceptance", "0.1", "--cost.draft-cost-ratio", "0.1"), "loses"),
        (("--acceptance", "0.6", "--cost.draft-cost-ratio", "0.1"), None),
        (("--draft", "21.2B"), "draft_share"),
        ((*CACHE, "--gpu-memory", "82.1GB"), "little_cache"),
    ],
)
def test_each_warning_has_its_limit(words, name):
    assert (name in warned(*QUIET, *words)) if name else not warned(*QUIET, *words)


def tokenizer(tokens):
    return {"model": {"type": "BPE", "vocab": tokens}, "added_tokens": [{"id": 9, "content": "<s>"}]}


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
    found = warnings(planned(*llamas, "--batch", "40"))
    assert "batch" in found
    assert "Of 40 sequences of 8,192 tokens 32 fit at a time; without the draft 40 would" in found["batch"]
