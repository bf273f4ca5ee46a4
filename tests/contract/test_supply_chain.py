"""Whatever is fetched is fixed: actions by commit, images by digest, packages by theirs; workflows may do little."""

import re
import tomllib
from collections import defaultdict

import yaml
from packaging.requirements import Requirement

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


# Locks

LOCKS = sorted(
    str(path.relative_to(CHECKOUT))
    for place in ("*.lock", "image/*.lock", "tests/**/*.lock")
    for path in CHECKOUT.glob(place)
)
EXTRAS = ("auth", "dns")  # what the image has besides what is needed; image/lock says so too


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
    "image/requirements.lock": [
        *PYPROJECT["project"]["dependencies"],
        *(text for extra in EXTRAS for text in PYPROJECT["project"]["optional-dependencies"][extra]),
    ],
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


# Images


def test_every_image_of_the_stack_is_fixed_by_its_digest():
    services = yaml.safe_load(text_of("config", "compose.yaml"))["services"].values()
    others = {each["image"] for each in services if not each["image"].startswith(f"{OWN_IMAGE}:")}
    assert len(others) >= 4
    assert all(map(IMAGE.fullmatch, others)), others


def test_the_base_is_fixed_by_digest_and_every_stage_begins_with_it_an_earlier_one_or_nothing():
    text = re.sub(r"^#.*\n", "", text_of("Dockerfile"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    instructions = [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]
    assert instructions[0][0] == "ARG"
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", instructions[0][1])
    known, stages = {"${BASE}", "scratch"}, [text for name, text in instructions if name == "FROM"]
    for text in stages:
        origin, *name = text.split(" AS ")
        assert origin in known
        known.update(name)
    assert stages[-1] == "scratch"
