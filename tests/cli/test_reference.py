"""The command line; what is measured is made up here, tests/reference and tests/e2e measure."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spec_decode_exporter.cli import reference
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.reference_file import read
from tests.reports.conftest import references

__all__ = ("references",)


@pytest.fixture(name="run")
def run_fixture(monkeypatch, references, tmp_path):
    """Run the command in an empty directory, where servers show what was measured under a name."""
    monkeypatch.chdir(tmp_path)

    def run(*words, shows="steady"):
        monkeypatch.setattr(reference, "_measure", lambda _: references[shows])
        arguments = parse(["reference", *words], {})
        return arguments.handle(arguments)

    return run


def test_measurements_are_saved(run, tmp_path, references, capsys):
    assert run("save", "a.json", "http://a") == 0
    assert read(tmp_path / "a.json") == references["steady"]
    assert capsys.readouterr().out.startswith("a.json: saved, 'meta-llama/Llama-3.1-8B-Instruct' accepts 4")


def test_a_reference_is_kept_without_force(run, tmp_path, references, capsys):
    run("save", "a.json", "http://a")
    assert run("save", "a.json", "http://a", shows="worse") == 1
    assert "a.json is there already; name another, or add --force" in capsys.readouterr().err
    assert run("save", "--force", "a.json", "http://a", shows="worse") == 0
    assert read(tmp_path / "a.json") == references["worse"]


@pytest.mark.parametrize(
    ("shows", "more", "status"),
    [
        ("again", (), 0),
        ("a little worse", (), 0),
        ("worse", (), 4),
        ("worse", ("--threshold", "20"), 0),
        ("a little worse", ("--threshold", "0.5"), 4),
        ("again", ("--threshold", "0"), 3),
        ("longer", (), 3),
    ],
)
def test_the_exit_status_depends_on_the_comparison(run, shows, more, status):
    run("save", "a.json", "http://a")
    assert run("compare", *more, "a.json", "http://a", shows=shows) == status


@pytest.mark.parametrize(
    ("form", "begins"),
    [("text", "Acceptance compared with a reference"), ("markdown", "# Acceptance"), ("json", "{")],
)
def test_it_is_written_in_the_selected_format(run, form, begins, capsys):
    run("save", "a.json", "http://a")
    capsys.readouterr()
    assert run("compare", "--format", form, "a.json", "http://a", shows="worse") == 4
    written = capsys.readouterr().out
    assert written.startswith(begins)
    if form == "json":
        assert json.loads(written)["outcome"] == "fell"


def test_a_reference_without_bounds_is_saved_with_a_warning(run, references, tmp_path, capsys):
    (model,) = references["steady"].models
    quantities = {name: one.model_copy(update=dict.fromkeys(("lower", "upper", "standard_error", "degrees"))) for name, one in model.measurement.quantities.items()}  # fmt: skip
    measurement = model.measurement.model_copy(update={"quantities": quantities})
    references["unsure"] = references["steady"].model_copy(
        update={"models": (model.model_copy(update={"measurement": measurement}),)}
    )
    assert run("save", "a.json", "http://a", shows="unsure") == 3
    assert "had too few requests" in capsys.readouterr().err
    assert (tmp_path / "a.json").exists()
    assert run("compare", "a.json", "http://a") == 3


def test_a_missing_file_is_reported_before_the_measurement(run, capsys, monkeypatch):
    assert run("compare", "a.json", "http://a") == 1
    assert "a.json cannot be read: No such file or directory" in capsys.readouterr().err


def test_an_action_is_required():
    arguments = parse(["reference"], {})
    with pytest.raises(UsageError, match="an action is missing"):
        arguments.handle(arguments)


def test_servers_have_the_flags_of_observe():
    """With every flag that says how to ask them."""
    words = ["save", "a.json", "http://a", "--speculative.method", "mtp", "--tls-config.ca-file", "ca.pem"]
    arguments = parse(["reference", *words], {})
    assert (arguments.urls, arguments.speculative_method, arguments.tls_config_ca_file) == (["http://a"], "mtp", "ca.pem")  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("save", "a.json", "http://a", "--for", "4s"), "'4s' is not between 5s and 1d"),
        (("save", "a.json", "http://a", "--for", "soon"), "'soon' is not a duration"),
        (("compare", "a.json", "http://a", "--threshold", "many"), "'many' is not a number of percentage points"),
        (("compare", "a.json", "http://a", "--threshold", "nan"), "'nan' is not a number of percentage points"),
        (("compare", "a.json", "http://a", "--threshold", "101"), "'101' is not a number of percentage points"),
        (("compare", "a.json", "http://a", "--format", "xml"), "invalid choice: 'xml'"),
        (("keep", "a.json"), "invalid choice: 'keep'"),
    ],
)  # fmt: skip
def test_an_invalid_flag_does_not_exit_like_a_fall(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["reference", *words], {})
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_reader_may_close_the_output_early(tmp_path, references):
    code = (
        "import sys; from spec_decode_exporter.cli.output import write_stdout\n"
        "sys.stdin.read(); write_stdout('a' * 1_000_000); sys.exit(2)"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as found:
        found.stdout.close()
        found.stdin.close()
        assert found.wait(30) == 2
        assert found.stderr.read() == b""
