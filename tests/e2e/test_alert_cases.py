"""The shipped alerts on what an exporter of simulated servers shows, at the scrape interval of each case, by promtool."""

import pytest

from tests.contract.promql import promtool
from tests.contract.rules.alert_cases import CASES
from tests.e2e.lived_cases import polite_pool, record


@pytest.fixture(scope="module")
def lived():
    """Live through all cases, side by side."""
    with polite_pool() as pool:
        yield {title: pool.submit(record, case) for title, case in CASES.items()}
        pool.shutdown(cancel_futures=True)


# The first case waits while processes live through all of them, beside other tests.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("title", CASES)
def test_the_alerts_of(title, lived, prometheus_tools, tmp_path):
    path = tmp_path / "case.json"
    path.write_text(CASES[title].promtool(lived[title].result()))
    status, output = promtool("test", "rules", path)
    assert status == 0, output
