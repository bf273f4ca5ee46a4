"""The command line; what is measured is made up here, tests/reference and tests/e2e measure."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spec_decode_exporter.cli import reference
from spec_decode_exporter.cli.flags import UsageError
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.reports.reference.reference_file import read
from tests.reports.reference.conftest import references

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


def test_what_was_measured_is_saved(run, tmp_path, references, capsys):
    assert run("save", "a.json", "http://a") == 0
    assert read(tmp_path / "a.json") == references["steady"]
    assert capsys.readouterr().out.startswith("a.json: saved, 'meta-llama/Llama-3.1-8B-Instruct' accepts 4")


def test_a_reference_is_kept_unless_it_is_to_be_replaced(run, tmp_path, references, capsys):
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
        ("worse", (), 2),
        ("worse", ("--threshold", "20"), 0),
        ("a little worse", ("--threshold", "0.5"), 2),
        ("again", ("--threshold", "0"), 3),
        ("longer", (), 3),
    ],
)
def test_the_exit_status_says_what_became_of_acceptance(run, shows, more, status):
    run("save", "a.json", "http://a")
    assert run("compare", *more, "a.json", "http://a", shows=shows) == status


@pytest.mark.parametrize(
    ("form", "begins"),
    [("text", "Acceptance compared with a reference"), ("markdown", "# Acceptance"), ("json", "{")],
)
def test_it_is_written_as_is_asked_for(run, form, begins, capsys):
    run("save", "a.json", "http://a")
    capsys.readouterr()
    assert run("compare", "--format", form, "a.json", "http://a", shows="worse") == 2
    written = capsys.readouterr().out
    assert written.startswith(begins)
    if form == "json":
        assert json.loads(written)["outcome"] == "fell"


def test_a_reference_that_has_bounds_of_nothing_is_saved_and_said_to_be_so(run, references, tmp_path, capsys):
    (model,) = references["steady"].models
    quantities = {name: one.model_copy(update=dict.fromkeys(("lower", "upper", "standard_error", "degrees"))) for name, one in model.measurement.quantities.items()}  # fmt: skip
    measurement = model.measurement.model_copy(update={"quantities": quantities})
    references["unsure"] = references["steady"].model_copy(
        update={"models": (model.model_copy(update={"measurement": measurement}),)}
    )
    assert run("save", "a.json", "http://a", shows="unsure") == 3
    assert "too few requests passed through" in capsys.readouterr().err
    assert (tmp_path / "a.json").exists()
    assert run("compare", "a.json", "http://a") == 3


def test_a_file_that_is_none_is_told_before_anything_is_measured(run, capsys, monkeypatch):
    assert run("compare", "a.json", "http://a") == 1
    assert "a.json cannot be read: No such file or directory" in capsys.readouterr().err


def test_what_to_do_must_be_said():
    arguments = parse(["reference"], {})
    with pytest.raises(UsageError, match="say what to do"):
        arguments.handle(arguments)


def test_servers_are_named_as_for_observe():
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
def test_what_cannot_be_asked_for_does_not_end_like_a_fall(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["reference", *words], {})
    assert ended.value.code == 1
    assert message in capsys.readouterr().err


def test_nobody_need_read_it_to_the_end(tmp_path, references):
    code = (
        "import sys; from spec_decode_exporter.cli.reference import _say\n"
        "sys.stdin.read(); _say('a' * 1_000_000); sys.exit(2)"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as found:
        found.stdout.close()
        found.stdin.close()
        assert found.wait(30) == 2
        assert found.stderr.read() == b""
