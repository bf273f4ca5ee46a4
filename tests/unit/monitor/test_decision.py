"""Decision and setting that are shown, by offers of a moved clock."""

from unittest.mock import Mock

import pytest

from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting
from spec_decode_exporter.analysis.verdict import NOT_PAYING, PAYING, Action, Advice, Decision, Verdict
from spec_decode_exporter.monitor.decision import STAYED_SECONDS, DecisionMonitor, ShownDecision


def decision(verdict, action=Action.COLLECT, tokens=None):
    return Decision(Verdict(verdict), Advice(Action(action), tokens))


NOTHING, KEEP, BAD = Decision(), decision("healthy", "keep", 4), decision("harmful", "disable", 0)
EARLY, WORSE = decision("healthy"), decision("harmful")


class Offers:
    def __init__(self, first):
        self.held, self.now = ShownDecision(), 0.0
        self.held.offer(first, 0.0)

    def offer(self, one, later=1.0, **more):
        self.now += later
        return self.held.offer(one, self.now, **more)


class TestDecision:
    @pytest.mark.parametrize(
        ("shown", "offered"),
        [
            (NOTHING, EARLY),
            (NOTHING, BAD),
            (EARLY, KEEP),
            (EARLY, decision("optimal", "increase", 6)),
            (WORSE, BAD),
            (WORSE, decision("poor", "keep", 4)),
            *(
                (decision(paying, "keep", 4), decision(bad))
                for paying in PAYING
                for bad in ("unclear", *NOT_PAYING)
            ),
        ],
    )
    def test_the_first_advice_and_bad_news_are_shown_at_once(self, shown, offered):
        assert Offers(shown).offer(offered) == offered

    @pytest.mark.parametrize(
        ("shown", "offered"),
        [
            (KEEP, decision("healthy", "keep", 5)),
            (KEEP, decision("healthy", "increase", 6)),
            (KEEP, decision("marginal", "keep", 4)),
            (KEEP, EARLY),
            (KEEP, NOTHING),
            (BAD, KEEP),
            (WORSE, KEEP),
            (WORSE, EARLY),
            (decision("poor", "keep", 4), BAD),
            (decision("unclear", "measure_cost"), BAD),
        ],
    )
    def test_another_one_is_shown_once_it_was_offered_for_three_minutes(self, shown, offered):
        its = Offers(shown)
        assert its.offer(offered) == shown
        assert its.offer(offered, STAYED_SECONDS - 1) == shown
        assert its.offer(offered, 1.0) == offered

    def test_doubt_alone_replaces_pays_after_a_minute_without_it(self):
        its, doubt = Offers(KEEP), decision("unclear")
        for one, later in (*((doubt, 59.0), (KEEP, 1.0)) * 2, (doubt, 59.0)):
            assert its.offer(one, later, is_likely=True) == KEEP
        assert its.offer(doubt, 1.0, is_likely=True) == doubt
        assert Offers(KEEP).offer(decision("poor"), 1.0, is_likely=True) == decision("poor"), "at once"

    def test_an_unclear_verdict_ends_once_all_grades_pay_for_three_minutes(self):
        unclear, grades = decision("unclear", "keep", 4), (decision("marginal", "keep", 4), KEEP)
        its = Offers(unclear)
        for one in (*grades, unclear, *grades):
            assert its.offer(one, 60.0) == unclear
        assert its.offer(grades[0], STAYED_SECONDS - 61.0) == unclear
        assert its.offer(KEEP, 1.0) == KEEP

    def test_an_unclear_verdict_before_the_first_advice_yields_at_once(self):
        early, pays = decision("unclear", "collect"), decision("marginal", "collect")
        its = Offers(early)
        assert its.offer(pays, 1.0) == pays
        assert its.offer(KEEP, 1.0) == KEEP
        for one in (decision("poor"), early):
            its.offer(one, 1.0)
        assert its.offer(KEEP, 1.0) != KEEP, "after an advice it must last"
        its.held.reset()
        assert (its.offer(early, 1.0), its.offer(pays, 1.0)) == (early, pays)

    def test_an_interruption_starts_the_three_minutes_again(self):
        its = Offers(KEEP)
        for one, later, expected in (
            (NOTHING, 1.0, KEEP),
            (KEEP, 100.0, KEEP),
            (NOTHING, 1.0, KEEP),
            (NOTHING, 179.0, KEEP),
            (NOTHING, 1.0, NOTHING),
        ):
            assert its.offer(one, later) == expected

    def test_one_that_is_absent_for_six_minutes_is_replaced_by_the_newest(self):
        its, others = Offers(BAD), (KEEP, decision("optimal", "keep", 4))
        seen = [its.offer(others[n % 2], 10.0) for n in range(36)]
        assert seen == [BAD] * 35 + [others[1]]

    def test_the_next_one_after_a_reset_is_shown_at_once(self):
        its = Offers(BAD)
        its.held.reset()
        assert its.offer(KEEP) == KEEP

    @pytest.mark.parametrize("offered", [KEEP, EARLY, NOTHING, decision("unclear")])
    def test_none_says_that_it_pays_during_a_drop_that_excludes_it(self, offered):
        its = Offers(KEEP)
        assert its.offer(offered, may_pay=False).verdict not in PAYING
        assert its.offer(KEEP, may_pay=False).verdict not in PAYING


class TestSetting:
    """Settings of K whose speed-ups by load differ each time."""

    @pytest.mark.parametrize(("longest", "computed"), [(30.0, 3), (300.0, 3), (600.0, 2)])
    def test_is_computed_each_five_minutes_or_each_longest_window(self, longest, computed):
        monitor = DecisionMonitor()
        compute = Mock(side_effect=[SpeculationSetting(4, known=(1.0, float(n))) for n in range(1, 9)])
        for now in range(1000, 1900, 10):
            assert monitor.show_setting(compute, 0, float(now), longest).tokens == 4
        assert compute.call_count == computed

    @pytest.mark.parametrize("longest", [300.0, 3600.0])
    def test_changes_once_two_disjoint_windows_agree(self, longest):
        monitor, shown = DecisionMonitor(), []
        for n, tokens in enumerate((4, 6, 4, 6, 5, 5, 5)):
            compute = Mock(return_value=SpeculationSetting(tokens, known=(1.0, float(n))))
            shown.append(monitor.show_setting(compute, 0, longest * n, longest).tokens)
        assert shown == [4, 4, 4, 4, 4, 5, 5]

    def test_of_other_advice_is_shown_at_once(self):
        monitor, shown = DecisionMonitor(), []
        for now, tokens, basis in ((0.0, 4, 0), (1.0, 6, 1), (2.0, 4, 1)):
            compute = Mock(return_value=SpeculationSetting(tokens, known=(1.0, now)))
            shown.append(monitor.show_setting(compute, basis, now, 300.0).tokens)
        assert shown == [4, 6, 6]
