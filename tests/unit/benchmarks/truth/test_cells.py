"""Cells cover what is served, fit into memory, and know their truth."""

import pytest

from benchmarks.truth.cells import LOADS, cells
from benchmarks.truth.feed import LENGTHS
from benchmarks.truth.models import TARGETS, Method
from benchmarks.truth.sources import Recording
from spec_decode_exporter.figures.window_figures import WindowFigures


@pytest.fixture(name="drawn", scope="module")
def fixture_drawn():
    return list(cells(1, 144))


def test_cells_have_all_targets_methods_and_loads_and_fit_into_memory(drawn):
    assert {cell.server.target for cell in drawn} == set(TARGETS)
    assert {cell.method for cell in drawn} == set(Method)
    assert {cell.running for cell in drawn} == set(LOADS)
    for cell in drawn:
        server, shape = cell.server, cell.server.target.shape
        copies = 1 if shape.kv_is_sharded else server.target.tensor_parallel
        needed = shape.total_parameters * shape.weight_bytes
        needed += cell.running * server.context * shape.kv_bytes * copies
        assert needed < server.gpu.memory * server.target.tensor_parallel


def test_the_truth_is_the_ratio_of_the_decode_times_per_token(drawn):
    for cell in drawn[:20]:
        kappa = cell.step_seconds / cell.plain_at(cell.running)
        assert cell.truth == pytest.approx(cell.means.tokens_per_step / kappa)
        drafted = cell.means.coverage * cell.means.draft_length
        assert 1 + drafted * cell.cost_at(cell.running) == pytest.approx(kappa)


def test_some_cells_are_slower_with_speculation_and_most_are_faster(drawn):
    truths = [cell.truth for cell in drawn[::4]]
    assert 0.1 < sum(truth < 0.97 for truth in truths) / len(truths) < 0.5
    assert all(0.1 < truth < 6 for truth in truths)


def test_the_exporter_reads_the_windows_that_were_drawn(drawn):
    cell = next(cell for cell in drawn if cell.running == 4)
    recording = Recording(cell)
    short, long = recording.windows
    assert (short.length, long.length, long.seconds) == (*LENGTHS, LENGTHS[-1])
    before, last = recording.drafting[-301], recording.drafting[-1]
    assert long.total.drafts == last.drafts - before.drafts
    assert sum(long.positions) == long.total.accepted_tokens
    assert WindowFigures(long).effective_tokens_per_step == pytest.approx(cell.means.tokens_per_step, rel=0.2)
