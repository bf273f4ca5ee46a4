"""promtool accepts names, labels and types of every metric."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from spec_decode_exporter.config.schema import Profile
from tests.contract.rules.shipped import needs
from tests.paths import DATA

GOLDEN = DATA / "metrics"


def criticised(page):
    """Return the exit status and the output of ``promtool check metrics``."""
    run = subprocess.run(
        [shutil.which("promtool"), "check", "metrics"],
        input=page,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


@needs("promtool")
@pytest.mark.parametrize("name", [*(f"restart_k3_k5.{profile}.txt" for profile in Profile), "requests.txt"])
def test_nothing_is_to_criticise_on_a_golden_page(name):
    assert criticised((GOLDEN / name).read_text(encoding="utf-8")) == (0, "")


@needs("promtool")
def test_the_label_of_quantiles_on_a_gauge_would_be():
    """The reason for their type: decision 17."""
    page = (GOLDEN / "requests.txt").read_text(encoding="utf-8").replace(" untyped\n", " gauge\n")
    status, output = criticised(page)
    assert (status, "quantile" in output) == (3, True)
