"""The image, built by `make image` from a stand-in for its base, and containers of it."""

import configparser
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import CHECKOUT

KEPT = CHECKOUT / ".e2e" / "containers"
"""The images stay here, apart from the user's own: the next run builds only what has changed."""

MAKE_BASE = Path(__file__).with_name("make_base")
IMAGE = "localhost/spec-decode-exporter:e2e"
TOOLS = ("buildah", "podman", "runc", "mmdebstrap")

_CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""
"""For machines without systemd, where limits may not be raised."""

_STORAGE = f"""\
[storage]
driver = "overlay"
graphroot = "{KEPT}/images"
runroot = "{KEPT}/running"
"""


def pytest_collection_modifyitems(items):
    """Allow for the building; in front of the limit that other end-to-end tests have."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(900), append=False)


@pytest.fixture(scope="session")
def image():
    """Build the image as a user does, but from a stand-in for its base, and with what is here."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(
            f"no image is built or tested: {', '.join(missing)} missing (apt-get install {' '.join(TOOLS)})"
        )
    if os.geteuid() != 0:
        pytest.skip("no image is built or tested: mmdebstrap and the overlays of its layers need root here")
    KEPT.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for variable, text in {"CONTAINERS_CONF": _CONTAINERS, "CONTAINERS_STORAGE_CONF": _STORAGE}.items():
            path = KEPT / f"{variable.lower()}.toml"
            path.write_text(text)
            patch.setenv(variable, str(path))
        patch.delenv("MAKEFLAGS", raising=False)
        flags = "--isolation chroot --pull-never --layers --timestamp 0"
        run(
            *("make", "image", "BUILDER=buildah", f"IMAGE={IMAGE}", f"BASE={_base()}"),
            f"BUILD_FLAGS={' '.join([flags, *_trust_of_this_machine()])}",
        )
        yield IMAGE


def _base():
    """Return the name of the stand-in; build it if its recipe or the interpreter has changed."""
    recipe = hashlib.sha256(MAKE_BASE.read_bytes() + sys.version.encode()).hexdigest()[:12]
    name = f"localhost/python-stand-in:{recipe}"
    if call("buildah", "inspect", "--type", "image", name).returncode:
        run(MAKE_BASE, name, sys.executable)
    return name


def _trust_of_this_machine():
    """Lend this machine's certificates of a package proxy to the build; none stays in the image."""
    answer = call(sys.executable, "-m", "pip", "config", "get", "global.cert")
    certificates = os.environ.get("PIP_CERT") or answer.stdout.strip()
    if not certificates:
        return []
    config = configparser.ConfigParser()
    config["global"] = {"cert": "/etc/ssl/lent.crt"}
    with (KEPT / "pip.conf").open("w") as file:
        config.write(file)
    return [f"--volume {certificates}:/etc/ssl/lent.crt:ro", f"--volume {KEPT / 'pip.conf'}:/etc/pip.conf:ro"]


def call(*command):
    return subprocess.run(list(map(str, command)), cwd=CHECKOUT, check=False, capture_output=True, text=True)


def run(*command):
    """Run in the checkout; return what it prints, or fail with what it says."""
    done = call(*command)
    assert done.returncode == 0, (
        f"{command[0]} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-8000:]}"
    )
    return done.stdout
