"""Sentences for states, verdicts and advice."""

from types import SimpleNamespace

import pytest

from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.analysis.end_to_end import EndToEnd, EndToEndBasis
from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.knowledge import Assumptions, FasterMethod, Knowledge
from spec_decode_exporter.analysis.missing_evidence import Evidence, MissingEvidence
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action, Advice, Decision, SpeedupRange, State, Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.costs.published import PublishedShare
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.findings.findings import NAMES
from spec_decode_exporter.scrape.sample import KvCache
from spec_decode_exporter.views.advice_text import recommendation_text
from spec_decode_exporter.views.verdict_text import NO_VERDICT, memory_text, verdict_text
from tests.every import every
from tests.fakes.costs import cost_between

AT = 1_790_000_000.0  # 14:13:20 UTC
SURE = Estimate(2.0, 1.8, 2.2, 0.1)
REQUEST = EndToEnd(1.5, EndToEndBasis.BASELINE, Estimate(1.5, 1.25, 1.75, 0.1))
SCHEDULED = Speculation("eagle3", schedule=BatchSchedule((1, 8, 32), (4, 0, 1)))


def covered(seconds=300.0, length=300.0, *, running=None, drafts=100, **figures):
    """A window of some seconds with the figures of a request and of decoding, unless ``figures`` say otherwise."""
    usual = {
        "window": SimpleNamespace(
            seconds=seconds, length=length, mean=SimpleNamespace(running_requests=running)
        ),
        "total": SimpleNamespace(drafts=drafts, decode_steps=100, decoded_tokens=300),
        "known": Knowledge(assumed=Assumptions(server="http://vllm-a:8000")),
        "estimated_speedup_ratio": 2.0,
        "speedup_bounds": SURE,
        "speedup_range": SpeedupRange(SURE, 1.9, 2.1),
        "speedup_ceiling_ratio": 3.0,
        "request": REQUEST,
        "effective_requests": 40.0,
        "break_even_cost_ratio": 0.25,
        "pays_share_ratio": 1.0,
        "drafting_requests": 8.0,
        "draft_length_tokens": 4.0,
        "counts_verified": True,
        "is_dead": False,
    }
    unknown = dict.fromkeys(("cost", "likely_share_ratio", "published_share"))
    return SimpleNamespace(**usual | unknown | figures)


def engine(verdict=Verdict.HEALTHY, *, newest=None, findings=(), known=None, **facts):
    """A snapshot whose evaluation says ``verdict`` over a whole longest window, unless ``facts`` say otherwise.

    The evaluated window says ``newest``, if that is another verdict.
    """
    usual = {
        "state": State.ACTIVE,
        "action": Action.KEEP,
        "verdict_window": covered(),
        "longest": covered(),
        "basis": Basis.LONGEST,
        "is_early": False,
        "is_advisable": True,
        "decision": Decision(),
    }
    unknown = {"since": None, "crossover": None, "missing": (), "depths": ()}
    knowledge = {"speculation": Speculation(), "policy": Policy(), "assumed": Assumptions(), "wall": AT}
    evaluation = SimpleNamespace(
        verdict=verdict,
        known=SimpleNamespace(**knowledge | {"faster_method": None} | (known or {})),
        **usual | unknown | facts,
    )
    evaluation.verdict_window.verdict = newest or verdict
    found = [SimpleNamespace(name=name, text=f"Text of {name}. What to do.") for name in findings]
    return SimpleNamespace(evaluation=evaluation, findings=found, tokens=8)


@pytest.mark.parametrize(
    ("verdict", "figures", "text"),
    [
        (Verdict.HEALTHY, {}, "Speculation pays: a request is 1.50 times as fast as without it (1.25 to 1.75); decoding 2.00 times."),
        (Verdict.HEALTHY, {"request": REQUEST._replace(bounds=None)}, "Speculation pays: decoding is 2.00 times as fast (1.80 to 2.20), a request 1.50 times with the same first token."),
        (Verdict.HEALTHY, {"request": None}, "Speculation pays: 2.00 times as fast as without it (1.80 to 2.20), decode only."),
        (Verdict.HEALTHY, {"request": None, "speedup_bounds": None, "effective_requests": 4.9}, "Speculation pays: 2.00 times as fast as without it (too few requests passed for bounds), decode only."),
        (Verdict.MARGINAL, {}, "Speculation pays a little: a request is 1.50 times as fast as without it (1.25 to 1.75); decoding 2.00 times."),
        (Verdict.MARGINAL, {"request": None, "estimated_speedup_ratio": 1.29}, "Speculation pays a little: 1.29 times as fast as without it (1.80 to 2.20), decode only."),
        (Verdict.HEALTHY, {"estimated_speedup_ratio": None}, "Speculation pays: a decode step gives 3.00 tokens, at an unknown cost of drafting."),
        (Verdict.HEALTHY, {"request": REQUEST._replace(value=1.16, basis=EndToEndBasis.BASELINE, bounds=Estimate(1.16, 0.86, 1.52, 0.1))}, "Speculation pays for decoding, and whole requests may be slower: a request is 1.16 times as fast as without it (0.86 to 1.52); decoding 2.00 times."),
        (Verdict.POOR, {"request": None, "estimated_speedup_ratio": 1.06, "speedup_bounds": Estimate(1.06, 1.01, 1.09, 0.1)}, "Speculation brings no worthwhile gain: 1.06 times as fast as without it (1.01 to 1.09), decode only."),
        (Verdict.POOR, {"request": None, "estimated_speedup_ratio": 0.72, "speedup_bounds": None, "effective_requests": 0.5}, "Speculation brings no worthwhile gain: 0.72 times as fast as without it (too few requests passed for bounds), decode only."),
        (Verdict.POOR, {"request": REQUEST._replace(value=0.8, basis=EndToEndBasis.BASELINE, bounds=Estimate(0.8, 0.7, 0.9, 0.1))}, "Speculation makes requests slower: a request is 0.80 times as fast as without it (0.70 to 0.90); decoding 2.00 times."),
    ],
)  # fmt: skip
def test_a_verdict_names_its_figure(verdict, figures, text):
    assert verdict_text(engine(verdict, verdict_window=covered(**figures))) == text


@pytest.mark.parametrize("state", [State.ACTIVE, State.IDLE, State.UNKNOWN, State.DISABLED])
@pytest.mark.parametrize("name", NO_VERDICT)
def test_a_finding_that_excludes_a_verdict_replaces_state_and_verdict(name, state):
    its = engine(
        Verdict.INSUFFICIENT, state=state, action=Action.COLLECT, findings=["low_first_position", name]
    )
    assert verdict_text(its) == f"Text of {name}. What to do."
    assert recommendation_text(its) == "No advice without a verdict."


def test_the_findings_that_exclude_a_verdict_exist():
    assert set(NO_VERDICT) <= set(NAMES)


@pytest.mark.parametrize(
    ("verdict", "newest", "text"),
    [
        (Verdict.HARMFUL, Verdict.HEALTHY, "Speculation makes decoding slower. Newer data differ, and become the verdict if they hold for 3 minutes: Speculation pays: a request is 1.50"),
        (Verdict.HEALTHY, Verdict.INSUFFICIENT, "Speculation pays. Newer data differ, and become the verdict if they hold for 3 minutes: Too little was drafted"),
        (Verdict.INSUFFICIENT, Verdict.HEALTHY, "Too little was drafted"),
        (Verdict.HEALTHY, Verdict.OPTIMAL, "Speculation pays. By newer data it pays very well: a request is 1.50"),
        (Verdict.OPTIMAL, Verdict.HEALTHY, "Speculation pays very well. By newer data it pays: a request is 1.50"),
    ],
)  # fmt: skip
def test_a_verdict_that_newer_data_contradict_says_so(verdict, newest, text):
    assert verdict_text(engine(verdict, newest=newest)).startswith(text)


TYPICAL = cost_between((0.02, 0.1, 0.6), (0.0, 0.0, 0.1), CostSource.TYPICAL)
MEASURED = cost_between((0.02, 0.1, 0.6), (0.0, 0.0, 0.1), CostSource.MEASURED, 4.0)
NEEDED = MissingEvidence(Evidence.SECONDS, 15.0, 6.0)


@pytest.mark.parametrize(
    ("pays", "bounds", "cost", "share", "text"),
    [
        (True, (1.4, 0.9, 2.1), TYPICAL, PublishedShare(87, 92), "Speculation probably pays. At 87 of 92 published costs of such drafters your acceptance would pay. Decoding is about 1.4 times as fast (0.9 to 2.1 at published costs). It pays if a draft token costs less than 0.25 of a decode step; it costs 0.02 to 0.6 here (typical of the method)."),
        (False, (0.9, 0.5, 1.2), None, PublishedShare(7, 122), "Speculation may pay or not. At 7 of 122 published costs of drafters of all kinds your acceptance would pay. It pays if a draft token costs less than 0.25 of a decode step; what it costs is unknown."),
        (False, (0.9, 0.5, 1.2), None, None, "Speculation may pay or not. It pays if a draft token costs less than 0.25 of a decode step; too few published what such drafters cost."),
        (False, (1.0, 0.6, 1.6), MEASURED, None, "Speculation may pay or not. Decoding is about 1.00 times as fast (0.6 to 1.6 by the range of its cost)."),
    ],
)  # fmt: skip
def test_an_unclear_verdict_says_what_is_likely_and_what_decides(pays, bounds, cost, share, text):
    speedup = SpeedupRange(Estimate(*bounds, 0.1), bounds[1], bounds[2])
    verdict_window = covered(probably_pays=pays, speedup_range=speedup, cost=cost, published_share=share)
    assert verdict_text(engine(Verdict.UNCLEAR, verdict_window=verdict_window)).startswith(text)


@every(state for state in State if state is not State.ACTIVE)
def test_a_state_without_drafts_replaces_the_verdict(state):
    texts = {verdict_text(engine(verdict, state=state)) for verdict in Verdict}
    assert len(texts) == 1
    assert "pays" not in texts.pop()


@pytest.mark.parametrize(
    ("action", "tokens", "text"),
    [
        (Action.KEEP, 8, "Keep drafting 8 tokens at a time."),
        (Action.INCREASE, 10, "Try 10 tokens instead of 8 (num_speculative_tokens)."),
        (Action.DECREASE, 1, "Try 1 token instead of 8 (num_speculative_tokens)."),
        (Action.DISABLE, 0, "Switch speculation off: no number of draft tokens is known to pay."),
        (Action.LIMIT_BATCH, None, "Speculate only while fewer than 40 requests run (num_speculative_tokens_per_batch_size)."),
        (Action.MEASURE_COST, None, "To know it: name the method, such as eagle3 or mtp: published costs of such drafters then say what is likely. It takes a minute; no slowdown. In the exporter's flags: `--speculative.method METHOD`."),
        (Action.SWITCH_METHOD, None, "Draft by the faster method of the other engine that serves this model."),
    ],
)  # fmt: skip
def test_advice_names_the_number_of_tokens_and_vllms_setting(action, tokens, text):
    decision = Decision(advice=Advice(action, tokens))
    assert recommendation_text(engine(action=action, decision=decision, crossover=40.2)) == text
    other = engine(
        action=action,
        decision=decision,
        crossover=40.2,
        known={"assumed": Assumptions(engine_kind="tensorrt_llm")},
    )
    if "(num_speculative_tokens)" in text:
        assert recommendation_text(other) == text.replace("num_speculative_tokens", "max_draft_len")
    if action is Action.LIMIT_BATCH:
        assert recommendation_text(other) == "Speculate only while fewer than 40 requests run."


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("eagle3", "Draft by eagle3, as arm `eagle` of experiment `drafter` does."),
        ("<b>`x`", "Draft by the method of arm `eagle` of experiment `drafter`."),
    ],
)
def test_advice_to_switch_names_the_method_and_the_arm_that_shows_it(method, text):
    faster = FasterMethod("drafter", "eagle", method, SURE, SURE)
    assert recommendation_text(engine(action=Action.SWITCH_METHOD, known={"faster_method": faster})) == text


SLOWER = REQUEST._replace(value=0.8, bounds=Estimate(0.8, 0.7, 0.9, 0.1))
DEPTHS = [Depth(tokens, 1.1, "measured", None) for tokens in (1, 2)]


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"verdict_window": covered(is_dead=True), "known": {"drafts_what_it_finds": True}}, "Switch speculation off: it finds almost nothing"),
        ({"verdict_window": covered(is_dead=True), "known": {"drafts_what_it_finds": False}}, "Switch speculation off: almost no draft token"),
        ({"verdict": Verdict.POOR, "verdict_window": covered(request=SLOWER)}, "Switch speculation off, or find out why requests are slower with it than before."),
        ({"depths": DEPTHS, "findings": ["cost_without_load"]}, "Switch speculation off, or configure the load of its cost (cost.running_requests)"),
    ],
    ids=["finds nothing", "dead", "slower requests", "a cost without load"],
)  # fmt: skip
def test_advice_to_switch_off_has_its_reason(facts, text):
    assert recommendation_text(engine(action=Action.DISABLE, **facts)).startswith(text)


@pytest.mark.parametrize("state", [*State])
@pytest.mark.parametrize("action", Action)
def test_every_advice_has_a_sentence(action, state):
    assert recommendation_text(engine(action=action, state=state)).endswith(".")


@pytest.mark.parametrize(
    ("speculation", "does"),
    [
        (Speculation(varies_tokens=True), "changes K itself"),
        (Speculation(is_adaptive=True), "chooses how many drafts it verifies"),
    ],
)
def test_an_engine_that_chooses_its_tokens_keeps_its_k(speculation, does):
    its = engine(action=Action.KEEP, known={"speculation": speculation})
    assert recommendation_text(its) == f"Keep it as it is: the engine {does}, and K needs no tuning."


COLLECTING = {"is_advisable": False, "action": Action.COLLECT}


@pytest.mark.parametrize(
    ("seconds", "facts", "ending", "advice"),
    [
        (34.0, {"is_early": True, **COLLECTING}, " (early, from 34 s).", "Advice about 14:17 UTC."),
        (60.0, {"basis": Basis.CHANGE, "since": AT}, ", since the change at 14:13:20 UTC (60 s).", "Keep drafting 8 tokens at a time."),
        (30.0, {"basis": Basis.SHORTER, **COLLECTING}, ", by the last 30 s, which contradict the longer window.", "No advice now: the last minutes contradict each other."),
    ],
    ids=["early", "since a change", "of a shorter window"],
)  # fmt: skip
def test_a_verdict_says_which_seconds_it_is_about(seconds, facts, ending, advice):
    its = engine(verdict_window=covered(seconds), **facts)
    assert verdict_text(its).endswith(ending)
    assert recommendation_text(its) == advice


@pytest.mark.parametrize(
    ("needs", "text"),
    [
        ([], "Too little was drafted, or too unevenly, to say whether speculation pays."),
        ([MissingEvidence(Evidence.SECONDS, 100.0, 84.0)], "Too early to say whether speculation pays: a verdict needs 100 s; 84 s seen."),
        ([MissingEvidence(Evidence.REQUESTS, 7, 3.2), MissingEvidence(Evidence.SECONDS, 150.0, 34.0)], "Too early to say whether speculation pays: a verdict needs 7 requests of equal length one after the other, or 150 s; 3.2 and 34 s seen."),
        ([MissingEvidence(Evidence.HALF_WIDTH, 0.25, 0.31)], "Too early to say whether speculation pays: the acceptance length is known to ±31.0 %, and a verdict needs ±25.0 %."),
        ([MissingEvidence(Evidence.HALF_WIDTH, 0.25, 0.03)], "Nothing says whether speculation pays: the server does not show how many tokens it drafts."),
        ([MissingEvidence(Evidence.LOWEST_SPEEDUP, 1.0, 0.594)], "Too early to say whether speculation pays: the lower bound of the speed-up is 0.59, and a verdict needs 1.00."),
    ],
)  # fmt: skip
def test_too_little_evidence_is_named(needs, text):
    assert verdict_text(engine(Verdict.INSUFFICIENT, missing=needs)) == text


@pytest.mark.parametrize(
    ("gained", "bounds", "is_tight", "text"),
    [
        (None, None, None, ""),
        (150.4, Estimate(150.4, 90.0, 1200.0, 0.0), False, "The drafter's 2.00 GB gain 150 tokens a second for each GB (90 to 1,200)."),
        (150.4, None, None, "The drafter's 2.00 GB gain 150 tokens a second for each GB."),
        (-20.0, Estimate(-20.0, -50.0, -3.0, 0.0), None, "The drafter's 2.00 GB lose 20 tokens a second for each GB (3 to 50)."),
        (-20.0, Estimate(-20.0, -50.0, 3.0, 0.0), None, "The drafter's 2.00 GB lose 20 tokens a second for each GB (a gain of -50 to 3)."),
        (-20.0, None, True, "The drafter's 2.00 GB lose 20 tokens a second for each GB. KV cache is scarce (31.0 % in use): as cache they could serve more requests."),
    ],
)  # fmt: skip
def test_the_return_on_memory_stands_beside_the_need_of_cache(gained, bounds, is_tight, text):
    known = SimpleNamespace(speculation=Speculation(draft_bytes=2e9), assumed=Assumptions())
    its = covered(memory_return=gained, memory_return_bounds=bounds, is_cache_tight=is_tight, known=known)
    its.window.mean.kv_cache_usage_ratio = 0.31
    assert memory_text(its) == text
    known.assumed = Assumptions(kv_cache=KvCache(262_144, "fp8"))
    assert (
        memory_text(its) == f"{text} Speculation leaves room for 262,144 tokens of KV cache (fp8).".lstrip()
    )
    known.assumed = Assumptions(kv_cache=KvCache(1000, "auto"))
    assert memory_text(its).endswith("Speculation leaves room for 1,000 tokens of KV cache.")


@pytest.mark.parametrize(
    ("pays", "cost", "is_bounded", "says"),
    [
        (True, None, True, "speculation probably pays. At 9 of 10 published costs of drafters of all kinds your acceptance would pay."),
        (False, TYPICAL, True, "speculation may pay or not. At 9 of 10 published costs of such drafters your acceptance would pay."),
        (True, MEASURED, True, "speculation probably pays: about 2.0 times as fast (1.8 to 2.2, by few data and the range of its cost)."),
        (True, MEASURED, False, "speculation probably pays: about 2.0 times as fast (1.9 to 2.1, by the range of its cost)."),
    ],
)  # fmt: skip
def test_before_a_verdict_it_says_what_is_likely_and_what_is_missing(pays, cost, is_bounded, says):
    share = None if cost is MEASURED else PublishedShare(9, 10)
    its = covered(
        likely_share_ratio=0.9, probably_pays=pays, cost=cost, published_share=share,
        speedup_range=SpeedupRange(SURE, 1.9, 2.1, is_bounded),
    )  # fmt: skip
    text = verdict_text(engine(Verdict.INSUFFICIENT, verdict_window=its, missing=[NEEDED]))
    assert text == f"So far {says} Too early to be sure: a verdict needs 15 s; 6 s seen."


@pytest.mark.parametrize("name", ["sudden_drop", "drafting_drop"])
def test_a_present_drop_without_enough_data_since_comes_first(name):
    needs = [MissingEvidence(Evidence.REQUESTS, 7, 3.2)]
    since = engine(Verdict.INSUFFICIENT, missing=needs, findings=(name,), basis=Basis.CHANGE, since=AT - 34)
    assert verdict_text(since) == (
        f"Text of {name}. Too early to say whether speculation pays since 14:12:46 UTC: a verdict needs 7 requests "
        "of equal length one after the other; 3.2 seen."
    )


@pytest.mark.parametrize(
    ("running", "drafts", "text"),
    [
        (9.0, 0, "Its schedule drafts nothing from 8 running requests, and 9.0 run."),
        (None, 0, "Too little was drafted"),
        (9.0, 5, "Too little was drafted"),
    ],
)
def test_a_schedule_that_drafts_nothing_at_the_present_load_is_named(running, drafts, text):
    longest = covered(running=running, drafts=drafts)
    silent = engine(Verdict.INSUFFICIENT, longest=longest, known={"speculation": SCHEDULED})
    assert verdict_text(silent).startswith(text)
