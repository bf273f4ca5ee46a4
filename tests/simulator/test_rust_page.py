from __future__ import annotations

from spec_decode_exporter.simulator.rust_page import rust_page


def page(simulation):
    return rust_page(simulation).decode()


def test_the_lines_are_those_of_the_recorded_page(make_simulation, recorded):
    simulation = make_simulation(front_end="rust", model_name="tiny")
    simulation.advance(60)
    described, series = lines(page(simulation)), lines(recorded("vllm-0.32.0-rust-k4.om"))
    # A recorded page has the reasons that ended a request, a simulated one all.
    assert all("finished_reason" in line for line in described - series)
    assert len(described) > 400


def lines(text):
    """Return the comments, and the series without their values."""
    return {line if line.startswith("#") else line.rpartition(" ")[0] for line in text.splitlines()}
