"""A wheel, built from a checkout and from a source distribution, holds what the exporter serves under ``/docs/``."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests
from spec_decode_exporter.web.documentation.documents import in_checkout, served

CHECKOUT = Path(__file__).parents[3]
FOLDER = "spec_decode_exporter/web/documentation/packaged/"


def build(folder, kind, source):
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Return the folder of an unpacked source distribution."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(build(folder / "built", "sdist", CHECKOUT)) as archive:
        archive.extractall(folder, filter="data")
    (found,) = (path for path in folder.iterdir() if path.name != "built")
    return found


@pytest.mark.parametrize("source", ["checkout", "source distribution"])
def test_a_wheel_holds_every_served_file_and_no_other(source, unpacked, tmp_path):
    wheel = build(tmp_path, "wheel", CHECKOUT if source == "checkout" else unpacked)
    with zipfile.ZipFile(wheel) as archive:
        packaged = {
            name.removeprefix(FOLDER): archive.read(name)
            for name in archive.namelist()
            if name.startswith(FOLDER)
        }
    assert packaged == {name: path.read_bytes() for name, path in in_checkout().items()}
    assert sum(map(len, packaged.values())) < 2_000_000


def test_an_installed_wheel_serves_what_it_holds(tmp_path, monkeypatch):
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide/a.md").write_text("# A\n")
    monkeypatch.setattr("spec_decode_exporter.web.documentation.documents.PACKAGED", tmp_path)
    middleware = {"files/spec_decode_requests.py": Path(spec_decode_requests.__file__)}
    assert served() == {"guide/a.md": tmp_path / "guide/a.md", **middleware}
