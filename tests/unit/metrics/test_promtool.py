"""promtool accepts names, labels and types of every metric, but for the label of quantiles."""

import re
import shutil
import subprocess

import pytest

from spec_decode_exporter.config.schema import Profile
from tests.contract.rules.shipped import needs
from tests.paths import DATA

OF_QUANTILES = re.compile(
    r'spec_decode_\w*_quantile_\w+ non-summary metrics should not have "quantile" label'
)


@needs("promtool")
@pytest.mark.parametrize("name", [*(f"restart_k3_k5.{profile}.txt" for profile in Profile), "requests.txt"])
def test_only_the_label_of_quantiles_is_to_criticise_on_a_golden_page(name):
    """Quantiles are gauges: decision 17."""
    command = [shutil.which("promtool"), "check", "metrics"]
    with (DATA / "metrics" / name).open() as page:
        run = subprocess.run(command, stdin=page, capture_output=True, text=True, check=False)
    others = [line for line in (run.stdout + run.stderr).splitlines() if not OF_QUANTILES.fullmatch(line)]
    assert others == []
