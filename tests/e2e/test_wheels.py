"""``pip install`` needs no compiler: every package of the lock has a wheel wherever the exporter runs.

It asks the package registry, so it is no part of ``make test``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import CHECKOUT

LOCK = CHECKOUT / "image" / "requirements.lock"
PLATFORMS = (
    "x86_64-manylinux_2_28",
    "aarch64-manylinux_2_28",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
)
PYTHONS = ("3.11", "3.12", "3.13")

pytestmark = pytest.mark.e2e


def resolve(lock, platform, python):
    """Let uv choose a file of every package, none of them to be built; it downloads nothing but their metadata."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed; `make wheels` installs it")
    options = (
        "--quiet",
        "--no-build",
        "--no-header",
        "--python-platform",
        platform,
        "--python-version",
        python,
    )
    return subprocess.run(
        [uv, "pip", "compile", *options, lock], check=False, capture_output=True, text=True, timeout=300
    )


@pytest.mark.timeout(180)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_package_has_a_wheel(platform, python):
    done = resolve(LOCK, platform, python)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("==") > 15


def test_a_package_without_one_is_noticed(tmp_path):
    """PyYAML 5.1 came before Python 3.11: there is only its source."""
    (tmp_path / "old.txt").write_text("pyyaml==5.1\n")
    done = resolve(tmp_path / "old.txt", PLATFORMS[0], PYTHONS[0])
    assert done.returncode != 0
    assert "no usable wheels" in done.stderr or "wheel" in done.stderr
