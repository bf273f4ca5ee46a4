"""promtool accepts names, labels and types of every metric."""

import shutil
import subprocess

import pytest

from spec_decode_exporter.config.schema import Profile
from tests.contract.rules.shipped import needs
from tests.paths import DATA


@needs("promtool")
@pytest.mark.parametrize("name", [*(f"restart_k3_k5.{profile}.txt" for profile in Profile), "requests.txt"])
def test_nothing_is_to_criticise_on_a_golden_page(name):
    """Quantiles are untyped: on a gauge promtool criticises their label (decision 17)."""
    command = [shutil.which("promtool"), "check", "metrics"]
    with (DATA / "metrics" / name).open() as page:
        run = subprocess.run(command, stdin=page, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")
