"""Typical costs: of drafters by method, and of verifying by architecture and load."""

import json
from csv import DictReader, writer
from io import StringIO
from itertools import groupby
from pathlib import Path
from statistics import quantiles

import pytest

from spec_decode_exporter.config.cost_settings import Architecture
from spec_decode_exporter.costs import typical_costs
from spec_decode_exporter.costs.model_architecture import (
    UNKNOWN_DEPLOYMENT,
    UNKNOWN_TARGET,
    Deployment,
    TargetModel,
    base_name,
    target_model,
)
from spec_decode_exporter.costs.typical_costs import (
    METHODS,
    UNKNOWN_METHOD,
    Range,
    drafter_cost,
    drafting,
    every_step_pays,
    fixed_tokens,
    is_known_method,
    together,
    undrafted_pass,
    usual_length,
    verifying,
)
from spec_decode_exporter.reports.plan.expected_speedup import token_acceptance
from tests.fakes.golden import is_golden
from tests.paths import DATA

DENSE, MIXTURE = Architecture
NAMES = ("", "Qwen/Qwen3-32B-AWQ", "gpt-oss-20b", "DeepSeek-R1", "Qwen3.8-27B-Q4_K_M")
SIZES = ("4B-FP8", "4B", "8B", "14B", "32B")


def passes():
    """Cost of verifying a token on a GPU: model, load, context, K, c (``benchmarks.gpu_passes``)."""
    for line in DATA.joinpath("gpu_passes.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
        row = json.loads(line)
        target = target_model(row["model"] + ("" if row["weights"] == "bf16" else f"-{row['weights']}"))
        for tokens, seconds in row["verify"].items():
            cost = (seconds / row["plain"] - 1) / int(tokens)
            yield target, row["running"], row["context"], int(tokens), cost


@pytest.mark.parametrize(
    ("method", "is_known", "cost"),
    [
        # Older names
        ("[ngram]", True, drafter_cost("ngram")),
        ("deepseek_mtp", True, drafter_cost("mtp")),
        ("EAGLE3", True, drafter_cost("eagle3")),
        # Methods without a typical cost
        ("draft_model", True, None),
        ("extract_hidden_states", True, None),
        ("mtpx", False, None),
        ("", False, None),
    ],
)
def test_names_of_methods(method, is_known, cost):
    assert (is_known_method(method), drafter_cost(method)) == (is_known, cost)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", [method for method in METHODS if drafter_cost(method)])
def test_every_drafter_has_a_range_and_can_pay(method, name):
    target = target_model(name)
    cost, verified = drafting(method, target), verifying(target, 1, 4)
    for part in (cost.token, cost.step, verified):
        assert 0 <= part.low <= part.guess <= part.high
    # With four tokens, three of them accepted, it is faster than no speculation at one request.
    assert 4 / (1 + cost.step.guess + 4 * (cost.token.guess + verified.guess)) > 1


class TestDrafting:
    def test_its_share_falls_with_the_bytes_that_the_target_reads(self):
        costs = [drafting("eagle3", target_model(f"Qwen/Qwen3-{size}")).token.guess for size in SIZES]
        assert costs == sorted(costs, reverse=True)
        assert costs[2] == pytest.approx(drafter_cost("eagle3").token.guess)
        assert drafting("ngram", target_model("Qwen/Qwen3-32B")) == drafter_cost("ngram")

    def test_more_requests_reach_more_experts_and_more_gpus_read_them_sooner(self):
        mixture = target_model("Qwen/Qwen3-235B-A22B")
        one, many = (drafting("mtp", mixture, running=running).token.guess for running in (1, 64))
        spread = drafting("mtp", mixture, Deployment(tensor_parallel=8)).token.guess
        assert many < one < spread

    @pytest.mark.parametrize(
        "name",
        ["Llama-3.1-8B-AWQ", "Llama-3.1-8B-Q4_K_M", "Llama-3.2-3B"],
        ids=["quantised", "file", "small"],
    )
    def test_upper_ends_are_higher_beside_a_light_target(self, name):
        light, heavy = (
            drafting("eagle3", target_model(name)),
            drafting("eagle3", target_model("Llama-3.1-8B")),
        )
        assert light.token.high > 1.5 * heavy.token.high
        assert light.step.high >= 1.5 * heavy.step.high

    def test_upper_ends_hold_what_the_host_does_for_each_request_beside_a_small_target(self):
        highest = {
            size: [
                drafting("eagle3", target_model(f"llama-3-{size}"), running=each).step.high
                for each in (1, 8, 24)
            ]
            for size in ("8B", "70B")
        }
        assert highest["8B"] == pytest.approx([0.2, 0.64, 1.07], abs=0.01)
        assert highest["70B"][2] < 0.5 * highest["8B"][2]

    def test_a_drafter_may_be_a_larger_part_of_a_mixture_of_experts(self):
        dense, *others = (drafting("dflash", TargetModel(each)).token for each in (DENSE, MIXTURE, None))
        assert others == [pytest.approx((dense.low, dense.guess, 1.5 * dense.high))] * 2

    def test_one_pass_for_all_tokens_costs_a_step_and_no_token(self):
        serial = drafting("eagle3", target_model("Llama-3.1-8B"))
        parallel = drafting("eagle3", target_model("Llama-3.1-8B"), Deployment(drafts_in_parallel=True))
        assert parallel.token.guess < 0.2 * serial.token.guess
        assert serial.step.guess + serial.token.guess < parallel.step.guess < serial.step.guess + 4 * 0.06


@pytest.mark.parametrize(
    ("method", "pays", "tokens"),
    [
        ("ngram", True, 0.08 / 0.015),
        ("suffix", True, 0.10 / 0.015),
        ("medusa", True, 0.10 / 0.055),
        ("eagle3", False, 0.10 / 0.075),
        ("dflash", False, 0.20 / 0.025),
        ("deepseek_mtp", False, 0.10 / 0.075),
        ("draft_model", False, 0),
        ("", False, 0),
    ],
)
def test_steps_that_search_in_vain_pay_the_fixed_cost_too(method, pays, tokens):
    assert every_step_pays(method) is pays
    assert fixed_tokens(method) == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("method", "tokens"),
    [("eagle3", (0.10 + 2 * 0.06) / 0.025), ("draft_model", (0.10 + 0.12) / 0.025), ("dflash", 0.20 / 0.025)],
)
def test_one_pass_for_all_tokens_is_a_fixed_cost_in_what_is_measured_too(method, tokens):
    assert fixed_tokens(method, Deployment(drafts_in_parallel=True)) == pytest.approx(tokens)


def test_upper_distances_are_added_in_quadrature_and_lower_ones_as_they_are():
    # Two draft tokens: distances 2·.06, 2·.06 and .07 above the guess of 2·.3 + .1.
    token, step = together(Range(0.05, 0.1, 0.16), Range(0.1, 0.2, 0.26), Range(0.02, 0.1, 0.17), 2)
    assert token.guess == pytest.approx(0.3)
    assert step.high + 2 * token.high == pytest.approx(0.7 + (2 * 0.12**2 + 0.07**2) ** 0.5)
    assert step.low + 2 * token.low == pytest.approx(0.02 + 2 * 0.15)
    exact = Range(0.1, 0.1, 0.1)
    assert together(Range(0.0, 0.1, 0.3), exact, exact, 4) == (Range(0.1, 0.2, pytest.approx(0.4)), exact)


class TestVerifying:
    @pytest.mark.parametrize(
        ("architecture", "load", "part", "least", "most"),
        [
            (DENSE, 1, "guess", 0.0, 0.03),  # nearly free for few requests of a dense model
            (DENSE, 1, "high", 0.0, 0.1),
            (DENSE, 16, "high", 0.03, 0.15),
            (DENSE, 128, "high", 0.7, 1.0),  # an A100 reaches 117 operations a byte
            (MIXTURE, 1, "high", 0.5, 1.0),  # a mixture costs most for few requests
            (MIXTURE, 1, "low", 0.0005, 0.03),
            (MIXTURE, 1, "guess", 0.12, 0.4),
            (MIXTURE, 64, "guess", 0.0, 0.1),  # and less for many requests
        ],
    )
    def test_it_depends_on_architecture_and_load(self, architecture, load, part, least, most):
        assert least <= getattr(verifying(TargetModel(architecture), load, 4), part) <= most

    def test_two_of_eight_experts_by_hand(self):
        # r = 4: one token reaches 1/4 of the experts; four more that share half of theirs are as two, and three
        # reach 1 - .75^3 = .578, 2.31 times as many. The experts are a tenth of the step, so a token costs
        # .1·1.31/4 = .0328, a quarter of it for long contexts.
        found = verifying(TargetModel(MIXTURE, 4.0), 1, 4)
        assert found.low == pytest.approx(0.25 * 0.0328, rel=0.01)

    @pytest.mark.parametrize("load", [1, 8, 64, 256])
    def test_known_experts_narrow_the_range_and_an_unknown_architecture_means_either(self, load):
        either, dense, mixture = (verifying(TargetModel(each), load, 4) for each in (None, DENSE, MIXTURE))
        assert either == (min(dense.low, mixture.low), dense.guess, max(dense.high, mixture.high))
        for ratio in (4.0, 8.0, 16.0, 32.0, 48.0):
            named = verifying(TargetModel(MIXTURE, ratio), load, 4)
            assert mixture.low <= named.low <= named.guess <= named.high <= mixture.high

    @pytest.mark.parametrize("ratio", [8.0, 16.0])
    def test_a_production_mixture_verifies_three_tokens_in_a_quarter_more_time(self, ratio):
        # Cohere, 2026: 1.25 times at one request, with an eighth to a sixteenth of the experts active.
        low, _, high = verifying(TargetModel(MIXTURE, ratio), 1, 3)
        assert 1 + 3 * low < 1.25 < 1 + 3 * high

    def test_experts_on_many_gpus_are_a_small_part_of_a_step(self):
        one, spread = (
            verifying(TargetModel(MIXTURE, 32.0), 2, 3, deployment=Deployment(tensor_parallel=gpus))
            for gpus in (1, 8)
        )
        assert spread.guess < 0.5 * one.guess
        assert spread.high < 0.8 * one.high
        assert (
            verifying(target_model("DeepSeek-R1"), 2, 3).high
            < verifying(TargetModel(MIXTURE, 32.0), 2, 3).high
        )

    @pytest.mark.parametrize("load", [1, 16, 64])
    def test_contexts_move_the_ridge_and_very_long_ones_may_be_verified_by_a_kernel_for_prompts(self, load):
        short, long, longest = (
            verifying(TargetModel(DENSE), load, 4, context=each) for each in (500, 8_000, 32_000)
        )
        assert long.guess <= short.guess
        assert long.high == short.high
        assert longest.high == pytest.approx(min(1.0, short.high + 0.5))

    def test_files_for_consumer_gpus_and_their_engines_may_read_the_weights_for_each_token(self):
        local = verifying(target_model("Qwen3-32B-Q4_K_M"), 1, 2)
        assert local.high == 0.9
        consumer = verifying(TargetModel(DENSE), 1, 2, deployment=Deployment(is_datacentre=False))
        assert consumer.high == 0.4

    def test_measured_passes_of_a_gpu_are_within_the_range(self):
        known = [each for each in passes() if not each[0].is_tiny]
        assert len(known) > 200
        for target, running, context, tokens, measured in known:
            low, guess, high = verifying(target, running, tokens, context=context)
            fixed = 0.05 if tokens == 1 else 0.0  # what a step of several tokens costs is a part of c0
            assert low - 0.002 <= measured <= high + fixed, (target, running, context, tokens)
            if target.architecture is DENSE:
                assert guess == pytest.approx(measured, abs=0.17), (target, running, context, tokens)


class TestUsualLength:
    def test_follows_from_the_published_measurements(self):
        """A length that several rows repeat, as at other loads, is one measurement."""
        with (DATA / "published-speedups.csv").open(encoding="utf-8", newline="") as file:
            rows = [row for row in DictReader(file) if row["kind"] == "measured"]
        found = {}
        for row in rows:
            tokens, length = int(row["tokens"]), float(row["acceptance_length"])
            of = row["method"], base_name(row["served_name"])
            found.setdefault(
                (*of, row["served_name"], tokens, length),
                (of, token_acceptance(tokens, length), row["source"]),
            )
        measured = sorted(found.values(), key=lambda each: each[0])
        table = []
        for method, each in groupby(measured, key=lambda each: each[0][0]):
            every = [*each]
            ends = quantiles([acceptance for _, acceptance, _ in every], n=10, method="inclusive")
            table.append((method, "", f"{ends[0]:.3f}", f"{ends[-1]:.3f}", len(every), ""))
            for (_, model), own in groupby(every, key=lambda each: each[0]):
                of_model = [*own]
                values = [acceptance for _, acceptance, _ in of_model]
                source = of_model[0][2].removeprefix("https://").removeprefix("github.com/")
                table.append((method, model, f"{min(values):.3f}", f"{max(values):.3f}", len(values), source))
        text = StringIO(newline="")
        lines = writer(text, lineterminator="\n")
        lines.writerow(("method", "model", "low", "high", "measurements", "source"))
        lines.writerows(table)
        is_golden(Path(typical_costs.__file__).with_name("usual_acceptance.csv"), text.getvalue())

    @pytest.mark.parametrize(
        ("method", "tokens", "model", "ends"),
        [
            ("eagle3", 4, "", (2.3, 3.1)),
            ("EAGLE3", 1, "", (1.6, 1.8)),
            ("eagle3", 4, "meta-llama/Llama-3.1-8B-Instruct", (2.6, 3.2)),  # published: 3.08
            ("qwen3_5_mtp", 3, "org/Qwen3.8-27B-FP8", (2.4, 3.9)),
            ("ngram", 4, "", None),
            ("eagle3", 0, "", None),
            ("eagle3", 4, "Qwen3-235B-A22B", None),
        ],
    )
    def test_is_that_of_the_token_acceptance_at_any_number_of_tokens(self, method, tokens, model, ends):
        found = usual_length(method, tokens, model)
        assert (found and (round(found.low, 1), round(found.high, 1))) == ends


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("Qwen/Qwen3.8-27B-UD-Q4_K_XL", "qwen3.8-27b"),
        ("RedHatAI/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b"),
        ("Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("GLM-4.7-Flash", "glm-4.7-flash"),
        ("Qwen3.6-27B-AWQ-INT4", "qwen3.6-27b"),
        ("a" + "_q4" * 80 + "!", "a" + "_q4" * 80 + "!"),  # at once: a name comes from outside
    ],
)
def test_a_name_without_the_format_of_the_weights_is_the_model(name, base):
    assert base_name(name) == base


@pytest.mark.parametrize(
    "name", ["", "Qwen/Qwen3-8B", "Qwen/Qwen3-1.7B", "meta-llama/Llama-3.1-70B-Instruct"]
)
@pytest.mark.parametrize("running", [1.0, 8.0, 24.0, 128.0])
def test_a_step_of_an_unknown_method_costs_up_to_what_that_of_eagle_does(name, running):
    any_drafter, eagle = (drafting(method, target_model(name), running=running) for method in ("", "eagle"))
    assert any_drafter.step.high >= eagle.step.high
    assert any_drafter.step.guess == UNKNOWN_METHOD.step.guess


class TestTheDrafterInStepsWithoutDrafts:
    def passed(self, method, *, deployment=UNKNOWN_DEPLOYMENT, **more):
        return undrafted_pass(method, UNKNOWN_TARGET, deployment, **more)

    def test_a_layer_runs_once(self):
        assert self.passed("eagle3", tokens=4) == drafting("eagle3").token

    def test_a_draft_model_may_run_for_all_tokens(self):
        one, four = (self.passed("draft_model", tokens=tokens, share=0.1) for tokens in (1, 4))
        assert (one.low, one.guess, one.high) == pytest.approx((0.08, 0.1, 0.33))
        assert four == (one.low, one.guess, 4 * one.high)

    @pytest.mark.parametrize("method", ["ngram", "suffix", "dflash", "dspark"])
    def test_a_search_and_a_stored_cache_are_no_pass(self, method):
        assert self.passed(method, tokens=4).high == 0

    @pytest.mark.parametrize("method", ["eagle3", "draft_model"])
    def test_parallel_drafting_may_run_its_one_pass(self, method):
        deployment = Deployment(drafts_in_parallel=True)
        parallel = self.passed(method, deployment=deployment, tokens=4)
        step = drafting(method, deployment=deployment).step
        assert parallel == (0, step.guess, step.high)

    def test_a_draft_model_that_drafts_in_parallel_runs_once(self):
        four = self.passed("draft_model", deployment=Deployment(drafts_in_parallel=True), tokens=4, share=0.1)
        assert four == pytest.approx((0.08, 0.1, 0.33))
