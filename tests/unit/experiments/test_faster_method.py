"""Another method that is faster, as an experiment shows."""

from __future__ import annotations

import pytest

from spec_decode_exporter.experiments.experiment import arm_of, compare
from spec_decode_exporter.experiments.faster_method import FasterMethod, faster_method
from spec_decode_exporter.config.experiment_settings import ExperimentSettings
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter
from tests.fixtures.arms import EAGLE, NANO, NOW, PLAIN, SETTINGS, member, times, window_of


class TestFasterMethod:
    PLAIN_ENGINE = member("off", window_of(PLAIN))
    EAGLE_ENGINE = member("eagle", window_of(EAGLE))
    NGRAM = EAGLE | {"decode_nanoseconds": 8 * NANO, "end_to_end_nanoseconds": 8_800_000_000}

    def faster_of(self, engine, *others):
        experiment = compare(SETTINGS, (engine, *others), (300.0,), NOW)
        return faster_method(experiment, arm_of(SETTINGS, engine), engine)

    def test_a_faster_method_for_the_same_model_is_one(self):
        ngram = member("ngram", window_of(self.NGRAM))
        found = self.faster_of(ngram, self.PLAIN_ENGINE, self.EAGLE_ENGINE)
        assert isinstance(found, FasterMethod)
        assert (found.experiment, found.arm, found.method) == ("drafter", "eagle", "eagle")
        assert found.speedup.value == pytest.approx(2.0)
        assert found.own.value == pytest.approx(1.5)
        assert self.faster_of(self.EAGLE_ENGINE, self.PLAIN_ENGINE, ngram) is None

    def test_one_for_another_model_is_none(self):
        ngram = member("ngram", window_of(self.NGRAM), model_name="n")
        assert self.faster_of(ngram, self.PLAIN_ENGINE, self.EAGLE_ENGINE) is None

    def test_an_engine_that_does_not_speculate_has_none(self):
        assert self.faster_of(self.PLAIN_ENGINE, self.EAGLE_ENGINE) is None

    def test_one_that_decodes_faster_and_answers_later_is_none(self):
        late = EAGLE | {"end_to_end_nanoseconds": self.NGRAM["end_to_end_nanoseconds"]}
        ngram = member("ngram", window_of(self.NGRAM))
        assert self.faster_of(ngram, self.PLAIN_ENGINE, member("eagle", window_of(late))) is None

    def test_one_without_times_of_whole_requests_is_none(self):
        blind = member("eagle", window_of(EAGLE, hidden={Counter.END_TO_END_NANOSECONDS}))
        assert self.faster_of(member("ngram", window_of(self.NGRAM)), self.PLAIN_ENGINE, blind) is None

    def test_one_with_another_share_of_cached_prompts_is_none(self):
        cached = EAGLE | {"prefix_cache_queries": 1600, "prefix_cache_hits": 800}
        ngram = member("ngram", window_of(self.NGRAM | {"prefix_cache_queries": 1600}))
        plain = member("off", window_of(PLAIN | {"prefix_cache_queries": 800}))
        assert self.faster_of(ngram, plain, member("eagle", window_of(cached))) is None
        assert self.faster_of(ngram, plain, self.EAGLE_ENGINE) is not None

    def test_an_incomparable_arm_has_none(self):
        lone = member("ngram", window_of(times(self.NGRAM, 4), running=24.0))
        assert self.faster_of(lone, self.PLAIN_ENGINE, self.EAGLE_ENGINE) is None

    def test_the_same_method_with_other_settings_is_none(self):
        settings = ExperimentSettings.model_validate(
            {
                "name": "tokens",
                "arms": {name: {"match": {"k": name}} for name in ("zero", "three", "five")},
                "baseline": "zero",
            }
        )
        members = (
            member("off", window_of(PLAIN), k="zero"),
            member("eagle", window_of(self.NGRAM), k="three"),
        )
        for method, is_one in (("eagle", False), ("", False), ("off", False), ("mtp", True)):
            five = member(method, window_of(EAGLE), k="five")
            found = compare(settings, (*members, five), (300.0,), NOW)
            assert (faster_method(found, "three", members[1]) is not None) is is_one

    def test_an_arm_of_two_methods_is_none(self):
        settings = ExperimentSettings.model_validate(
            {
                "name": "x",
                "arms": {name: {"match": {"k": name}} for name in ("off", "fast", "slow")},
                "baseline": "off",
            }
        )
        slow = member("ngram", window_of(self.NGRAM), k="slow")
        fast = [member(method, window_of(EAGLE), k="fast") for method in ("eagle", "mtp")]
        members = (member("off", window_of(PLAIN), k="off"), slow, *fast)
        assert faster_method(compare(settings, members, (300.0,), NOW), "slow", slow) is None
        assert faster_method(compare(settings, members[:-1], (300.0,), NOW), "slow", slow) is not None

    def test_with_a_speculating_baseline_it_needs_a_gain(self):
        settings = SETTINGS.model_copy(update={"baseline": "ngram"})
        ngram = member("ngram", window_of(self.NGRAM))
        members = (ngram, self.EAGLE_ENGINE)
        found = faster_method(compare(settings, members, (300.0,), NOW), "ngram", ngram)
        assert found.own == Estimate(1.0, 1.0, 1.0, 0.0)
        assert found.speedup.value == pytest.approx(4 / 3)
