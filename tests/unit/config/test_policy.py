from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.load import active_yaml
from spec_decode_exporter.config.policy import Policy, merged, misordered

ASCENDING = ("harmful", "poor", "marginal", "healthy")


def test_the_defaults_are_in_order():
    assert list(misordered(Policy(), Policy())) == []
    values = [getattr(Policy().speedup, key) for key in ASCENDING]
    assert values == sorted(values)


def test_without_a_policy_of_its_own_a_target_has_the_general_one():
    general = Policy(min_drafts=7)
    assert merged(None, general) is general


def test_a_target_overrides_the_general_policy_key_by_key_at_any_depth():
    general = Policy.model_validate({"min_drafts": 7, "speedup": {"poor": 1.2, "marginal": 1.4}})
    own = Policy.model_validate({"min_drafts": 9, "speedup": {"poor": 1.05}, "drops": {"ratio": 0.3}})
    whole = merged(own, general)
    assert whole.min_drafts == 9
    assert (whole.speedup.poor, whole.speedup.marginal, whole.speedup.healthy) == (1.05, 1.4, 2.0)
    assert (whole.drops.ratio, whole.drops.false_alarm_period) == (0.3, 7 * 86_400.0)
    assert whole.findings == Policy().findings


def test_a_target_can_return_to_a_default_that_the_general_policy_overrides():
    general = Policy.model_validate({"speedup": {"healthy": 3.0}})
    assert merged(Policy.model_validate({"speedup": {"healthy": 2.0}}), general).speedup.healthy == 2.0
    assert merged(Policy.model_validate({"speedup": {}}), general).speedup.healthy == 3.0


policies = st.fixed_dictionaries(
    {},
    optional={
        "min_drafts": st.integers(1, 1000),
        "speedup": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("harmful", "poor", "marginal", "healthy"), st.floats(0, 5))
        ),
    },
).map(Policy.model_validate)


@given(policies, policies)
def test_merging_again_changes_nothing(own, general):
    whole = merged(own, general)
    assert merged(whole, general) == whole
    assert merged(own, whole) == whole


@given(policies, policies)
def test_invalid_thresholds_are_reported_at_their_key(own, general):
    whole = merged(own, general)
    reported = list(misordered(own, whole))
    broken = [
        pair
        for pair in pairwise(ASCENDING)
        if getattr(whole.speedup, pair[0]) > getattr(whole.speedup, pair[1])
    ]
    blameless = not list(misordered(general, general))
    assert bool(reported) == bool(broken) or not blameless
    for (section, key), _ in reported:
        assert key in getattr(own, section).model_fields_set


@pytest.mark.parametrize(
    ("policy", "reported"),
    [
        ("{speedup: {poor: 0.9}}", "2: policy.speedup.poor is less than `harmful`, 1; raise it, or lower `harmful`"),
        ("{speedup: {poor: 1.5}}", "2: policy.speedup.poor is more than `marginal`, 1.3; lower it, or raise `marginal`"),
        ("{speedup: {marginal: 2, healthy: 1.5}}", "2: policy.speedup.healthy is less than `marginal`, 2; raise it, or lower `marginal`"),
        ("{acceptance: {poor_ratio: 0.4}}", "2: policy.acceptance is not a known key here; there are `min_drafts`, `speedup`, `depth`, `findings`, `drops`"),
        ("{depth: {tolerance: 1}}", "2: policy.depth.tolerance must be less than 1"),
        ("{findings: {tail_ratio: 0.5}}", "2: policy.findings.tail_ratio is not a known key here; there are `low_first_position`, `wasted_last_position`"),
        ("{findings: {low_first_position: nan}}", "2: policy.findings.low_first_position must be at most 1"),
        ("{drops: {ratio: 0}}", "2: policy.drops.ratio must be more than 0"),
        ("{drops: {ratio: 1}}", "2: policy.drops.ratio must be less than 1"),
        ("{drops: {false_alarm_period: 60}}", "2: policy.drops.false_alarm_period is not a duration; write a number with its unit, such as 500ms, 30s, 5m or 1h30m"),
        ("{min_drafts: 0}", "2: policy.min_drafts must be at least 1"),
        ("{speed_up: {}}", "2: policy.speed_up is not a known key here; did you mean `speedup`?"),
    ],
)  # fmt: skip
def test_thresholds_that_contradict_each_other_are_rejected(mistakes, policy, reported):
    assert mistakes(f"log: {{}}\npolicy: {policy}") == [reported]


def test_a_targets_thresholds_are_checked_together_with_the_general_ones(mistakes):
    text = """\
        policy: {speedup: {marginal: 1.5}}
        targets:
          - url: http://a
            policy: {speedup: {poor: 1.4}}
          - url: http://b
            policy:
              speedup:
                poor: 1.6
                healthy: 1.4
          - url: http://c
    """
    assert mistakes(text) == [
        "8: targets[1].policy.speedup.poor is more than `marginal`, 1.5; lower it, or raise `marginal`",
        "9: targets[1].policy.speedup.healthy is less than `marginal`, 1.5; raise it, or lower `marginal`",
    ]


def test_a_contradiction_of_the_defaults_alone_is_no_mistake_of_a_target(read):
    text = "policy: {speedup: {harmful: 0.5, poor: 0.6}}\ntargets: [{url: http://a, policy: {speedup: {poor: 0.7}}}]"
    [target] = read(text).targets
    assert target.policy.speedup.poor == 0.7


def test_only_the_keys_that_a_target_sets_are_shown_of_its_policy(read):
    config = read(
        "policy: {min_drafts: 5}\ntargets: [{url: http://a, policy: {drops: {false_alarm_period: 2d}}}, {url: http://b}]"
    )
    shown = active_yaml(config)
    assert shown.count("false_alarm_period") == 2
    assert shown.count("min_drafts") == 1
    assert shown.count("false_alarm_period: 2d") == 1
    assert read(shown) == config


def test_an_invalid_general_policy_is_reported_once(mistakes):
    text = "policy: {speedup: {poor: 0.9}}\ntargets: [{url: http://a, policy: {min_drafts: 5}}]"
    assert len(mistakes(text)) == 1
