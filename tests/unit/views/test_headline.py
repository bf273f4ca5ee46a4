"""Headline: what is the matter and what to do, in each state of an engine and of a fleet; and the time saved."""

from math import inf
from types import SimpleNamespace

import pytest

from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.verdict import PAYING, Action, SpeedupRange, State, Verdict
from spec_decode_exporter.analysis.window_evaluation import probably_pays
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.costs.published import PublishedShare
from spec_decode_exporter.costs.time_saved import DAY_SECONDS, DayTime, DecodeTime
from spec_decode_exporter.drops.sums import DropKind, DropStatus, LiveDrop
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.headline import (
    countdown,
    engine_headline,
    finding_text,
    headline,
    no_speculation,
    time_saved,
)
from spec_decode_exporter.window.poll import Check

MIDNIGHT = 20_718 * DAY_SECONDS
NOW = MIDNIGHT + 14 * 3600.0 + 30 * 60
SUDDEN = SimpleNamespace(
    name="sudden_drop", text="Acceptance dropped at 14:03:00 UTC: it was 2.50 tokens. Look for a change."
)
PREFILL = SimpleNamespace(name="decodes_nothing", text="It decodes nothing. Watch the decode servers.")
MIXED = SimpleNamespace(name="broken_one_server", text="Several servers answer. Name each server.")
STALLED = SimpleNamespace(name="stalled", text="The engine drafted before. Read the server's log.")


def engine(standing=Verdict.HEALTHY, *, findings=(), share=None, name="chat", today=None, live=None, **known):
    """An engine that counts as ``standing``; its texts name it."""
    is_verdict = isinstance(standing, Verdict)
    verdict = standing if is_verdict else Verdict.INSUFFICIENT
    covered = SimpleNamespace(
        window=SimpleNamespace(seconds=300.0, length=300.0), cost=None, likely_share_ratio=share,
        speedup_range=SpeedupRange(Estimate(1.4, 0.9, 2.1, 0.0), 0.9, 2.1),
        probably_pays=probably_pays(share), published_share=PublishedShare(87, 92),
    )  # fmt: skip
    usual = {"action": Action.KEEP, "is_excluded": False, "seconds_to_verdict": None, "basis": Basis.LONGEST}
    windows = {"verdict": verdict, "verdict_window": covered, "longest": covered}
    knowledge = SimpleNamespace(wall=NOW, policy=Policy())
    evaluation = SimpleNamespace(known=knowledge, **windows, **usual | known)
    labels = {"target": name, "model_name": "llama", "engine": "0"}
    snapshot = SimpleNamespace(evaluation=evaluation, today=today or DayTime())
    facts = {
        "state": State.ACTIVE if is_verdict else standing,
        "verdict": verdict,
        "verdict_text": f"Text of {standing}.",
        "recommendation": evaluation.action,
        "recommendation_text": f"Advice of {standing}.",
        "findings": findings,
        "drops": DropStatus(dropped={DropKind.SUDDEN: SUDDEN in findings}, live=live or {}),
        "broken_checks": (Check.ONE_SERVER,) * (MIXED in findings),
    }
    return EngineView.model_construct(labels=labels, snapshot=snapshot).model_copy(update=facts)


def target(up=True, *, name="chat", error="", remedy="", engines=1, failed=0, **server):
    facts = {"engine_kind": "vllm", "version": "0.32.0", "front_end": "python", **server}
    polls = {"polls": 10, "poll_failures": {"refused": failed}}
    return SimpleNamespace(
        target=name, up=up, error=error, remedy=remedy, engines_on_page=engines, **polls, **facts
    )


@pytest.fixture(autouse=True)
def _ways(monkeypatch):
    monkeypatch.setattr("spec_decode_exporter.views.headline.know_text", lambda its: "How to know.")


DOWN = target(False, error="refused: no answer", remedy="start the server", engines=None)


@pytest.mark.parametrize(
    ("engine", "tone", "short", "matter", "remedy"),
    [
        (engine(), "good", "Speculation pays", "Text of healthy.", "Advice of healthy."),
        (engine(Verdict.HARMFUL), "bad", "Speculation makes decoding slower", "Text of harmful.", "Advice of harmful."),
        (engine(Verdict.MARGINAL), "good", "Speculation pays a little", "Text of marginal.", "Advice of marginal."),
        (engine(Verdict.UNCLEAR, share=0.9), "unsure", "Speculation probably pays", "Text of unclear.", "How to know."),
        (engine(Verdict.UNCLEAR, share=0.15), "unsure", "Unclear whether speculation pays", "Text of unclear.", "How to know."),
        (engine(Verdict.UNCLEAR, action=Action.DISABLE), "unsure", "Unclear whether speculation pays", "Text of unclear.", "Advice of unclear."),
        (engine(Verdict.UNCLEAR, share=0.5), "unsure", "Unclear whether speculation pays", "Text of unclear.", "How to know."),
        (engine(Verdict.INSUFFICIENT, seconds_to_verdict=12.0), "waiting", "Too early to say", "Too early to say whether speculation pays.", "Verdict in 12 s."),
        (engine(Verdict.INSUFFICIENT, share=0.95, seconds_to_verdict=12.0), "waiting", "Too early to say", "So far speculation probably pays. At 87 of 92 published costs of drafters of all kinds your acceptance would pay.", "Verdict in 12 s."),
        (engine(State.STALLED, findings=(STALLED,)), "bad", "Drafting stalled", "The engine drafted before.", "Read the server's log."),
        (engine(State.IDLE, findings=(PREFILL,)), "unsure", "It decodes nothing", "It decodes nothing.", "Watch the decode servers."),
        (engine(State.DISABLED, findings=(PREFILL,)), "unsure", "It decodes nothing", "It decodes nothing.", "Watch the decode servers."),
        (engine(Verdict.INSUFFICIENT, findings=(PREFILL,), seconds_to_verdict=12.0), "unsure", "It decodes nothing", "It decodes nothing.", "Watch the decode servers."),
        (engine(Verdict.HEALTHY, findings=(MIXED, SUDDEN)), "unsure", "Several servers answer", "Several servers answer.", "Name each server."),
        (engine(State.IDLE), "waiting", "Waiting for requests", "Text of idle.", "Send requests: the first bounds take 15 s of traffic."),
        (engine(State.UNREACHABLE), "bad", "Unreachable", "Text of unreachable.", "Look whether the server runs, and whether its page still names this model."),
        (engine(State.DISABLED), "off", "No speculation here", "No speculation here.", "Its page shows no drafts, so speculation is off: start vLLM with `--speculative-config`."),
    ],
)  # fmt: skip
def test_an_engine_says_what_is_the_matter_and_what_to_do(engine, tone, short, matter, remedy):
    assert engine_headline(engine, NOW) == (tone, short, matter, remedy)
    assert headline([engine], [], NOW) == engine_headline(engine, NOW)


@pytest.mark.parametrize(
    ("engine", "repeated"),
    [
        (engine(), ""),
        (engine(State.IDLE), ""),
        (engine(State.STALLED, findings=(STALLED,)), STALLED.text),
        (engine(Verdict.HEALTHY, findings=(SUDDEN,)), SUDDEN.text),
        (engine(State.IDLE, findings=(PREFILL,)), PREFILL.text),
        (engine(Verdict.HEALTHY, findings=(MIXED, SUDDEN)), MIXED.text),
    ],
)
def test_a_headline_repeats_the_finding_that_it_is_about_and_no_other(engine, repeated):
    assert finding_text(engine) == repeated
    assert engine_headline(engine, NOW).matter.startswith(repeated.partition(". ")[0])


def test_an_engine_of_a_target_that_is_down_names_the_error_and_the_remedy():
    its = engine_headline(engine(State.UNREACHABLE), NOW, DOWN)
    assert its == ("bad", "chat is down", "chat is down.", "no answer; start the server.")


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("excluded", [False, True])
def test_a_drop_comes_first_and_never_says_that_it_pays_if_the_newest_data_exclude_it(verdict, excluded):
    its = engine_headline(engine(verdict, findings=(SUDDEN,), is_excluded=excluded), NOW)
    assert (its.tone, its.short, its.remedy) == ("bad", "Acceptance dropped", "Look for a change.")
    says = its.matter.removeprefix("Acceptance dropped at 14:03:00 UTC: it was 2.50 tokens.")
    assert bool(says) is (verdict is not Verdict.INSUFFICIENT and not (excluded and verdict in PAYING))


@pytest.mark.parametrize(
    ("length", "says"), [(1.4, "pays now."), (2.45, "It has recovered: the drop ends once that lasts.")]
)
def test_a_drop_that_has_recovered_says_that_it_ends(length, says):
    live = {DropKind.SUDDEN: LiveDrop(2.5, length, 60.0)}
    assert engine_headline(engine(findings=(SUDDEN,), live=live), NOW).matter.endswith(says)


@pytest.mark.parametrize(
    ("waits", "text"),
    [
        (None, ""),
        (12.0, "Verdict in 12 s."),
        (130.0, "Verdict in 2 min."),
        (inf, "At this rate too few requests pass for a verdict: send more."),
    ],
)
def test_a_countdown_says_when_the_verdict_comes(waits, text):
    assert countdown(engine(Verdict.INSUFFICIENT, seconds_to_verdict=waits), NOW) == text


@pytest.mark.parametrize(
    ("server", "part"),
    [
        ({}, "start vLLM with `--speculative-config`"),
        ({"version": "0.8.4"}, "vLLM 0.8.4 has no counters of drafts: update it to 0.8.5"),
        ({"front_end": "ray"}, "`speculative_config` in `engine_kwargs` of the `LLMConfig`"),
        ({"front_end": "rust"}, "decoded without a single draft"),
        ({"engine_kind": "llamacpp", "version": "1"}, "`--model-draft`"),
        ({"engine_kind": "sglang"}, "start SGLang with `--speculative-algorithm`."),
    ],
)
def test_no_speculation_names_its_case_and_the_flag(server, part):
    assert part in no_speculation(target(**server))


@pytest.mark.parametrize(
    ("targets", "tone", "matter", "remedy"),
    [
        ([], "off", "No target is known yet.", "Name a server: `spec-decode-exporter --target http://HOST:8000/metrics`."),
        ([target(None, engines=None)], "waiting", "The first poll has no answer yet.", ""),
        ([DOWN], "bad", "chat is down.", "no answer; start the server."),
        ([target(engines=0, remedy="it is Ray's")], "bad", "chat has no engine.", "No inference engine on this page; it is Ray's."),
    ],
)  # fmt: skip
def test_a_fleet_without_an_engine_says_why(targets, tone, matter, remedy):
    its = headline([], targets, NOW)
    assert (its.tone, its.matter, its.remedy) == (tone, matter, remedy)
    assert its.short


PROBABLY = engine(Verdict.UNCLEAR, share=0.9)
EARLY, UNCLEAR = engine(Verdict.INSUFFICIENT), engine(Verdict.UNCLEAR, share=0.5)


@pytest.mark.parametrize(
    ("engines", "tone", "matter", "remedy"),
    [
        ([engine()] * 3, "good", "Speculation pays on all 3 engines.", ""),
        ([engine(), engine(action=Action.INCREASE)], "good", "Speculation pays on both engines.", "Another number of draft tokens is faster on 1 engine: see the table."),
        ([engine(), engine(), engine(Verdict.HARMFUL, name="code")], "bad", "Speculation pays on 2 of 3 engines, makes decoding slower on 1.", "llama on code, engine 0: Text of harmful. Advice of harmful."),
        ([engine(), engine(Verdict.POOR)], "unsure", "Speculation pays on 1 of 2 engines, brings no worthwhile gain on 1.", "Advice of poor."),
        ([engine(), PROBABLY, UNCLEAR, EARLY], "unsure", "Speculation pays on 1 of 4 engines, probably pays on 1, unclear on 1, too early to say on 1.", "Below: how to find out, cheapest first."),
        ([engine(Verdict.INSUFFICIENT, share=0.95), EARLY], "waiting", "Speculation probably pays on 1 of 2 engines, too early to say on 1.", "Advice of insufficient."),
        ([engine(), engine(), UNCLEAR, engine(State.IDLE)], "good", "Speculation pays on 2 of 3 engines that draft, unclear on 1.", "Below: how to find out, cheapest first."),
        ([EARLY, EARLY], "waiting", "Too early to say on both engines.", "Advice of insufficient."),
        ([engine(Verdict.INSUFFICIENT, findings=(PREFILL,)), engine(State.IDLE)], "unsure", "Too early to say on the only engine that drafts.", "llama on chat, engine 0: It decodes nothing. Watch the decode servers."),
        ([engine(Verdict.HARMFUL), engine(State.UNKNOWN, findings=(MIXED,), name="r")], "unsure", "Speculation makes decoding slower on the only engine that drafts.", "llama on r, engine 0: Several servers answer. Name each server."),
        ([engine(State.IDLE), engine(State.DISABLED)], "waiting", "No engine drafts now.", "Send requests: the first bounds take 15 s of traffic."),
        ([engine(State.DISABLED)] * 2, "off", "No engine speculates.", "llama on chat, engine 0: Its page shows no drafts, so speculation is off: start vLLM with `--speculative-config`."),
        ([engine(), engine(findings=(SUDDEN,), name="code")], "bad", "Acceptance dropped on 1 engine. Speculation pays on both engines.", "llama on code, engine 0: Acceptance dropped at 14:03:00 UTC: it was 2.50 tokens. Speculation pays now. Look for a change."),
        ([engine(), engine(State.STALLED, findings=(STALLED,)), engine(State.UNREACHABLE)], "bad", "Drafting stalled on 1 engine, 1 engine is unreachable (chat). Speculation pays on the only engine that drafts.", "llama on chat, engine 0: The engine drafted before. Read the server's log."),
    ],
)  # fmt: skip
def test_a_fleet_says_what_is_the_matter_and_what_to_do_about_the_worst(engines, tone, matter, remedy):
    its = headline(engines, [target()], NOW)
    assert (its.tone, its.matter, its.remedy) == (tone, matter, remedy)


def day(actual, plain, lower, upper, since=MIDNIGHT, verdict=Verdict.HEALTHY):
    return engine(verdict, today=DayTime(since, DecodeTime(actual, plain, lower, upper)))


@pytest.mark.parametrize(
    ("engines", "text"),
    [
        ([day(3600, 14_760, 12_960, 16_200)] * 2, "saved today, summed over all requests: 6.2 h (5.2 to 7.0 h)."),
        ([day(60, 70, 50, 90)], "saved today, summed over all requests: 0.2 min (0.2 min lost to 0.5 min saved)."),
        ([day(60, 70, 65, 90, NOW - 3600)], "saved since 13:30 UTC, summed over all requests: 0.2 min (0.1 to 0.5 min)."),
        ([day(60, 50, 40, 55, verdict=Verdict.HARMFUL)], "lost today, summed over all requests: 0.2 min (0.1 to 0.3 min)."),
        # A sum of earlier hours that the verdict contradicts is not shown.
        ([day(60, 50, 40, 55)], ""),
        ([day(60, 70, 65, 90, verdict=Verdict.HARMFUL)], ""),
        ([day(60, 70, 65, 90, MIDNIGHT - 60)], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_time_saved_is_the_sum_of_the_engines_of_this_day(engines, text):
    assert time_saved(engines, NOW) == (f"Decode time {text}" if text else "")
