"""``--save`` and ``--against`` of observe. Their measurements are those of tests/fakes/references.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from spec_decode_exporter.cli import observe, observe_reference
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.references import ReferenceFileError, read
from tests.fakes.references import references

__all__ = ("references",)


@dataclass
class _Observed:
    """Observation whose measurement is a document; one part of it with ``--against`` a server."""

    document: object

    def view(self):
        return None


@pytest.fixture(name="run")
def run_fixture(monkeypatch, references, tmp_path):
    """Run the command in an empty directory, where servers show what was measured under a name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(observe_reference, "document_of", lambda observed: observed.document)

    def run(*words, shows="steady"):
        document = references[shows]

        async def measured(arguments, _, streams):
            class Observation:
                def observed(self):
                    return _Observed(document)

            progress = observe.ObservationOutput("text", 60, None, streams)
            progress.report = lambda _: None
            return await observe._result(arguments, Observation(), None, progress, None)

        monkeypatch.setattr(observe, "_measure", measured)
        arguments = parse(["observe", *words, "http://a"], {})
        observe_reference.check_reference_flags(arguments)
        return asyncio.run(observe._observe(arguments))

    return run


def save(run, **more):
    return run("--save", "a.json", **more)


def test_measurements_are_saved(run, tmp_path, references, capsys):
    assert save(run) == 0
    assert read(tmp_path / "a.json") == references["steady"]
    assert "a.json: saved, 'meta-llama/Llama-3.1-8B-Instruct' accepts 4" in capsys.readouterr().err


def test_a_measurement_is_never_replaced(run, tmp_path, references):
    save(run)
    with pytest.raises(ReferenceFileError, match=r"a\.json is there already; name another, or remove it"):
        save(run, shows="worse")
    assert read(tmp_path / "a.json") == references["steady"]


@pytest.mark.parametrize(
    ("shows", "status"), [("again", 0), ("a little worse", 0), ("worse", 4), ("longer", 3)]
)
def test_the_exit_status_depends_on_the_comparison(run, shows, status):
    save(run)
    assert run("--against", "a.json", shows=shows) == status


def test_a_reference_without_bounds_is_saved_with_a_warning(run, references, tmp_path, capsys):
    (model,) = references["steady"].models
    quantities = {name: one.model_copy(update=dict.fromkeys(("lower", "upper", "standard_error", "degrees"))) for name, one in model.measurement.quantities.items()}  # fmt: skip
    measurement = model.measurement.model_copy(update={"quantities": quantities})
    references["unsure"] = references["steady"].model_copy(
        update={"models": (model.model_copy(update={"measurement": measurement}),)}
    )
    assert save(run, shows="unsure") == 3
    assert "had too few requests" in capsys.readouterr().err
    assert (tmp_path / "a.json").exists()
    assert run("--against", "a.json") == 3


def test_a_missing_file_is_reported_before_the_measurement(run):
    with pytest.raises(ReferenceFileError, match=r"a\.json cannot be read: No such file or directory"):
        run("--against", "a.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "xml"), "invalid choice: 'xml'"),
    ],
)
def test_an_invalid_flag_does_not_exit_like_a_fall(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["observe", "--against", "a.json", *words], {})
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--against", "a", "--save", "b"), "use one"),
        (("--against", "a", "--format", "html"), "--format html needs --prometheus.url"),
        (
            ("--against", "a", "--format", "prometheus"),
            "--format prometheus is not for --against: use text, json$",
        ),
        (("--against", "a", "--every", "5s"), "--every is not for --against"),
        (("--against", "b:8000", "--replay", "x"), "give a file"),
        (("--save", "a", "--prometheus.url", "p:9090"), "--prometheus.url reports the past"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = parse(["observe", *words], {})
    with pytest.raises(UsageError, match=message):
        arguments.handle(arguments)


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
