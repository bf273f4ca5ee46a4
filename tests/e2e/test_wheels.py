"""``pip install`` needs no compiler: every package of the lock has a wheel wherever the exporter runs.

It asks the package registry, so it is no part of ``make test``.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import CHECKOUT

LOCK = CHECKOUT / "image" / "requirements.lock"
LINUX = ("manylinux_2_28", "unknown-linux-musl")
PLATFORMS = [f"{machine}-{system}" for machine in ("x86_64", "aarch64") for system in LINUX]
PYTHONS = ("3.11", "3.12", "3.13")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_package_has_a_wheel(platform, python):
    """uv chooses a file of every package, none of them to be built; it downloads nothing but their metadata."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed; `make audit` installs it")
    place = ("--python-platform", platform, "--python-version", python)
    words = [uv, "pip", "compile", "--quiet", "--no-build", "--no-header", *place, LOCK]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("==") > 15
