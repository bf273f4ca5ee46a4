"""The Dockerfile stays safe and its locks match pyproject.toml, which no build can check."""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement

from image.assemble import STATE_DIRECTORY, USER
from spec_decode_exporter.cli.run import DEFAULT_ADDRESS
from tests.paths import CHECKOUT

PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
EXTRAS = ("auth", "dns")
"""What the image has besides what is needed; image/lock says so too."""


def read_instructions():
    """Return the Dockerfile as pairs of an instruction and its text, comments and line ends apart."""
    text = re.sub(r"^#.*\n", "", (CHECKOUT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


INSTRUCTIONS = read_instructions()


def texts(instruction):
    return [text for name, text in INSTRUCTIONS if name == instruction]


def locked(name):
    """Return each package of a lock with its version and its digests."""
    lock = re.sub(r"\\\n", " ", (CHECKOUT / "image" / f"{name}.lock").read_text())
    entries = [line.split() for line in lock.splitlines() if re.match(r"[a-z0-9]", line)]
    return {
        entry[0].split("==")[0]: (
            entry[0].split("==")[1],
            [word for word in entry if word.startswith("--hash=sha256:")],
        )
        for entry in entries
    }


def test_the_base_is_an_argument_with_its_python_and_debian_named_and_fixed_by_digest():
    assert INSTRUCTIONS[0][0] == "ARG"
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", INSTRUCTIONS[0][1])


def test_every_stage_begins_with_the_base_an_earlier_stage_or_nothing():
    known = {"${BASE}", "scratch"}
    for text in texts("FROM"):
        origin, *name = text.split(" AS ")
        assert origin in known
        known.update(name)
    assert texts("FROM")[-1] == "scratch"


def test_the_user_is_numeric_for_runasnonroot_and_owns_the_state():
    assert texts("USER") == [f"{USER}:{USER}"]
    assert USER > 0


def test_entry_and_command_need_no_shell():
    (entry,) = texts("ENTRYPOINT")
    assert json.loads(entry)[0].endswith("/bin/spec-decode-exporter")
    (command,) = texts("CMD")
    assert json.loads(command) == ["run"]


def test_the_port_is_the_programs_default():
    assert texts("EXPOSE") == [DEFAULT_ADDRESS.removeprefix(":")]


def test_a_release_sets_every_label_that_a_checkout_does_not_know():
    workflow = (CHECKOUT / ".github" / "workflows" / "release.yml").read_text()
    (labels,) = texts("LABEL")
    asked = set(re.findall(r"\$\{(\w+)\}", labels)) - {"BASE"}  # which has its digest in this file
    assert asked == {"VERSION", "REVISION", "SOURCE"}
    assert asked <= set(re.findall(r"^ +(\w+)=\$\{\{ ", workflow, re.MULTILINE))


def test_only_locked_packages_are_fetched():
    assert not texts("ADD")
    for text in texts("RUN"):
        assert not re.search(r"\b(curl|wget|apt|apt-get|apk|git)\b|https?:", text)
        for call in re.findall(r"pip\S* (?:--python \S+ )?(?:install|wheel)\b[^&]*", text):
            assert {"--require-hashes", "--no-index", "--no-build-isolation"} & set(call.split())
            assert "--no-deps" in call


def test_copied_files_exist_and_are_sent_to_the_builder():
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    sent = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    copied = [word for text in texts("COPY") if "--from" not in text for word in text.split()[:-1]]
    assert "exporter" in copied
    for name in copied:
        assert (CHECKOUT / name).exists()
        assert any(fnmatch.fnmatch(name, entry) or name.startswith(f"{entry}/") for entry in sent)


@pytest.mark.parametrize("name", ["requirements", "build"])
def test_every_package_of_a_lock_has_digests(name):
    packages = locked(name)
    assert packages
    assert all(digests for _, digests in packages.values())


@pytest.mark.parametrize("name", ["requirements", "build"])
def test_a_lock_names_no_package_index(name):
    assert not re.search(
        r"https?:|--(extra-)?index-url|--find-links|file:", (CHECKOUT / "image" / f"{name}.lock").read_text()
    )


def image_requirements():
    project = PYPROJECT["project"]
    extras = [requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra]]
    return [Requirement(text) for text in [*project["dependencies"], *extras]]


@pytest.mark.parametrize("requirement", image_requirements(), ids=str)
def test_the_lock_has_the_packages_of_pyproject(requirement):
    version, _ = locked("requirements").get(requirement.name, ("0", []))
    assert requirement.specifier.contains(version), "run `make lock`"


@pytest.mark.parametrize("text", PYPROJECT["build-system"]["requires"])
def test_the_lock_of_the_build_has_the_packages_of_pyproject(text):
    requirement = Requirement(text)
    version, _ = locked("build").get(requirement.name, ("0", []))
    assert requirement.specifier.contains(version), "run `make lock`"


def asked_for_by(name):
    """Return what an installed package asks for itself; nothing, where it is not for this machine."""
    try:
        asked = [Requirement(text) for text in distribution(name).requires or []]
    except PackageNotFoundError:
        return []
    return [requirement.name for requirement in asked if "extra" not in str(requirement.marker)]


def test_the_lock_has_only_required_packages():
    wanted, left = set(), [requirement.name for requirement in image_requirements()]
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += asked_for_by(name)
    assert locked("requirements").keys() <= {name.lower().replace("_", "-") for name in wanted}, (
        "run `make lock`"
    )


def test_the_lock_is_made_with_these_extras():
    script = (CHECKOUT / "image" / "lock").read_text()
    locks = [tuple(re.findall(r"--extra (\S+)", line)) for line in script.splitlines() if "--extra" in line]
    assert locks == [EXTRAS] * 2


def test_the_documentation_names_the_state_directory():
    assert f"/{STATE_DIRECTORY}" in (CHECKOUT / "docs" / "guide" / "image.md").read_text()
