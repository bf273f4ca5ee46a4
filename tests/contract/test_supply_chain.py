"""Whatever is fetched is fixed: actions by commit, images by digest, packages by theirs; workflows may do little."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from image.assemble import STATE_DIRECTORY, USER
from spec_decode_exporter.cli.run import DEFAULT_ADDRESS
from tests.every import every
from tests.paths import CHECKOUT

PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
ACTION = re.compile(r"(?P<name>[a-z0-9-]+/[a-z0-9-]+)@(?P<commit>[0-9a-f]{40}) # (?P<version>v\d+\.\d+\.\d+)")
IMAGE = re.compile(r"[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}")
OWN_IMAGE = "spec-decode-exporter"


def text_of(*parts):
    return CHECKOUT.joinpath(*parts).read_text(encoding="utf-8")


# Workflows

WORKFLOWS = {path.name: text_of(path) for path in sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))}
JOBS = {
    f"{path} {name}": job for path, text in WORKFLOWS.items() for name, job in yaml.safe_load(text)["jobs"].items()
}  # fmt: skip
USED = re.findall(r"^\s*-?\s*uses: (.+)", "\n".join(WORKFLOWS.values()), flags=re.MULTILINE)


def test_every_action_is_pinned_by_its_commit_with_a_comment_of_the_one_version():
    used = [text for text in USED if not text.startswith("./.github/workflows/")]
    assert [text for text in used if not ACTION.fullmatch(text)] == []
    fixed = {ACTION.fullmatch(text).groups() for text in used}
    assert len({name for name, *_ in fixed}) == len(fixed) > 5


@every(WORKFLOWS)
def test_a_workflow_has_only_the_permissions_of_its_jobs_and_the_jobs_token_and_no_trigger_of_forks(name):
    workflow = yaml.safe_load(WORKFLOWS[name])
    assert workflow["permissions"] == {}
    triggers = workflow[True]  # `on` is a yes to YAML 1.1
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers)
    assert set(re.findall(r"secrets\.(\w+)", WORKFLOWS[name])) <= {"GITHUB_TOKEN"}


@every(JOBS)
def test_a_job_has_permissions_and_a_timeout_and_no_text_of_a_request_reaches_a_shell(name):
    job = JOBS[name]
    assert job["permissions"]
    assert set(job["permissions"].values()) <= {"read", "write"}
    assert "uses" in job or 0 < job["timeout-minutes"] <= 60
    for step in job.get("steps", ()):
        assert "${{" not in step.get("run", ""), step
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_the_cluster_s_program_and_image_are_fixed_and_the_tests_of_the_chart_run_in_it():
    job = JOBS["ci.yml cluster"]
    runs = [step.get("run", "") for step in job["steps"]]
    assert IMAGE.fullmatch(job["env"]["NODE"])
    assert re.fullmatch("[0-9a-f]{64}", job["env"]["KIND_SHA256"])
    assert any('"$KIND_SHA256  /tmp/kind" | sha256sum --check' in run for run in runs)
    assert runs[-1] == "make e2e-k8s"


def test_the_public_ci_installs_every_optional_program_of_the_tests():
    (line,) = re.findall("apt-get install .*", WORKFLOWS["ci.yml"])
    assert {"prometheus", "prometheus-alertmanager", "slowhttptest"} <= set(line.split())


@pytest.mark.skipif(
    not (Path(sys.executable).parent / "zizmor").exists() and shutil.which("zizmor") is None,
    reason="zizmor is not installed; `make audit` installs it",
)
def test_the_auditor_of_workflows_finds_nothing():
    program = shutil.which("zizmor", path=str(Path(sys.executable).parent)) or shutil.which("zizmor")
    done = subprocess.run(
        [program, "--offline", CHECKOUT / ".github"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Locks

LOCKS = sorted(
    str(path.relative_to(CHECKOUT))
    for place in ("*.lock", "docs/**/*.lock", "image/*.lock", "tests/**/*.lock")
    for path in CHECKOUT.glob(place)
)
EXTRAS = ("auth", "dns")
"""What the image has besides what is needed; image/lock says so too."""


def requirements_of_image():
    extras = PYPROJECT["project"]["optional-dependencies"]
    return [*PYPROJECT["project"]["dependencies"], *(text for extra in EXTRAS for text in extras[extra])]


REQUIREMENTS = {
    "requirements-dev.lock": [
        *(
            text
            for name, texts in PYPROJECT["dependency-groups"].items()
            if name != "bench"
            for text in texts
        ),
        *PYPROJECT["build-system"]["requires"],
    ],
    "image/requirements.lock": requirements_of_image(),
    "image/build.lock": PYPROJECT["build-system"]["requires"],
}
"""What each lock must have. `bench` is for one machine's figures, and runs nowhere else."""


def locked(lock):
    """Return the versions of each package of a lock; fail where one has no digest."""
    text, versions = re.sub(r"\\\n", " ", text_of(lock)), defaultdict(list)
    for line in text.splitlines():
        if match := re.match(r"([a-z0-9][\w.-]*)(?:\[.*?\])?==(\S+)", line):
            assert "--hash=sha256:" in line, f"{lock}: {match[1]} has no digest"
            versions[match[1].replace("_", "-")].append(match[2])
    return versions


@every(LOCKS)
def test_every_package_of_a_lock_has_digests_and_no_index(lock):
    assert locked(lock)
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links|file:", text_of(lock))


@every(REQUIREMENTS)
def test_a_lock_has_the_packages_of_pyproject(lock):
    versions = locked(lock)
    for requirement in map(Requirement, REQUIREMENTS[lock]):
        found = versions[requirement.name.replace("_", "-").lower()]
        assert found, f"{requirement.name}: run `make lock`"
        assert all(requirement.specifier.contains(version) for version in found), (
            f"{requirement}: run `make lock`"
        )


def asked_for_by(name):
    """Return what an installed package asks for itself; nothing, where it is not for this machine."""
    try:
        asked = [Requirement(text) for text in distribution(name).requires or []]
    except PackageNotFoundError:
        return []
    return [requirement.name for requirement in asked if "extra" not in str(requirement.marker)]


def test_the_lock_of_the_image_has_only_required_packages_and_is_made_with_its_extras():
    wanted, left = set(), [Requirement(text).name for text in requirements_of_image()]
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += asked_for_by(name)
    known = {name.lower().replace("_", "-") for name in wanted}
    assert locked("image/requirements.lock").keys() <= known, "run `make lock`"
    lines = [line for line in text_of("image", "lock").splitlines() if "--extra" in line]
    assert [tuple(re.findall(r"--extra (\S+)", line)) for line in lines] == [EXTRAS] * 2


def test_every_lock_is_checked_against_the_advisories():
    makefile = text_of("Makefile")
    (named,) = re.findall(r"^LOCKS *:= (.+)", makefile, re.MULTILINE)
    assert sorted(named.split()) == LOCKS
    (loop,) = re.findall(r"^\tfor lock in \$\(LOCKS\); do.*?done", makefile, re.MULTILINE | re.DOTALL)
    assert "pip-audit" in loop


# Images


def test_every_image_of_the_stack_is_fixed_by_its_digest():
    services = yaml.safe_load(text_of("config", "compose.yaml"))["services"].values()
    others = {each["image"] for each in services if not each["image"].startswith(f"{OWN_IMAGE}:")}
    assert len(others) >= 4
    assert all(map(IMAGE.fullmatch, others)), others


def read_instructions():
    """Return the Dockerfile as pairs of an instruction and its text, comments and line ends apart."""
    text = re.sub(r"^#.*\n", "", text_of("Dockerfile"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


INSTRUCTIONS = read_instructions()


def texts(instruction):
    return [text for name, text in INSTRUCTIONS if name == instruction]


def test_the_base_is_fixed_by_digest_and_every_stage_begins_with_it_an_earlier_one_or_nothing():
    assert INSTRUCTIONS[0][0] == "ARG"
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", INSTRUCTIONS[0][1])
    known = {"${BASE}", "scratch"}
    for text in texts("FROM"):
        origin, *name = text.split(" AS ")
        assert origin in known
        known.update(name)
    assert texts("FROM")[-1] == "scratch"


def test_the_image_runs_without_a_shell_as_a_numeric_user_at_the_programs_port():
    assert texts("USER") == [f"{USER}:{USER}"]
    assert USER > 0
    (entry,) = map(json.loads, texts("ENTRYPOINT"))
    assert entry[0].endswith("/bin/spec-decode-exporter")
    assert list(map(json.loads, texts("CMD"))) == [["run"]]
    assert texts("EXPOSE") == [DEFAULT_ADDRESS.removeprefix(":")]
    assert f"/{STATE_DIRECTORY}" in text_of("docs", "guide", "image.md")


def test_a_release_sets_every_label_that_a_checkout_does_not_know():
    (labels,) = texts("LABEL")
    asked = set(re.findall(r"\$\{(\w+)\}", labels)) - {"BASE"}  # which has its digest in this file
    assert asked == {"VERSION", "REVISION", "SOURCE"}
    assert asked <= set(re.findall(r"^ +(\w+)=\$\{\{ ", WORKFLOWS["release.yml"], re.MULTILINE))


def test_the_image_fetches_only_locked_packages():
    assert not texts("ADD")
    for text in texts("RUN"):
        assert not re.search(r"\b(curl|wget|apt|apt-get|apk|git)\b|https?:", text)
        for call in re.findall(r"pip\S* (?:--python \S+ )?(?:install|wheel)\b[^&]*", text):
            assert {"--require-hashes", "--no-index", "--no-build-isolation"} & set(call.split())
            assert "--no-deps" in call


def test_copied_files_exist_and_are_sent_to_the_builder():
    ignored = text_of(".dockerignore").splitlines()
    sent = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    copied = [word for text in texts("COPY") if "--from" not in text for word in text.split()[:-1]]
    assert "exporter" in copied
    for name in copied:
        assert (CHECKOUT / name).exists()
        assert any(fnmatch.fnmatch(name, entry) or name.startswith(f"{entry}/") for entry in sent)
