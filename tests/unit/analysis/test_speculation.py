"""Speculation and its sources."""

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.speculation import Speculation, resolve
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.comparison_settings import SpeculativeSettings as Settings
from spec_decode_exporter.scrape.server_info import ServedSpeculation as Served

TO_8, TO_16 = BatchSchedule((1, 9), (2, 0)), BatchSchedule((1, 17), (4, 0))
SERVED = Served(
    "eagle3", 4, "served/draft", schedule=TO_16, rejection_method="fly", is_adaptive=True,
    varies_tokens=True,
)  # fmt: skip
POD = Served("mtp", 2, "pod/draft", TO_8, rejection_method="block")
BY_SERVER = Speculation(
    *("eagle3", "server_info", "served/draft", 4, TO_16),
    rejection_method="fly",
    is_adaptive=True,
    varies_tokens=True,
    has_served_tokens=True,
)
BY_POD = Speculation("mtp", "pod_arguments", "pod/draft", 2, TO_8, rejection_method="block")


@pytest.mark.parametrize(
    ("settings", "label", "served", "pod", "expected"),
    [
        (None, "", None, None, Speculation()),
        (None, "", SERVED, None, BY_SERVER),
        (None, "", Served(tokens=3), None, Speculation(tokens=3, has_served_tokens=True)),
        (None, "", Served(drafts_in_parallel=True), None, Speculation(drafts_in_parallel=True)),
        (None, "", None, Served(draft_model="amazon/GPT-OSS-20B-P-EAGLE"), Speculation(draft_model="amazon/GPT-OSS-20B-P-EAGLE", drafts_in_parallel=True)),
        (Settings(draft_model="pardner/eagle"), "", None, None, Speculation(draft_model="pardner/eagle")),
        (None, "", None, POD, BY_POD),
        (None, "", SERVED, POD, replace(BY_POD, is_adaptive=True, varies_tokens=True)),
        (None, "", SERVED, Served(tokens=2), replace(BY_SERVER, tokens=2, has_served_tokens=False)),
        (Settings(tokens=6), "suffix", None, POD, Speculation("suffix", "label", "pod/draft", 6, TO_8, rejection_method="block")),
        (
            Settings(method="ngram", draft_model="mine", schedule=((1, 7, 4), (8, 64, 0)), rejection_method="standard", expected_positions=(0.9, 0.8), adaptive=True),
            "suffix",
            None,
            POD,
            Speculation("ngram", "configured", "mine", 2, BatchSchedule((1, 8), (4, 0)), rejection_method="standard", is_adaptive=True, expected_positions=(0.9, 0.8)),
        ),
    ],
    ids=["unknown", "server", "method unknown", "parallel drafting", "by the name of its drafter", "a name like it", "pod", "pod and server", "pod with K alone", "label", "configured"],
)  # fmt: skip
def test_each_field_has_the_most_certain_source(settings, label, served, pod, expected):
    assert resolve(settings, label, served, pod) == expected


@pytest.mark.parametrize(
    ("label", "served", "expected"),
    [
        ("", None, ("eagle3", "model_name", "RedHatAI/Qwen3-8B-speculator.peagle", True)),
        ("", Served("eagle3", 4, "served/draft"), ("eagle3", "server_info", "served/draft", False)),
        ("mtp", None, ("mtp", "label", "", False)),
    ],
    ids=["alone", "beside a server's report", "beside a label"],
)
def test_the_name_of_a_speculators_checkpoint_is_the_last_source_of_the_method(label, served, expected):
    found = resolve(None, label, served, model_name="RedHatAI/Qwen3-8B-speculator.peagle")
    assert (found.method, found.source, found.draft_model, found.drafts_in_parallel) == expected


def test_the_name_of_the_model_says_the_architecture_unless_it_is_configured():
    named, configured = (
        resolve(settings, "", None, model_name="Qwen/Qwen3-30B-A3B")
        for settings in (None, Settings(architecture="dense"))
    )
    assert named.architecture == "mixture_of_experts"
    assert configured.architecture == "dense"


@pytest.mark.parametrize(
    ("running", "first"), [(1, None), (16, None), (16.1, 17), (17, 17), (500, 17), (0, None), (None, None)]
)
def test_drafting_is_scheduled_off_from_the_batch_size_of_the_schedule(running, first):
    speculation = Speculation("mtp", tokens=4, schedule=TO_16)
    assert speculation.paused_from(running) == first
    assert Speculation("mtp", tokens=4).paused_from(running) is None


@pytest.mark.parametrize(
    ("settings", "served", "size"),
    [
        (None, Served("draft_model", draft_model="Llama-3.2-1B-FP8"), 1e9),
        (None, Served("eagle3", draft_model="EAGLE3-LLaMA3.1-8B"), 0.0),  # the size is that of the target
        (Settings(draft_memory="2GiB"), Served("draft_model", draft_model="Llama-3.2-1B"), 2 * 2**30),
        (Settings(draft_memory="512MiB"), None, 512 * 2**20),
    ],
)
def test_the_memory_of_a_drafter_is_configured_or_in_the_name_of_a_draft_model(settings, served, size):
    assert resolve(settings, "", served).draft_bytes == pytest.approx(size)
