"""Reports of plans for terminals, Markdown and programs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from spec_decode_exporter.core.number_formats import parameters
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.parts import Tone
from spec_decode_exporter.reports.plan.deployment_plan import PlanOutcome
from spec_decode_exporter.reports.plan.draft_method import METHODS
from spec_decode_exporter.reports.plan.model_config import FAMILIES
from spec_decode_exporter.reports.plan.plan_json import PlanView, as_json, view
from spec_decode_exporter.reports.plan.plan_report import report
from spec_decode_exporter.reports.plan.plan_warnings import PlanWarningName
from spec_decode_exporter.reports.plan.quantization import DTYPES
from spec_decode_exporter.reports.terminal import ASCII, UNICODE, TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report
from tests.reports.plan.conftest import LLAMA_8B, planned
from tests.reports.plan.test_parameter_count import CASES

GOLDEN = Path(__file__).parent / "golden"
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "guide" / "plan.md"


def is_golden(name, found):
    """Compare with a golden file; ``UPDATE_GOLDEN=1 pytest tests/reports`` writes it."""
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


def text(found, width=80, glyphs=UNICODE):
    return text_report(report(found), TerminalStyle(glyphs, width=width))


def test_the_plan_of_a_pair_is_the_golden_one(llamas):
    is_golden("llamas.txt", text(planned(*llamas, "--batch", "16", "--throughput", "900")))


def test_without_a_config_only_the_weights_are_known_to_fit():
    found = text(planned("--target", "70B", "--draft", "8B", "--gpus", "2"), 120)
    assert "The weights would fit with the target in 8 bits." in found
    large = text(planned("--target", "70B", "--draft", "8B", "--gpus", "2", "--gpu-memory", "81559MiB"), 120)
    assert "The weights would fit with the draft in 8 bits. Without the draft the weights fit." in large


def test_models_that_do_not_start_have_no_return(llamas):
    words = ("--throughput", "900")
    assert planned(*llamas, *words, "--gpus", "2").payoff is None
    assert planned(*llamas, *words, "--draft.tensor-parallel", "1").payoff is None
    assert json.loads(as_json(planned(*llamas, *words, "--gpus", "2")))["return_on_memory"] is None


def test_a_return_at_fewer_sequences_names_the_sequences_without_the_draft(llamas):
    tight, wide = (
        " ".join(text(planned(*llamas, "--throughput", "900", "--batch", b)).split()) for b in ("40", "32")
    )
    assert "Both at 32 sequences at a time. Without the draft 40 fit, which generate more" in tight
    search = (*llamas[:2], "--gpus", "4", "--method", "ngram", "--throughput", "900", "--batch", "99")
    assert "Without the draft" not in wide + text(planned(*search))


def test_a_count_of_one_is_singular(llamas):
    found = text(planned(*llamas, "--context", "262144", "--batch", "1"), 120)
    assert "KV cache: 1 sequence of 262,144 tokens." in found
    assert "plain decode steps, at 1 sequence\n" in found


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (596_049_920, "596M"),
        (999_885_952, "1B"),
        (999_499_999, "999M"),
        (70_553_706_496, "70.6B"),
        (999_600_000_000, "1T"),
        (10**6, "1M"),
    ],
)
def test_parameters_have_the_unit_that_they_round_to(number, written):
    assert parameters(number) == written


def test_models_that_do_not_fit_have_a_remedy():
    is_golden("too_large.txt", text(planned("--target", "70B", "--draft", "8B", "--gpus", "2")))


def test_a_head_of_a_mixture_is_the_golden_one(folder):
    target = folder("DeepSeek-V3", {"model_type": "deepseek_v3", **CASES["deepseek_v3"][0]})
    words = ("--method", "mtp", "--tokens", "1", "--gpus", "8", "--gpu-memory", "141GB")
    is_golden("mtp.txt", text(planned("--target", target, "--target.dtype", "fp8", *words)))


def test_markdown_is_the_golden_one(llamas):
    is_golden("llamas.md", markdown_report(report(planned(*llamas, "--throughput", "900")), TerminalStyle()))


@pytest.mark.parametrize(("width", "glyphs"), [(40, ASCII), (60, UNICODE), (120, UNICODE)])
def test_the_report_fits_a_terminal_of_any_width(llamas, width, glyphs):
    found = text(planned(*llamas), width, glyphs)
    assert max(map(len, found.splitlines())) <= width
    assert found.isascii() == (glyphs is ASCII)


def test_each_line_of_the_sample_in_the_documentation_is_one_of_the_golden_report():
    report_lines = (GOLDEN / "llamas.txt").read_text(encoding="utf-8").splitlines()
    _, sample = DOCUMENTATION.read_text(encoding="utf-8").split("```text\n")
    shown = sample.split("\n```")[0].splitlines()
    assert len(shown) > 10
    assert set(shown) <= set(report_lines)


def test_the_figures_in_the_documentation_are_those_of_the_plan():
    rows = re.findall(r"^\| (?:BF16|INT\d) \|.*$", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 5
    for row in rows:
        target, draft, *figures = (cell.strip() for cell in row.strip("| ").split("|"))
        names = [{"BF16": "bfloat16"}.get(name, name.lower()) for name in (target, draft)]
        words = ("--target", "70B", "--target.dtype", names[0], "--draft", "8B", "--draft.dtype", names[1],
                 "--gpus", "2", "--utilisation", "1")  # fmt: skip
        small, large = (planned(*words, "--gpu-memory", size).drafting for size in ("80GB", "141GB"))
        found = small.weight_bytes, small.left_bytes, large.left_bytes
        assert figures == [f"{size // 10**9} GB" for size in found]


@pytest.mark.parametrize("word", [*PlanWarningName, *PlanOutcome, *FAMILIES, *METHODS, *DTYPES])
def test_every_outcome_is_documented(word):
    assert re.search(rf"\b{word}\b", DOCUMENTATION.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "[fits] 123 GB are left for the KV cache: 32 sequences"),
        (("--batch", "33"), "[tight] 123 GB"),
        (("--context", "300000"), "[does not fit] Not one sequence of 300,000 tokens fits beside the weights."),
        (("--gpus", "2", "--overhead", "0", "--utilisation", "1"), "It would fit with the draft in 8 bits"),
        (("--gpus", "2", "--overhead", "0"), "It would fit with the target in 8 bits."),
        (("--gpus", "2", "--gpu-memory", "81559MiB"), "It would fit with the target in 8 bits. Without the draft it fits."),
        (("--gpus", "2", "--gpu-memory", "141GB", "--context", "262144"), "[does not fit] Not one sequence of 262,144 tokens fits beside the weights. It would fit with the KV cache in 8 bits (--kv-cache-dtype fp8). Without the draft it fits."),
        (("--gpus", "2", "--gpu-memory", "141GB", "--context", "290000", "--kv-cache-dtype", "fp8"), "[tight]"),
        (("--gpus", "1"), "It would fit with the target in 4 bits"),
        (("--gpus", "1", "--gpu-memory", "57GB"), "It would fit with both in 4 bits."),
        (("--gpus", "1", "--gpu-memory", "20GB"), "Take more or larger GPUs, or a shorter --context."),
        (("--cost.draft-cost-ratio", "2"), "With 4 tokens it never pays."),
        (("--acceptance", "0"), "[fits] 123 GB are left for the KV cache: 32 sequences of 8,192 tokens. At the assumed acceptance of 0 no number of tokens pays: 0.48 times as fast with 4. It pays where more than"),
        (("--tokens", "8", "--acceptance", "0.5"), "At the assumed acceptance of 0.5, 8 tokens do not pay: 0.64 times as fast. It pays where more than"),
        (("--draft.tensor-parallel", "1"), "[refused] The draft's tensor parallel size is 1 and the target's 4: vLLM takes the target's only."),
    ],
)  # fmt: skip
def test_the_verdict_comes_first(llamas, words, says):
    found = " ".join(text(planned(*llamas, *words), 120).split())
    assert says in found.split("target model")[0]


def test_the_cache_of_a_gpu_has_the_unit_of_vllms_log(llamas):
    found = planned(*llamas)
    size = found.drafting.cache_bytes / 4 / 2**30
    assert f"GiB on a GPU {size:.1f} " in " ".join(text(found).split())


def test_a_size_in_mebibytes_has_no_note(llamas):
    assert "a GPU sold as 80 GB may have 7 % more" in " ".join(text(planned(*llamas)).split())
    assert "a GPU sold as" not in text(planned(*llamas, "--gpu-memory", "81559MiB"))


def test_missing_memory_is_no_size():
    found = text(planned("--target", "70B", "--draft", "8B", "--gpus", "2", "--gpu-memory", "81559MiB"))
    assert "size  none  9.94 GB without the draft, 6.06 GB lacking" in found


def test_models_that_fit_and_never_pay_are_not_green(llamas):
    assert [report(planned(*llamas, *more)).engines[0].tone for more in ((), ("--acceptance", "0"))] == [
        Tone.GOOD,
        Tone.FAIR,
    ]


def test_the_verdict_names_an_unknown_size_of_a_sequence():
    words = ("--target", "70B", "--draft", "8B", "--gpus", "2", "--utilisation", "1", "--overhead", "0")
    found = text(planned(*words), 120)
    assert "[weights fit] 4.00 GB are left for the KV cache. The size of a sequence of 8,192 tokens" in found
    assert json.loads(as_json(planned(*words)))["outcome"] == "weights_fit"


def test_a_search_has_no_weights():
    found = text(planned("--target", "8B", "--method", "ngram"))
    assert "ngram: a search, no weights" in found
    assert "both" not in found
    assert "without the draft," not in found


def test_a_search_reports_that_it_takes_no_memory():
    words = ("--target", "8B", "--method", "ngram", "--throughput", "100")
    assert "It takes no memory of the GPUs" in " ".join(text(planned(*words)).split())
    assert "The weights would fit with the target in 8 bits." in text(
        planned(*words, "--gpu-memory", "19GB"), 120
    )


def test_a_search_does_not_find_a_draft_in_every_step():
    found = " ".join(text(planned("--target", "8B", "--method", "ngram")).split())
    assert "A search finds one in a part of the steps only" in found


def test_a_cost_names_its_origin():
    pair = ("--target", "8B", "--draft", "1B")
    assert "It is as it was given." in text(planned(*pair, "--cost.draft-cost-ratio", "0.1"))
    assert "An estimate by the weights alone." in text(planned(*pair))
    assert "The typical cost of searching and verifying" in text(
        planned("--target", "8B", "--method", "ngram")
    )


def test_missing_data_names_its_model(folder):
    target = folder("t", LLAMA_8B)
    found = " ".join(text(planned("--target", target, "--draft", "1B")).split())
    assert "unknown for the draft: a number of parameters does not determine it" in found
    assert "or --draft.kv-bytes-per-token." in found


def test_json_has_the_values_of_the_plan(llamas):
    found = planned(*llamas, "--throughput", "900")
    assert PlanView.model_validate_json(as_json(found)) == view(found)
    said = json.loads(as_json(found))
    assert said["with_draft"]["kv_cache_bytes"] == found.drafting.cache_bytes
    lost = said["lost"]["kv_cache_tokens"], said["lost"]["concurrent_sequences"]
    assert lost == (
        found.alone.tokens - found.drafting.tokens,
        found.alone.sequences - found.drafting.sequences,
    )
    assert [depth["tokens"] for depth in said["depths"]] == list(range(1, 9))
    assert said["depths"][1]["acceptance_ratio"] == pytest.approx((0.7 + 0.49) / 2)
    assert said["return_on_memory"]["gained_tokens_per_second"] == found.payoff.gained_tokens_per_second
    assert as_json(found).isascii()


def test_unknown_values_are_null_in_json():
    said = json.loads(as_json(planned("--target", "8B", "--method", "ngram")))
    assert said["draft"] is said["draft_to_target_ratio"] is said["return_on_memory"] is None
    assert said["with_draft"]["kv_cache_tokens"] is said["lost"]["concurrent_sequences"] is None


def test_an_untrusted_name_does_not_control_a_terminal(folder):
    target = folder("\x1b[31m|red`", LLAMA_8B)
    found = planned("--target", target, "--draft", "1B")
    assert "\x1b" not in text(found) + markdown_report(report(found), TerminalStyle()) + as_json(found)
