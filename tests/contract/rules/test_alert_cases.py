"""The shipped alerts on what an exporter of simulated servers showed: recorded series, evaluated by promtool."""

import pytest

from tests.contract.promql import needs, promtool
from tests.contract.rules.alert_cases import ALERTS, CASES, FOLDER, WITHOUT_A_CASE
from tests.contract.rules.alert_series import case_hash, path_of, read


def test_every_alert_has_a_case():
    named = {fires.alert for case in CASES.values() for fires in case.fires}
    assert named | set(WITHOUT_A_CASE) == ALERTS
    assert named.isdisjoint(WITHOUT_A_CASE)


def test_every_case_has_a_file_and_no_file_lacks_a_case():
    assert {*FOLDER.glob("*.xz")} == {path_of(title) for title in CASES}, "make alert-series"


@pytest.mark.slow
@needs("promtool")
@pytest.mark.parametrize("title", CASES)
def test_the_alerts_of(title, tmp_path):
    case, recorded = CASES[title], read(title)
    assert recorded["case"] == case_hash(case), "the case has changed: make alert-series"
    path = tmp_path / "case.json"
    path.write_text(case.promtool(recorded["series"], case.coarse))
    status, output = promtool("test", "rules", path)
    assert status == 0, output
