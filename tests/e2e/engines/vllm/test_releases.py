"""Other releases and front ends of vLLM: Python 0.33, Rust 0.32, Rust 0.33.

``run`` prepares them from CUDA wheels. One that is missing is skipped with the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from clients import VLLM, Body, Load, Truth, drive
from compare import check_counters, check_windows
from process import Server, get
from vllm_server import draft_model, vllm
from watch import state

SECONDS = 20


@dataclass(frozen=True)
class Release:
    """One version of vLLM behind one front end."""

    front_end: str
    version: str
    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""  # file that ``run`` could not prepare; empty if the release can be tested
    per_request: bool = False  # whether it starts with the options for metrics of each response

    def __str__(self) -> str:
        return f"{self.front_end} {self.version}"


def releases() -> Iterator[Release]:
    """Yield what ``VLLM_RELEASES``, a folder, should have: an overlay of 0.33, and the Rust binary of 0.32."""
    folder = Path(os.environ.get("VLLM_RELEASES", ".e2e/releases")).absolute()
    newer, rust = folder / "0.33.0", folder / "0.32.0" / "vllm" / "vllm-rs"
    path = {"PYTHONPATH": str(newer)}
    yield Release("python", "0.33.0", environment=path, missing=_missing(newer), per_request=True)
    yield Release("rust", "0.32.0", environment=_rust(rust), missing=_missing(rust))
    newer_rust = newer / "vllm" / "vllm-rs"
    environment = {**path, **_rust(newer_rust)}
    yield Release(
        "rust", "0.33.0", ("--enable-scale-out",), environment, _missing(newer_rust), per_request=True
    )


def _missing(path: Path) -> str:
    return "" if path.exists() else str(path)


def _rust(binary: Path) -> Mapping[str, str]:
    return {"VLLM_USE_RUST_FRONTEND": "1", "VLLM_RUST_FRONTEND_PATH": str(binary)}


@pytest.fixture(scope="module", params=releases(), ids=str, name="release")
def release_fixture(request: pytest.FixtureRequest) -> Release:
    if request.param.missing:
        pytest.skip(f"NOT TESTED: vLLM {request.param}: {request.param.missing} is missing")
    return request.param


@pytest.fixture(scope="module")
def server(release: Release) -> Iterator[Server]:
    name = str(release).replace(" ", "-")
    flags = (*draft_model(4), *release.flags)
    with vllm(name, *flags, more_environment=release.environment, per_request=release.per_request) as server:
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
