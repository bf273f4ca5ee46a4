from spec_decode_exporter.config.policy import Policy, merged


def test_a_target_overrides_the_general_policy_key_by_key_at_any_depth():
    general = Policy.model_validate({"min_drafts": 7, "speedup": {"poor": 1.2, "marginal": 1.4}})
    own = Policy.model_validate({"min_drafts": 9, "speedup": {"poor": 1.05}, "drops": {"ratio": 0.3}})
    whole = merged(own, general)
    assert whole.min_drafts == 9
    assert (whole.speedup.poor, whole.speedup.marginal, whole.speedup.healthy) == (1.05, 1.4, 2.0)
    assert (whole.drops.ratio, whole.drops.false_alarm_period) == (0.3, 7 * 86_400.0)
    assert whole.findings == Policy().findings
    # Back to a default that the general policy overrides.
    general = Policy.model_validate({"speedup": {"healthy": 3.0}})
    assert merged(Policy.model_validate({"speedup": {"healthy": 2.0}}), general).speedup.healthy == 2.0
