"""Answers by published costs to sources that are left out; none of these figures may become worse."""

from benchmarks.published import counts_by_group, missed
from spec_decode_exporter.costs.methods import ANY
from spec_decode_exporter.costs.published import published_steps
from tests.every import every

GROUPS = counts_by_group(published_steps(ANY))
FLOORS = {
    "all": (165, 161, 80, 77),
    "eagle3": (60, 60, 12, 12),
    "mtp": (46, 43, 32, 30),
    "dflash": (39, 38, 34, 33),
}
"""Answers of each method, those inside the range, those "probably pays", and those of them that are right."""


def test_the_goals_are_met():
    assert list(missed(GROUPS)) == []


@every(FLOORS)
def test_no_group_has_become_worse(name):
    its, (answered, inside, probable, right) = GROUPS[name], FLOORS[name]
    assert its.answered >= answered
    assert its.inside / its.answered >= inside / answered
    assert its.right / its.probable >= right / probable
    assert its.false == 0


@every(["ngram", "draft_model", "dspark"])
def test_too_few_published_these(name):
    assert GROUPS[name].answered == 0
