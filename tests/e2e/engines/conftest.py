"""Shared fixtures: the location of each engine, and a table of comparisons. ``watch.row`` makes its rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

HERE = Path(__file__).parent
NEEDS = {
    "vllm": ("VLLM_VENV", "VLLM_MODELS"),
    "llamacpp": ("LLAMACPP", "LLAMACPP_MODELS"),
    "collectors": ("VLLM_VENV", "LMDEPLOY"),
}
"""Environment variables by engine, a folder with its tests."""

# The modules beside the tests are imported from these folders, wherever pytest was started.
sys.path[:0] = [str(HERE), *(str(HERE / engine) for engine in NEEDS)]

# A failed comparison shows its values wherever it is written.
pytest.register_assert_rewrite("compare", "counted", "drop", "watch")

if TYPE_CHECKING:
    from process import Server
    from watch import Watch

TABLE = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow for slow starts and phases of minutes; in front of the limit that other end-to-end tests have."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(1800), append=False)


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    """End the run with a remedy if the environment of the engine is not configured."""
    if missing := set(NEEDS[request.path.parent.name]) - os.environ.keys():
        names = ", ".join(sorted(missing))
        pytest.exit(f"{names}: start these tests with tests/e2e/engines/run", returncode=4)


@pytest.fixture(scope="module")
def watching(server: Server) -> Iterator[Watch]:
    """Return an exporter that watches the server of a module."""
    from watch import watch

    with watch(server.name, server.url) as watching:
        yield watching


@pytest.fixture(scope="session")
def remark(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Add a line to the report at the end of the run."""
    lines = request.config.stash.setdefault(TABLE, [])
    return lines.append


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Print the table after everything else."""
    yield
    if lines := terminalreporter.config.stash.get(TABLE, []):
        from watch import HEAD

        terminalreporter.section("responses | exporter")
        terminalreporter.write_line(HEAD)
        for line in lines:
            terminalreporter.write_line(line)
