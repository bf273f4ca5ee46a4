from __future__ import annotations

import pytest

from spec_decode_exporter.config.load import active_yaml

SALT = "0123456789abcdef"


def test_a_salt_in_a_file_is_read_without_the_white_space_around_it(read, tmp_path):
    (tmp_path / "salt").write_text(f"{SALT}\n")
    config = read("requests: {users: {salt_file: salt}}")
    assert config.requests.users.key == SALT.encode()
    assert SALT not in active_yaml(config)


def test_another_salt_in_the_same_file_is_another_configuration(read, tmp_path):
    (tmp_path / "salt").write_text(SALT)
    before = read("requests: {users: {salt_file: salt}}")
    (tmp_path / "salt").write_text(SALT * 2)
    assert read("requests: {users: {salt_file: salt}}").requests != before.requests


@pytest.mark.parametrize(
    ("keys", "reported"),
    [
        ("{users: {}}", ".users has no salt; add `salt_file`"),
        (
            "{users: {salt_file: salt}}",
            ".users has a salt of less than 16 bytes; `openssl rand -hex 32` writes one",
        ),
        ("{users: {salt_file: nowhere}}", ".users.salt_file names a file that cannot be read"),
        ("{temperatures: [1, 0]}", ".temperatures do not ascend; write each bound once, the lowest first"),
        ("{temperatures: []}", ".temperatures must not be empty"),
        ("{rate: 0}", ".rate must be at least 1"),
    ],
)
def test_a_mistake_is_reported_without_the_secret(mistakes, tmp_path, keys, reported):
    (tmp_path / "salt").write_text("hunter2")
    (mistake,) = mistakes(f"requests: {keys}")
    assert mistake.startswith(f"1: requests{reported}")
    assert "hunter2" not in mistake
