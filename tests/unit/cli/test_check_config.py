"""Command check-config: every mistake and warning of a file."""

TARGET = "targets:\n  - url: http://a:1\n"


def test_an_unknown_method_is_a_warning(program, tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("targets:\n  - {url: http://a:1, speculative: {method: ngarm}}\n")
    status, out, error = program("check-config", str(file))
    assert (status, out) == (0, f"{file}: valid, 1 target\n")
    assert error.startswith(f"{file}: warning: targets[0].speculative.method: 'ngarm' is no")
    assert error.endswith("did you mean ngram?\n")


def test_every_mistake_is_listed(program, tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("poll:\n  intervall: 1s\nwindows: [10s]\ntargets:\n  - url: ftp://a\n")
    status, _, error = program("check-config", str(file))
    assert status == 1
    assert f"{file}:2: poll.intervall" in error
    assert f"{file}:5: targets[0].url" in error


def test_a_web_configuration_is_checked_by_its_own_schema(program, tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text(f"basic_auth_users: {{a: $2y$10${'x' * 53}}}\n")
    assert program("check-config", "--web", str(file)) == (0, f"{file}: valid\n", "")
    file.write_text("basic_auth_users: {a: plain}\n")
    status, _, error = program("check-config", "--web", str(file))
    assert status == 1
    assert f"{file}:1: basic_auth_users.a is not a bcrypt hash" in error
