"""``--save`` and ``--against`` of observe. The measurement is the recorded one of tests/data/references."""

import asyncio
from types import SimpleNamespace

import pytest

from spec_decode_exporter.cli import observe, observe_reference
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.reports.references import MeasuredFigure, ReferenceFileError, read
from tests.paths import DATA

STEADY = read(DATA / "references" / "reference_v1.json")


def without_bounds():
    """Return the measurement, whose figures have no bounds."""
    (model,) = STEADY.models
    figures = model.measurement.quantities.items()
    quantities = {name: MeasuredFigure(value=figure.value) for name, figure in figures}
    measurement = model.measurement.model_copy(update={"quantities": quantities})
    return STEADY.model_copy(update={"models": (model.model_copy(update={"measurement": measurement}),)})


UNSURE = without_bounds()


@pytest.fixture(name="run")
def run_fixture(monkeypatch, tmp_path):
    """Run the command in an empty directory, where servers show a measurement."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(observe_reference, "document_of", lambda observed: observed.document)

    def run(*words, shows=STEADY):
        async def measured(arguments, _, streams):
            observed = SimpleNamespace(document=shows, view=lambda: None)
            progress = observe.ObservationOutput("text", 60, None, streams)
            progress.report = lambda _: None
            observation = SimpleNamespace(observed=lambda: observed)
            return await observe._result(arguments, observation, None, progress, None)

        monkeypatch.setattr(observe, "_measure", measured)
        arguments = parse(["observe", *words, "http://a"], {})
        observe_reference.check_reference_flags(arguments)
        return asyncio.run(observe._observe(arguments))

    return run


def test_a_measurement_is_saved_and_never_replaced(run, tmp_path, capsys):
    assert run("--save", "a.json") == 0
    assert "a.json: saved, 'meta-llama/Llama-3.1-8B-Instruct' accepts 4" in capsys.readouterr().err
    with pytest.raises(ReferenceFileError, match=r"a\.json is there already; name another, or remove it"):
        run("--save", "a.json", shows=UNSURE)
    assert read(tmp_path / "a.json") == STEADY


def test_a_reference_without_bounds_is_saved_with_a_warning(run, tmp_path, capsys):
    assert run("--save", "a.json", shows=UNSURE) == 3
    assert "had too few requests" in capsys.readouterr().err
    assert (tmp_path / "a.json").exists()
    assert run("--against", "a.json") == 3


@pytest.mark.parametrize(
    ("text", "is_server"),
    [("http://b/metrics", True), ("b:8000", True), ("b:8000/metrics", True), ("b.json", False), ("/tmp/b:8", False)],
)  # fmt: skip
def test_an_address_is_a_server_and_anything_else_a_file(text, is_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = parse(["observe", "--against", text, "--speculative.method", "mtp", "http://a"], {})
    arguments.seconds = 60.0
    server = observe_reference.server_of(arguments, {})
    assert (server is not None) is is_server
    if server is not None:
        assert (server.name.partition("/")[0].partition(":")[0], server.speculative.method) == ("b", "mtp")
