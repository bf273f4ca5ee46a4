"""``--save`` and ``--against`` of observe."""

import asyncio
from types import SimpleNamespace

import pytest

from spec_decode_exporter.cli import observe, observe_files
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.reports.observation_view import Measured
from spec_decode_exporter.reports.saved_snapshot import SavedFileError, read_observation
from tests.fakes.references import measured

STEADY = measured("steady")


def without_bounds():
    (model,) = STEADY.models
    figures = {name: Measured(value=figure.value) for name, figure in model.figures.items()}
    model = model.model_copy(update={"figures": figures})
    document = {**STEADY.model_dump(mode="json"), "models": [model.model_dump(mode="json")]}
    return SimpleNamespace(
        models=(model,), engines=STEADY.engines, targets=(), model_dump=lambda **_: document
    )


UNSURE = without_bounds()


@pytest.fixture(name="run")
def run_fixture(monkeypatch, tmp_path):
    """Run the command in an empty directory, where servers give an observation."""
    monkeypatch.chdir(tmp_path)

    def run(*words, shows=STEADY):
        async def measure(arguments, *_):
            observation = SimpleNamespace(observed=lambda: shows)
            return await observe._result(arguments, observation, None)

        monkeypatch.setattr(observe, "_measure", measure)
        monkeypatch.setattr(observe, "report", lambda *_: "")
        arguments = parse(["observe", *words, "http://a"], {})
        observe_files.check_reference_flags(arguments)
        return asyncio.run(observe._observe(arguments))

    return run


def test_a_measurement_is_saved_and_never_replaced(run, tmp_path, capsys):
    assert run("--save", "a.json") == 0
    assert "a.json: saved, 'meta-llama/Llama-3.1-8B-Instruct' accepts 4" in capsys.readouterr().err
    with pytest.raises(SavedFileError, match=r"a\.json is there already; name another, or remove it"):
        run("--save", "a.json", shows=UNSURE)
    assert read_observation(tmp_path / "a.json").models == STEADY.models


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
    server = observe_files.server_of(arguments, {})
    assert (server is not None) is is_server
    if server is not None:
        assert (server.name.partition("/")[0].partition(":")[0], server.speculative.method) == ("b", "mtp")
