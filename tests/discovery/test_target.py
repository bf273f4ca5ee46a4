from __future__ import annotations

from spec_decode_exporter.config.schema import Config, HeaderValues, HttpSettings, TargetSettings
from spec_decode_exporter.discovery.target import Target, address, static_targets


def test_a_target_is_the_same_while_its_name_and_address_are():
    target = Target("http://a:1/metrics", "a")
    assert target.key == Target("http://a:1/metrics", "a", (("x", "y"),)).key == ("a", "http://a:1/metrics")
    assert target.http == HttpSettings()


def test_an_address_never_holds_the_user():
    assert address("https://user:hunter2@a/metrics?key=hunter2") == "a:443"


def test_without_configuration_vllm_on_this_host_is_the_target():
    assert static_targets(Config()) == (Target("http://localhost:8000/metrics", "localhost:8000"),)


def test_a_target_has_its_name_labels_and_keys():
    headers = {"X-A": HeaderValues(values=("b",))}
    settings = TargetSettings(
        url="http://a:1", name="chat", labels={"z": "1", "b": "2"}, http_headers=headers
    )
    [target] = static_targets(Config(targets=(settings,)))
    assert target == Target(
        "http://a:1/metrics", "chat", (("b", "2"), ("z", "1")), HttpSettings(http_headers=headers), "static"
    )


def test_a_target_can_have_speculation_and_cost_settings():
    settings = TargetSettings(url="http://a", speculative={"method": "mtp"}, cost={"draft_cost_ratio": 0.1})
    [target] = static_targets(Config(targets=(settings,), cost={"draft_cost_ratio": 0.3}))
    assert (target.speculative, target.cost) == (settings.speculative, settings.cost)


def test_a_targets_policy_takes_precedence_over_the_general_one():
    own = TargetSettings(url="http://a", policy={"min_drafts": 5, "speedup": {"poor": 1.05}})
    config = Config(
        targets=(own, TargetSettings(url="http://b")),
        policy={"max_half_width": 0.1, "speedup": {"marginal": 1.5}},
    )
    first, second = static_targets(config)
    assert second.policy is None
    assert (first.policy.min_drafts, first.policy.max_half_width) == (5, 0.1)
    assert (first.policy.speedup.poor, first.policy.speedup.marginal) == (1.05, 1.5)


def test_a_threshold_that_is_now_the_targets_own_makes_it_another_target():
    general = {"speedup": {"healthy": 3.0}}
    said = TargetSettings(url="http://a", policy={"speedup": {"healthy": 2.0}})
    unsaid = TargetSettings(url="http://a", policy={})
    assert said == unsaid
    assert static_targets(Config(targets=(said,), policy=general)) != static_targets(
        Config(targets=(unsaid,), policy=general)
    )


def test_targets_with_different_settings_are_different_set_members():
    costs = [{"draft_cost_ratio": 0.1}, {"draft_cost_ratio": 0.2}, {"draft_cost_ratio": 0.1}]
    targets = {
        static_targets(Config(targets=(TargetSettings(url="http://a", cost=cost, policy={}),)))
        for cost in costs
    }
    assert len(targets) == 2
