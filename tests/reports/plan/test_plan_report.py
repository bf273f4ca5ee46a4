"""Reports of plans for terminals, Markdown and programs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.plan.deployment_plan import PlanOutcome
from spec_decode_exporter.reports.plan.draft_method import METHODS
from spec_decode_exporter.reports.plan.model_config import FAMILIES
from spec_decode_exporter.reports.plan.plan_json import PlanView, as_json, view
from spec_decode_exporter.reports.plan.plan_report import parameters, report
from spec_decode_exporter.reports.plan.plan_warnings import PlanWarningName
from spec_decode_exporter.reports.plan.quantization import DTYPES
from spec_decode_exporter.reports.terminal import ASCII, UNICODE, TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report
from tests.reports.plan.conftest import LLAMA_8B, planned

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


def test_models_that_do_not_fit_have_a_remedy():
    is_golden("too_large.txt", text(planned("--target", "70B", "--draft", "8B", "--gpus", "2")))


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
    ],
)  # fmt: skip
def test_the_verdict_comes_first(llamas, words, says):
    found = " ".join(text(planned(*llamas, *words), 120).split())
    assert says in found.split("target model")[0]


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


def test_an_untrusted_name_does_not_control_a_terminal(folder):
    target = folder("\x1b[31m|red`", LLAMA_8B)
    found = planned("--target", target, "--draft", "1B")
    assert "\x1b" not in text(found) + markdown_report(report(found), TerminalStyle()) + as_json(found)


def test_a_search_reports_that_it_takes_no_memory():
    words = ("--target", "8B", "--method", "ngram", "--throughput", "100")
    assert "It takes no memory of the GPUs" in " ".join(text(planned(*words)).split())
    assert "The weights would fit with the target in 8 bits." in text(
        planned(*words, "--gpu-memory", "19GB"), 120
    )


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


@pytest.mark.parametrize(
    ("number", "text"),
    [(70_600_000_000, "70.6B"), (999_900_000, "1B"), (596_000_000, "596M"), (10**12, "1T")],
)
def test_the_number_of_weights_has_three_digits(number, text):
    assert parameters(number) == text
