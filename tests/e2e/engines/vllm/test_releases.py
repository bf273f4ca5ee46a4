"""Other releases and front ends of vLLM: Python 0.33, Rust 0.32, Rust 0.33.

``run`` prepares them from CUDA wheels. One that is missing is skipped with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients import VLLM, Body, Load, Truth, drive
from compare import check_counters, check_windows
from process import Server, get
from vllm_server import RELEASES, draft_model, vllm
from watch import state

SECONDS = 20
NEWER = RELEASES / "0.33.0"
RUST = Path("vllm", "vllm-rs")


@dataclass(frozen=True)
class Release:
    """One version of vLLM behind one front end."""

    front_end: str
    version: str
    needs: Path  # what ``run`` makes for it, where it can
    flags: tuple[str, ...] = ()
    per_request: bool = True  # whether it starts with the options for metrics of each response

    def __str__(self) -> str:
        return f"{self.front_end} {self.version}"


pytestmark = pytest.mark.parametrize(
    "release",
    [
        Release("python", "0.33.0", NEWER),
        Release("rust", "0.32.0", RELEASES / "0.32.0" / RUST, per_request=False),
        Release("rust", "0.33.0", NEWER / RUST, ("--enable-scale-out",)),
    ],
    ids=str,
    scope="module",
)


@pytest.fixture(scope="module")
def server(release: Release) -> Iterator[Server]:
    if not release.needs.exists():
        pytest.skip(f"NOT TESTED: vLLM {release}: {release.needs} is missing")
    environment = {"PYTHONPATH": str(NEWER)} if release.version == "0.33.0" else {}
    if release.front_end == "rust":
        environment |= {"VLLM_USE_RUST_FRONTEND": "1", "VLLM_RUST_FRONTEND_PATH": str(release.needs)}
    name = str(release).replace(" ", "-")
    flags = (*draft_model(4), *release.flags)
    with vllm(name, *flags, more_environment=environment, per_request=release.per_request) as server:
        yield server


def usage(body: Body) -> Truth:
    """Read a response without metrics of its own."""
    return Truth(requests=1, generation_tokens=body["usage"]["completion_tokens"])


def test_the_version_and_the_front_end_are_those_of_the_release(server, watching, release):
    assert json.loads(get(f"{server.url}/version"))["version"].startswith(release.version)
    assert watching.settled().find("spec_decode_exporter_target_info", front_end=release.front_end)


def test_the_counters_are_those_of_the_responses(server, watching, release, remark):
    before = state(watching.settled())
    if release.front_end == "rust":
        assert before == "unknown"
        truth = drive(server.url, Load(temperature=0, seconds=SECONDS, api=VLLM._replace(truth=usage)))
        page = watching.settled()
        assert page.sum("spec_decode_first_tokens_total") == truth.requests
        assert page.sum("spec_decode_generation_tokens_total") == truth.generation_tokens
    else:
        truth = drive(server.url, Load(temperature=0, seconds=SECONDS))
        page = watching.settled()
        check_counters(page, truth)
        check_windows(page, truth)
    drafts = page.sum("spec_decode_drafts_total")
    remark(
        f"{release}: {truth.generation_tokens} tokens, {drafts:.0f} drafts, state {before} and then {state(page)}"
    )
    assert state(page) == "active"
    assert sum(page.positions("spec_decode_position_accepted_tokens_total")) == page.sum(
        "spec_decode_accepted_tokens_total"
    )


def test_decode_steps_do_not_lag(watching, release):
    page = watching.settled()
    assert page.sum("spec_decode_coverage_ratio", window="30s") == pytest.approx(1.0, abs=0.02)
    assert page.sum("spec_decode_effective_tokens_per_step", window="30s") > 1
