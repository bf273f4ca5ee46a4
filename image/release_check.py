"""Check that this checkout can be released, and build the files of a release into ``dist/``.

``make release-check`` publishes nothing. ``RELEASE=1`` requires public addresses and a changelog of this
version too.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from packaging.metadata import Metadata

from docs.generate.links import CHECKOUT, PLACEHOLDER, generated, urls
from helm.chart_files import CHART, copies, write_copies
from spec_decode_exporter import __version__

NAME: Final = "spec-decode-exporter"
DIST: Final = CHECKOUT / "dist"
_KNOWN: Final = "pip"
"""A package that every index has: without an answer about it, there is no index."""


class ReleaseError(Exception):
    """A reason against a release."""


class NotCheckedError(Exception):
    """A check that this machine cannot make, or that only a release needs."""


@dataclass(frozen=True)
class Release:
    """The state to check: the texts that name versions and addresses, and whether it is to be released."""

    version: str
    chart: Mapping[str, str]
    changelog: str
    fragments: tuple[str, ...]
    urls: Mapping[str, str]
    required: bool = False

    @classmethod
    def of_checkout(cls, *, required: bool) -> Release:
        """Read the files of this checkout."""
        return cls(
            __version__,
            yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8")),
            (CHECKOUT / "CHANGELOG.md").read_text("utf-8"),
            tuple(path.name for path in sorted((CHECKOUT / "docs" / "changes").glob("*.md"))),
            urls(),
            required,
        )


def versions(release: Release) -> str:
    """Compare the versions of program and chart."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", release.version):
        raise ReleaseError(f"core/version.py: {release.version} is not MAJOR.MINOR.PATCH")
    if release.chart["appVersion"] != release.version:
        raise ReleaseError(f"Chart.yaml: appVersion is {release.chart['appVersion']}, not {release.version}")
    if not re.fullmatch(r"\d+\.\d+\.\d+", release.chart["version"]):
        raise ReleaseError(f"Chart.yaml: version {release.chart['version']} is not MAJOR.MINOR.PATCH")
    return f"program {release.version}, chart {release.chart['version']}"


def changelog(release: Release) -> str:
    """Require a dated section of this version, and no fragment beside it."""
    section = re.search(
        rf"^## {re.escape(release.version)} \(\d{{4}}-\d\d-\d\d\)$", release.changelog, re.MULTILINE
    )
    if section and not release.fragments:
        return section[0].removeprefix("## ")
    why = (
        f"CHANGELOG.md has no dated section {release.version}"
        if not section
        else "docs/changes/ has fragments"
    )
    raise _only_for_a_release(release, f"{why}: run `make changelog`")


def addresses(release: Release) -> str:
    """Require public addresses in pyproject.toml, and the same ones in the chart."""
    outdated = [
        str(path.relative_to(CHECKOUT))
        for path, text in generated().items()
        if path.read_text("utf-8") != text
    ]
    if outdated:
        raise ReleaseError(f"{', '.join(outdated)}: run `make generate`")
    missing = [key for key, url in release.urls.items() if url.startswith(PLACEHOLDER)]
    if missing:
        keys = " and ".join(missing)
        why = f"pyproject.toml: [project.urls] {keys} still begin with {PLACEHOLDER}"
        raise _only_for_a_release(release, why)
    return release.urls["Documentation"]


def _only_for_a_release(release: Release, why: str) -> Exception:
    return ReleaseError(why) if release.required else NotCheckedError(f"{why} (an error with RELEASE=1)")


def packages(_: Release) -> str:
    """Build wheel and sdist twice, and a wheel of the sdist; compare them, and validate the metadata."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        tracked, again, unpacked, of_sdist = (
            Path(folder, name) for name in ("tracked", "again", "unpacked", "of_sdist")
        )
        _copy_tracked_files(tracked)
        for place in (DIST, again):
            _python("hatchling", "build", "-d", str(place), folder=tracked)
        (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
        _same, different, failed = filecmp.cmpfiles(DIST, again, [wheel.name, sdist.name], shallow=False)
        if different or failed:
            raise ReleaseError(f"built twice, {', '.join(different + failed)} differs")
        with tarfile.open(sdist) as file:
            file.extractall(unpacked, filter="data")
        (source,) = unpacked.iterdir()
        _python("hatchling", "build", "-t", "wheel", "-d", str(of_sdist), folder=source)
        if _contents(of_sdist / wheel.name) != _contents(wheel):
            raise ReleaseError("the wheel that is built from the sdist has other files")
    metadata = _metadata(wheel, validate=True)
    if metadata.description_content_type != "text/markdown" or not metadata.license_expression:
        raise ReleaseError("the wheel's metadata lack README or licence")
    return f"{wheel.name}, {sdist.name}: the same bytes twice, and of the sdist the same wheel"


def _copy_tracked_files(target: Path) -> None:
    """Copy what git tracks: a build walks its whole folder, and fails if tests beside it delete a file."""
    for name in filter(None, _run("git", "ls-files", "-z").split("\0")):
        if (CHECKOUT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, target / name)


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


def _metadata(wheel: Path, *, validate: bool) -> Metadata:
    found = next(text for name, text in _contents(wheel).items() if name.endswith(".dist-info/METADATA"))
    return Metadata.from_email(found, validate=validate)


def installation(release: Release) -> str:
    """Install the wheel into an environment of its own; run the program."""
    (wheel,) = DIST.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        _python("venv", folder)
        _run(f"{folder}/bin/pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        said = _run(f"{folder}/bin/{NAME}", "--version").strip()
        if release.version not in said:
            raise ReleaseError(f"--version printed {said!r}")
        _run(f"{folder}/bin/{NAME}", "check-config", "config/exporter.yml")
    return said


def chart(_: Release) -> str:
    """Check the chart with Helm's engine, and pack it."""
    try:
        from helm_python import chart as engine
    except ImportError:
        raise NotCheckedError("Helm's engine is not installed: pip install --group helm") from None
    write_copies()
    for path in sorted((CHART / "ci").glob("*.yaml")):
        found = engine.lint(str(CHART), yaml.safe_load(path.read_text("utf-8")), strict=True, namespace="obs")
        if found["errors"]:
            raise ReleaseError(f"{path.name}: {found['errors']}")
    packed = Path(engine.package(str(CHART), destination=str(DIST)))
    with tarfile.open(packed) as file:
        contained = set(file.getnames())
    missing = [path.name for path in copies() if f"{NAME}/{path.relative_to(CHART)}" not in contained]
    if missing:
        raise ReleaseError(f"{packed.name} lacks {', '.join(missing)}")
    return packed.name


def names(release: Release) -> str:
    """Ask the package index whether the name is free or ours; image and chart are the owner names."""
    if not _versions_in_index(_KNOWN):
        raise NotCheckedError("no package index answers")
    found = _versions_in_index(NAME)
    if not found:
        return f"{NAME} is free in the package index"
    with tempfile.TemporaryDirectory() as folder:
        _python("pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder, NAME)
        (wheel,) = Path(folder).glob("*.whl")
        published = (_metadata(wheel, validate=False).project_urls or {}).get("Homepage")
    if published != release.urls["Homepage"]:
        raise ReleaseError(f"{NAME} in the package index is another project: {published}")
    if release.version in found:
        raise ReleaseError(f"{NAME} {release.version} is published already")
    return f"{NAME} in the package index is ours, up to {found[0]}"


def _versions_in_index(name: str) -> list[str]:
    text = _python("pip", "index", "versions", "--json", name, check=False)
    return list(json.loads(text).get("versions", ())) if text.startswith("{") else []


def _python(module: str, *words: str, folder: Path = CHECKOUT, check: bool = True) -> str:
    return _run(sys.executable, "-m", module, *words, folder=folder, check=check)


def _run(*command: str, folder: Path = CHECKOUT, check: bool = True) -> str:
    """Return what a command prints; every build has the time of the last commit."""
    log = ("git", "log", "-1", "--format=%ct")
    committed = subprocess.run(log, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout.strip()
    environment = {"SOURCE_DATE_EPOCH": committed or "0", **os.environ}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise ReleaseError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


CHECKS: Final[tuple[Callable[[Release], str], ...]] = (
    versions,
    changelog,
    addresses,
    packages,
    installation,
    chart,
    names,
)


def results(
    release: Release, checks: tuple[Callable[[Release], str], ...] = CHECKS
) -> Iterator[tuple[str, str]]:
    """Yield ``ok``, ``not checked`` or ``failed`` for each check, with its text."""
    for check in checks:
        try:
            yield "ok", f"{check.__name__}: {check(release)}"
        except NotCheckedError as reason:
            yield "not checked", f"{check.__name__}: {reason}"
        except ReleaseError as reason:
            yield "failed", f"{check.__name__}: {reason}"


def main() -> int:
    """Print a line for each check; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", action="store_true", help="require what only a release needs")
    failed = False
    for outcome, text in results(Release.of_checkout(required=parser.parse_args().release)):
        print(f"{outcome:<11}  {text}", flush=True)
        failed |= outcome == "failed"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
