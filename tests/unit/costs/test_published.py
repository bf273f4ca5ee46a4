"""Published costs: the table, the rule, and its answers on sources that it does not know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.costs.methods import ANY, KINDS, LAYER
from spec_decode_exporter.costs.model_architecture import data_rows
from spec_decode_exporter.costs.published import (
    CHEAPER,
    DEARER,
    MIN_SOURCES,
    POWERS,
    USABLE,
    PublishedStep,
    costs_near,
    published_costs,
    published_steps,
    split,
)

EXCLUDED = {"noal": "no acceptance length", "weak": "a number is missing or estimated", "tree": "tree drafts"}
"""Values of the column ``kind`` of rows that do not count, and the reason."""


def steps(*extras, source=None, load=8.0):
    """Steps of two tokens, of drafts of three, with these extra costs of a token; each of an own source unless one is given."""
    kappas = [1 + extra * 3 ** POWERS[KINDS["eagle3"]] for extra in extras]
    return [
        PublishedStep(source or f"source {place}", "eagle3", load, 3, 2.0, 2.0 / kappa)
        for place, kappa in enumerate(kappas)
    ]


ROWS = tuple(enumerate(data_rows("published.csv"), 2))  # lines of the table


class TestTable:
    def test_each_row_has_a_source_a_known_method_and_a_kind_with_a_meaning(self):
        for line, row in ROWS:
            assert row["source"].strip(), line
            assert row["method"] in KINDS, line
            assert row["kind"] in {*USABLE, *EXCLUDED}, line

    def test_each_row_that_counts_has_possible_numbers(self):
        found = [(line, PublishedStep.of(row)) for line, row in ROWS if row["kind"] in USABLE]
        assert len(found) >= 193
        for line, its in found:
            assert its is not None, line
            assert 1 < its.acceptance_length <= its.draft_tokens + 1, line
            assert 0 < its.speedup < its.acceptance_length * 1.1, line
            assert its.running_requests >= 1, line

    def test_no_row_is_there_twice(self):
        rows = [tuple(row.items()) for _, row in ROWS]
        assert len(set(rows)) == len(rows)

    def test_a_step_costs_more_than_half_and_less_than_twelve_plain_steps(self):
        kappas = [1 + its.extra_cost(ANY) for its in published_steps(ANY)]
        assert 0.5 < min(kappas) <= max(kappas) < 12


class TestRule:
    def test_the_range_is_that_of_the_quantiles_with_a_lower_low_end(self):
        found = costs_near(steps(0.1, 0.2, 0.3, 0.4, 0.5), LAYER, 8.0).range
        assert found == pytest.approx((0.1 / CHEAPER, 0.3, 0.5 * DEARER))

    def test_a_source_weighs_as_much_as_the_root_of_the_number_of_its_rows(self):
        """Sixteen rows of one source weigh as much as those of four others."""
        many = steps(*[0.1] * 16, source="many")
        assert costs_near([*many, *steps(0.3, 0.4, 0.5)], LAYER, 8.0).range.guess == pytest.approx(0.1)
        assert costs_near([*many, *steps(0.3, 0.4, 0.5, 0.6, 0.7)], LAYER, 8.0).range.guess == pytest.approx(
            0.3
        )

    def test_rows_near_the_load_count_and_all_where_too_few_sources_are_near(self):
        near, far = steps(0.1, 0.2, 0.3, 0.4), steps(9.0, source="far", load=65.0)
        assert len(costs_near([*near, *far], LAYER, 8.0).extras) == len(near)
        assert len(costs_near([*near, *far], LAYER, 9.0).extras) == len(near) + 1
        assert len(costs_near([*near[1:], *far], LAYER, 8.0).extras) == len(near)
        again = steps(0.5, source="source 1")  # a fourth row of three sources
        assert len(costs_near([*near[1:], *again, *far], LAYER, 8.0).extras) == 5

    def test_the_low_end_is_that_of_all_loads(self):
        few = [*steps(0.1, 0.2, 0.3, 0.4), *steps(0.5, 0.6, 0.7, 0.8, load=512.0)]
        assert costs_near(few, LAYER, 512.0).range.low == costs_near(few, LAYER, 8.0).range.low

    def test_fewer_than_four_sources_say_nothing(self):
        assert costs_near(steps(*[0.1] * (MIN_SOURCES - 1)), LAYER, 8.0) is None
        assert costs_near([], LAYER, None) is None

    @pytest.mark.parametrize(("extra", "paying"), [(0.05, 0), (0.1, 0), (0.101, 1), (0.35, 3), (9.0, 4)])
    def test_the_share_counts_the_rows_alike(self, extra, paying):
        share = costs_near(steps(0.1, 0.2, 0.3, 0.4), LAYER, 8.0).paid_by(extra)
        assert (share.paying, share.costs, share.ratio) == (paying, 4, paying / 4)

    @pytest.mark.parametrize(
        "method", ["ngram", "draft_model", "medusa", "mlp_speculator", "custom_class", ""]
    )
    def test_a_method_without_enough_rows_has_no_typical_cost(self, method):
        assert published_costs(KINDS.get(method, ""), method, 8.0) is None

    def test_a_load_below_one_request_is_one_request(self):
        assert published_costs(LAYER, "mtp", 0.2) == published_costs(LAYER, "mtp", 1.0)


@given(st.sampled_from([*POWERS, ""]), st.floats(1, 64))
def test_c_and_c0_together_are_the_extra_cost_and_c_is_its_slope(kind, tokens):
    token, fixed = split(kind, tokens)
    power = POWERS.get(kind, 1.0)
    assert token * tokens + fixed == pytest.approx(tokens**power)
    assert token == pytest.approx(((tokens + 1e-6) ** power - tokens**power) / 1e-6, rel=1e-3, abs=1e-6)
    assert min(token, fixed) >= 0
