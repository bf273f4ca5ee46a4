"""Whatever is fetched is fixed: actions by commit, images by digest, packages by theirs; workflows may do little."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.paths import CHECKOUT

WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKED = "requirements-dev.lock"
ACTION = re.compile(r"(?P<name>[a-z0-9-]+/[a-z0-9-]+)@(?P<commit>[0-9a-f]{40}) # (?P<version>v\d+\.\d+\.\d+)")
IMAGE = re.compile(r"[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}")
OWN_IMAGE = "spec-decode-exporter"


def used():
    """Yield what every step and every reused workflow names, with its comment."""
    for path in WORKFLOWS:
        for line in path.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*-?\s*uses: (.+)", line)
            if match:
                yield match[1]


def jobs():
    return [
        pytest.param(job, id=f"{path.name} {name}")
        for path in WORKFLOWS
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
    ]


@pytest.mark.parametrize("text", sorted(set(used())))
def test_every_action_is_pinned_by_its_commit_with_a_comment_of_the_version(text):
    assert text.startswith("./.github/workflows/") or ACTION.fullmatch(text), text


def test_an_action_has_the_same_version_everywhere():
    matches = [ACTION.fullmatch(text) for text in used()]
    fixed = {(match["name"], match["commit"], match["version"]) for match in matches if match}
    assert len(fixed) > 5
    assert len({name for name, *_ in fixed}) == len(fixed)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_only_the_permissions_of_its_jobs(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {}


@pytest.mark.parametrize("job", jobs())
def test_a_job_has_permissions_and_a_timeout(job):
    assert job["permissions"]
    assert set(job["permissions"].values()) <= {"read", "write"}
    assert "uses" in job or 0 < job["timeout-minutes"] <= 60


@pytest.mark.parametrize("job", jobs())
def test_only_the_release_signs_and_no_text_of_a_request_reaches_a_shell(job):
    for step in job.get("steps", ()):
        assert "${{" not in step.get("run", ""), step
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_the_cluster_s_program_and_image_are_fixed_and_the_tests_of_the_chart_run_in_it():
    job = yaml.safe_load((CHECKOUT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"][
        "cluster"
    ]
    runs = [step.get("run", "") for step in job["steps"]]
    assert IMAGE.fullmatch(job["env"]["NODE"])
    assert re.fullmatch("[0-9a-f]{64}", job["env"]["KIND_SHA256"])
    assert any('"$KIND_SHA256  /tmp/kind" | sha256sum --check' in run for run in runs)
    assert runs[-1] == "make e2e-k8s"


def test_pull_requests_of_forks_run_without_permissions():
    for path in WORKFLOWS:
        triggers = yaml.safe_load(path.read_text(encoding="utf-8"))[True]  # `on` is a yes to YAML 1.1
        assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers)


def test_the_only_secret_is_the_jobs_own_token():
    for path in WORKFLOWS:
        assert set(re.findall(r"secrets\.(\w+)", path.read_text(encoding="utf-8"))) <= {"GITHUB_TOKEN"}


def test_every_image_of_the_stack_is_fixed_by_its_digest():
    services = yaml.safe_load((CHECKOUT / "config" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    images = {service["image"] for service in services.values()}
    others = {image for image in images if not image.startswith(f"{OWN_IMAGE}:")}
    assert len(others) >= 4
    assert all(map(IMAGE.fullmatch, others)), others


def locked():
    """Return version and digests of every package of the lock that tests and releases run with."""
    text = re.sub(r"\\\n", " ", (CHECKOUT / LOCKED).read_text(encoding="utf-8"))
    entries = [line for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
    return [(Requirement(entry.split(" --hash")[0]), entry.count("--hash=sha256:")) for entry in entries]


def test_every_lock_is_checked_against_the_advisories():
    locks = {
        path
        for place in ("*.lock", "docs/**/*.lock", "image/*.lock", "tests/**/*.lock")
        for path in CHECKOUT.glob(place)
    }
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    (named,) = re.findall(r"^LOCKS *:= (.+)", makefile, re.MULTILINE)
    assert sorted(named.split()) == sorted(str(path.relative_to(CHECKOUT)) for path in locks)
    assert (
        "pip-audit"
        in re.search(r"^\tfor lock in \$\(LOCKS\); do.*?done", makefile, re.MULTILINE | re.DOTALL)[0]
    )


@pytest.mark.parametrize("name", ["prometheus", "prometheus-alertmanager", "slowhttptest"])
def test_the_public_ci_installs_every_optional_program_of_the_tests(name):
    public = (CHECKOUT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (line,) = re.findall("apt-get install .*", public)
    assert name in line.split()


def groups():
    listed = [*PYPROJECT["dependency-groups"].items(), ("build", PYPROJECT["build-system"]["requires"])]
    # `bench` is for one machine's figures, and runs nowhere else.
    return [Requirement(text) for name, texts in listed if name != "bench" for text in texts]


def test_every_locked_package_of_tests_and_releases_has_digests_and_no_index():
    assert len(locked()) > 50
    assert all(digests for _, digests in locked())
    assert not re.search(r"https?:|index-url|--find-links|file:", (CHECKOUT / LOCKED).read_text())


@pytest.mark.parametrize("requirement", groups(), ids=str)
def test_the_lock_of_tests_has_the_packages_of_pyproject(requirement):
    versions = [
        next(iter(one.specifier)).version
        for one, _ in locked()
        if one.name.replace("_", "-") == requirement.name.replace("_", "-").lower()
    ]
    assert versions, "run `make lock`"
    assert all(requirement.specifier.contains(version) for version in versions), "run `make lock`"


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
