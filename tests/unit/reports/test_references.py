"""Reference files: written atomically, read back, and rejected with a reason."""

import os

import pytest

from spec_decode_exporter.reports import references as references_module
from spec_decode_exporter.reports.references import (
    ReferenceFileError,
    check_free,
    read,
    read_rates,
    sealed,
    write,
)
from tests.fakes.references import measured
from tests.paths import DATA


@pytest.fixture(name="document")
def document_fixture():
    return measured("steady")


@pytest.fixture(name="path")
def path_fixture(tmp_path):
    return tmp_path / "reference.json"


def test_a_written_file_is_read_back(path, document):
    write(path, document)
    assert read(path) == document
    assert [each.name for each in path.parent.iterdir()] == ["reference.json"]


def test_a_name_may_be_as_long_as_the_file_system_allows(path, document):
    longest = path.with_name("n" * 255)
    check_free(longest)
    write(longest, document)
    assert read(longest) == document


def test_a_file_is_never_replaced(path, document):
    path.write_text("precious")
    for refused in (lambda: check_free(path), lambda: write(path, document)):
        with pytest.raises(ReferenceFileError, match="is there already; name another, or remove it"):
            refused()
    assert path.read_text() == "precious"
    assert [each.name for each in path.parent.iterdir()] == ["reference.json"]
    path.unlink()
    check_free(path)


def test_an_unwritable_file_is_known_before_the_measurement(tmp_path):
    with pytest.raises(ReferenceFileError, match="cannot be written: No such file or directory"):
        check_free(tmp_path / "missing" / "reference.json")
    with pytest.raises(ReferenceFileError, match="is not a plain file"):
        check_free(tmp_path)


def test_a_failure_leaves_no_file(path, document, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(references_module.os, "fsync", full)
    with pytest.raises(ReferenceFileError, match="cannot be written: No space left on device"):
        write(path, document)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not a usable reference: it is not JSON; save a new one"),
        (b"{}", "is not a usable reference: it is not a reference of this exporter; save a new one"),
        (sealed({}, version=2), "it has version 2; this exporter reads 1"),
        (sealed({}).replace(b'"data": {}', b'"data": {"a": 1}'), "it was changed or damaged"),
        (sealed({"seconds": -1}), "is not a usable reference: ended: Field required"),
    ],
)  # fmt: skip
def test_another_file_is_rejected_with_a_reason(path, content, reason):
    path.write_bytes(content)
    with pytest.raises(ReferenceFileError, match=reason):
        read(path)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("seconds",), 0),
        (("ended",), "2026-11-21T10:00:00"),
        (("models", 0, "model_name"), "x" * 5000),
        (("models", 0, "measurement", "position_accepted_tokens"), [1]),
        (("models", 0, "measurement", "quantities", "draft_acceptance_ratio", "lower"), 2.0),
        (("models", 0, "measurement", "quantities", "unheard_of"), {"value": 1.0}),
        (("engines", 0, "surprise"), 1),
    ],
)
def test_an_invented_file_is_rejected(path, document, where, value):
    data = document.model_dump(mode="json")
    *way, last = where
    place = data
    for step in way:
        place = place[step]
    place[last] = value
    path.write_bytes(sealed(data))
    with pytest.raises(ReferenceFileError, match=f"is not a usable reference: {where[0]}"):
        read(path)


@pytest.mark.parametrize("number", ["NaN", "1e999", "1" + "0" * 400, "1e300"])
def test_a_number_that_no_measurement_has_is_rejected(path, document, number):
    data = document.model_dump(mode="json") | {"seconds": 1.5}
    path.write_bytes(sealed(data).replace(b'"seconds": 1.5,', f'"seconds": {number},'.encode(), 1))
    with pytest.raises(ReferenceFileError, match="it was changed or damaged"):
        read(path)
    path.write_bytes(
        sealed(data | {"seconds": None}).replace(b'"seconds": null,', f'"seconds": {number},'.encode(), 1)
    )
    with pytest.raises(ReferenceFileError, match="seconds: Input should be a valid number"):
        read(path)


def test_a_missing_file_a_folder_and_a_pipe_are_rejected(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe"):
        with pytest.raises(ReferenceFileError, match="it is not a plain file"):
            read(tmp_path / name)
    with pytest.raises(ReferenceFileError, match="cannot be read: No such file or directory"):
        read(tmp_path / "missing.json")


def test_an_endless_file_is_read_to_the_limit(path, monkeypatch):
    monkeypatch.setattr(references_module, "MAX_BYTES", 10)
    path.write_bytes(b" " * 11)
    with pytest.raises(ReferenceFileError, match="it is larger than"):
        read(path)


def test_rates_are_those_of_the_selected_model(path, document):
    other = document.models[0].model_copy(update={"model_name": "other"})
    write(path, document.model_copy(update={"models": (*document.models, other)}))
    rate = document.models[0].acceptance.value
    assert read_rates(path, "other") == {4: rate}
    with pytest.raises(ValueError, match="holds several models; select one by `model_name`: meta-llama"):
        read_rates(path, None)
    with pytest.raises(ValueError, match="holds no acceptance of third; there is meta-llama"):
        read_rates(path, "third")
    path.write_text("x")
    with pytest.raises(ValueError, match="cannot be used"):
        read_rates(path, None)


def test_a_file_of_an_earlier_release_is_read():
    """Written before its models and engines had their present order of fields."""
    document = read(DATA / "references" / "reference_v1.json")
    assert [(model.model_name, model.engines, model.measurement.tokens) for model in document.models] == [
        ("meta-llama/Llama-3.1-8B-Instruct", 2, 4)
    ]
    assert document.models[0].acceptance.lower < document.models[0].acceptance.value
