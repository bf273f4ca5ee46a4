"""The shipped alerts fire as in their cases with the present code: what is recorded of other code is recorded again.

tests/contract/rules/alert_series.py has the recordings, and says when one is outdated.
"""

import pytest

from tests.contract.promql import promtool
from tests.contract.rules.alert_cases import CASES
from tests.contract.rules.alert_series import outdated, polite_pool, recorded

OUTDATED = outdated()
"""`make test` evaluates the others."""


@pytest.fixture(scope="module")
def renewed():
    """Record the outdated cases again, side by side."""
    with polite_pool() as pool:
        yield recorded(OUTDATED, pool)
        pool.shutdown(cancel_futures=True)


# The first case waits while processes live through all of them, beside other tests.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "title", OUTDATED or [pytest.param("", marks=pytest.mark.skip(reason="all series are of this code"))]
)
def test_the_alerts_of(title, renewed, prometheus_tools, tmp_path):
    case, path = CASES[title], tmp_path / "case.json"
    path.write_text(case.promtool(renewed[title].result(), case.scrape))
    status, output = promtool("test", "rules", path)
    assert status == 0, output
