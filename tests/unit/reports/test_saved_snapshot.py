"""Saved observations: written once, read back, and rejected with a reason."""

import json
import os

import pytest

from spec_decode_exporter.reports import saved_snapshot
from spec_decode_exporter.reports.saved_snapshot import (
    SavedFileError,
    check_free,
    read_observation,
    read_rates,
    write,
)
from tests.fakes.references import measured, saved


@pytest.fixture(name="path")
def path_fixture(tmp_path):
    return tmp_path / "before.json"


def test_a_written_observation_is_read_back_and_is_the_ordinary_json(path):
    write(path, measured("steady"))
    assert read_observation(path).models == saved("steady").models == measured("steady").models
    assert json.loads(path.read_text()) == measured("steady").model_dump(mode="json")
    assert [each.name for each in path.parent.iterdir()] == ["before.json"]


def test_a_file_is_never_replaced(path):
    path.write_text("precious")
    with pytest.raises(SavedFileError, match="is there already; name another, or remove it"):
        check_free(path)
    with pytest.raises(SavedFileError, match="cannot be written: File exists"):
        write(path, measured("steady"))
    assert path.read_text() == "precious"
    path.unlink()
    check_free(path)


def test_an_unwritable_file_is_known_before_the_measurement(tmp_path):
    with pytest.raises(SavedFileError, match="cannot be written: its folder is missing"):
        check_free(tmp_path / "missing" / "before.json")


def test_what_could_not_be_read_again_is_not_written(path, monkeypatch):
    monkeypatch.setattr(saved_snapshot, "MAX_BYTES", 1000)
    with pytest.raises(SavedFileError, match="measure fewer targets"):
        write(path, measured("steady"))
    assert not path.exists()


NEITHER = "is neither a response of /api/v1/snapshot nor the output of observe --format json of this version"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", NEITHER),
        ("{}", NEITHER),
        ('{"format": "spec-decode-exporter reference", "version": 1, "data": {}}', NEITHER),
        (json.dumps({"engines": [], "seconds": 60.0}), "no measured models; write one with `observe --save`"),
    ],
)
def test_another_file_is_rejected_with_its_name_and_a_remedy(path, content, reason):
    path.write_text(content)
    with pytest.raises(SavedFileError, match=rf"before\.json.*{reason}"):
        read_observation(path)


def test_a_snapshot_of_the_api_is_no_observation(path):
    observed = measured("steady").model_dump(mode="json")
    path.write_text(json.dumps({key: value for key, value in observed.items() if key != "seconds"}))
    with pytest.raises(SavedFileError, match="it has no measured models"):
        read_observation(path)


def test_a_missing_file_a_folder_and_a_pipe_are_rejected(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe"):
        with pytest.raises(SavedFileError, match="it is not a plain file"):
            read_observation(tmp_path / name)
    with pytest.raises(SavedFileError, match="cannot be read: No such file or directory"):
        read_observation(tmp_path / "missing.json")


def test_rates_are_those_of_the_selected_model(path):
    observed = measured("steady").model_dump(mode="json")
    observed["models"].append({**observed["models"][0], "model_name": "other"})
    path.write_text(json.dumps(observed))
    assert read_rates(path, "other") == {4: saved("steady").models[0].acceptance.value}
    with pytest.raises(ValueError, match="holds several models; select one by `model_name`: meta-llama"):
        read_rates(path, None)
    with pytest.raises(ValueError, match="holds no acceptance of third; there is meta-llama"):
        read_rates(path, "third")
    path.write_text("x")
    with pytest.raises(ValueError, match="cannot be used"):
        read_rates(path, None)
