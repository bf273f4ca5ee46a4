"""Check that this checkout can be released, and build the files of a release into ``dist/``.

``make release-check`` publishes nothing. ``--release`` requires public addresses and a changelog of this
version too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml
from packaging.metadata import Metadata

from docs.generate.links import CHECKOUT, PLACEHOLDER, generated, urls
from helm.chart_files import CHART, copies, write_copies
from spec_decode_exporter import __version__

NAME: Final = "spec-decode-exporter"
DIST: Final = CHECKOUT / "dist"


def wrong_versions(version: str, chart: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the versions of program and chart."""
    for place, text in (("core/version.py", version), ("Chart.yaml: version", chart["version"])):
        if not re.fullmatch(r"\d+\.\d+\.\d+", text):
            yield f"{place}: {text} is not MAJOR.MINOR.PATCH"
    if chart["appVersion"] != version:
        yield f"Chart.yaml: appVersion is {chart['appVersion']}, not {version}"


def left_to_do(
    version: str, changelog: str, fragments: Collection[str], addresses: Mapping[str, str]
) -> Iterator[str]:
    """Yield what a release needs, and a checkout before it does not."""
    if (
        not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE)
        or fragments
    ):
        yield f"CHANGELOG.md has no dated section {version}, or docs/changes/ files: docs.generate.changelog"
    if missing := [key for key, url in addresses.items() if url.startswith(PLACEHOLDER)]:
        yield f"pyproject.toml: [project.urls] {' and '.join(missing)} still begin with {PLACEHOLDER}"


def build_packages() -> Iterator[str]:
    """Build the sdist of what git tracks, and the wheel of it; yield missing metadata."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as tracked, tempfile.TemporaryDirectory() as unpacked:
        # A build walks its whole folder, and fails if tests beside it delete a file.
        _run("git", "checkout-index", "--all", f"--prefix={tracked}/")
        _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(DIST), folder=Path(tracked))
        (sdist,) = DIST.glob("*.tar.gz")
        with tarfile.open(sdist) as file:
            file.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(DIST), folder=source)
    (wheel,) = DIST.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(file.read(name), validate=True)
    if metadata.description_content_type != "text/markdown" or not metadata.license_expression:
        yield "the wheel's metadata lack README or licence"


def try_installation() -> Iterator[str]:
    """Install the wheel into an environment of its own, and run the program."""
    (wheel,) = DIST.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "venv", folder)
        _run(f"{folder}/bin/pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        said = _run(f"{folder}/bin/{NAME}", "--version").strip()
        if __version__ not in said:
            yield f"--version printed {said!r}"
        _run(f"{folder}/bin/{NAME}", "check-config", "config/exporter.yml")


def pack_chart() -> Iterator[str]:
    """Check the chart with Helm's engine, and pack it."""
    from helm_python import chart as engine

    write_copies()
    for path in sorted((CHART / "ci").glob("*.yaml")):
        found = engine.lint(str(CHART), yaml.safe_load(path.read_text("utf-8")), strict=True, namespace="obs")
        yield from (f"{path.name}: {error}" for error in found["errors"])
    packed = Path(engine.package(str(CHART), destination=str(DIST)))
    with tarfile.open(packed) as file:
        contained = set(file.getnames())
    missing = (path.relative_to(CHART) for path in copies())
    yield from (f"{packed.name} lacks {path}" for path in missing if f"{NAME}/{path}" not in contained)


def _run(*command: str, folder: Path = CHECKOUT) -> str:
    """Return what a command prints; every build has the time of the last commit."""
    committed = subprocess.check_output(("git", "log", "-1", "--format=%ct"), cwd=CHECKOUT, text=True).strip()
    environment = {"SOURCE_DATE_EPOCH": committed, **os.environ}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> int:
    """Print what is wrong; return 1 if something is."""
    required = "--release" in sys.argv
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    fragments = [path.name for path in (CHECKOUT / "docs" / "changes").glob("*.md")]
    later = list(left_to_do(__version__, (CHECKOUT / "CHANGELOG.md").read_text("utf-8"), fragments, urls()))
    wrong = [*wrong_versions(__version__, chart), *(later if required else ())]
    wrong += [
        f"{path}: run `make generate`"
        for path, text in generated().items()
        if path.read_text("utf-8") != text
    ]
    for check in (build_packages, try_installation, pack_chart):
        wrong += check()
    print(*(f"failed: {each}" for each in wrong), sep="\n")
    print(*(f"an error with RELEASE=1: {each}" for each in (() if required else later)), sep="\n")
    print(*(f"built: {path.name}" for path in sorted(DIST.iterdir())), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
