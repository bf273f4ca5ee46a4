from __future__ import annotations

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
