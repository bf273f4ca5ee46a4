from __future__ import annotations

import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.web.security.live_config import LiveWebConfig
from spec_decode_exporter.web.security.schema import IF_GIVEN, VERIFIED

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "web.md").read_text()
CA = "client_ca_file: authority.pem"
HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
USERS = f"basic_auth_users:\n  alice: {HASH}\n"
CERTIFICATE = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"


def replace(path, content):
    """Replace a file atomically, as a rotation of certificates does."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def rotate(folder, authority, *names):
    issued = authority.issue_cert(*names)
    replace(folder.path / "server.key", issued.private_key_pem.bytes())
    replace(folder.path / "server.pem", issued.cert_chain_pems[0].bytes())


@pytest.fixture
def live(folder, clock):
    def make(text):
        return LiveWebConfig(folder.write(text), clock)

    return make


async def test_a_new_user_and_a_new_certificate_apply(live, folder, authority):
    config = live(CERTIFICATE + USERS)
    before = config.context()
    with capture_logs() as logs:
        replace(folder.path / "web.yml", (CERTIFICATE + USERS + f"  bob: {HASH}\n").encode())
        await config.check()
        assert set(config.current.settings.basic_auth_users) == {"alice", "bob"}
        first = config.context()
        rotate(folder, authority, "other.example")
        await config.check()
    assert len({before, first, config.context()}) == 3
    assert [entry["event"] for entry in logs] == ["web_config_reloaded"] * 2


async def test_a_changed_link_of_a_kubernetes_secret_is_noticed(tmp_path, clock):
    for name, text in (("one", ""), ("two", USERS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "web.yml").write_text(text)
    (tmp_path / "data").symlink_to("one")
    (tmp_path / "web.yml").symlink_to("data/web.yml")
    config = LiveWebConfig(tmp_path / "web.yml", clock)
    (tmp_path / "data.new").symlink_to("two")
    (tmp_path / "data.new").replace(tmp_path / "data")
    await config.check()
    assert config.current.settings.basic_auth_users


@pytest.mark.parametrize("broken", [b"basic_auth_users: {}\n", b"\xff", b"nonsense: 1\n", None])
async def test_an_invalid_file_is_logged_once_and_the_previous_version_stays_active(live, folder, broken):
    config = live(USERS)
    path = folder.path / "web.yml"
    with capture_logs() as logs:
        path.unlink() if broken is None else replace(path, broken)
        for _ in range(3):
            await config.check()
        assert not config.successful
        assert set(config.current.settings.basic_auth_users) == {"alice"}
        replace(path, USERS.encode())
        await config.check()
    assert config.successful
    assert [entry["event"] for entry in logs] == ["web_config_reload_failed", "web_config_reloaded"]
    assert str(path) in logs[0]["problems"]


async def test_a_certificate_without_its_key_is_not_adopted(live, folder, authority):
    config = live(CERTIFICATE)
    before, issued = config.context(), authority.issue_cert("localhost")
    replace(folder.path / "server.pem", issued.cert_chain_pems[0].bytes())
    with capture_logs():
        await config.check()
        assert config.context() is before
        assert not config.successful
        replace(folder.path / "server.key", issued.private_key_pem.bytes())
        await config.check()
    assert config.context() is not before
    assert config.successful


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        (USERS, "", "basic_auth_users was removed; restart"),
        (CERTIFICATE + USERS, CERTIFICATE, "basic_auth_users was removed; restart"),
        (CERTIFICATE, "", "tls_server_config was removed; restart"),
        ("", CERTIFICATE, "tls_server_config was added; restart"),
    ],
)
async def test_an_incomplete_file_removes_no_protection(live, folder, before, after, gone):
    config = live(before)
    replace(folder.path / "web.yml", after.encode())
    settings = config.current.settings
    with capture_logs() as logs:
        await config.check()
    assert config.current.settings is settings
    assert gone in logs[0]["problems"]


MUTUAL = re.search(r"With client certificates.*?```yaml\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.mark.parametrize("lines", range(len(MUTUAL.splitlines()) + 1))
async def test_the_documented_file_truncated_at_any_point_removes_no_protection(live, folder, lines):
    before, _, after = MUTUAL.partition("client_auth_type")
    whole = f"{before}min_version: TLS13\n  client_auth_type{after}"
    for name, documented in (("server.pem", "server.crt"), ("authority.pem", "ca.crt")):
        (folder.path / name).rename(folder.path / documented)
    config = live(whole)
    settings = config.current.settings
    replace(folder.path / "web.yml", "".join(whole.splitlines(keepends=True)[:lines]).encode())
    with capture_logs():
        await config.check()
    assert config.current.settings is settings
    assert not config.successful


@pytest.mark.parametrize(
    ("strong", "weak", "key"),
    [
        (f"client_auth_type: {VERIFIED}\n  {CA}", f"client_auth_type: {IF_GIVEN}\n  {CA}", "client_auth_type"),
        (f"client_auth_type: {VERIFIED}\n  {CA}", "", "client_auth_type"),
        (f"client_auth_type: {IF_GIVEN}\n  {CA}", "", "client_auth_type"),
        (f"client_auth_type: {VERIFIED}\n  {CA}\n  client_allowed_sans: [a, b]", f"client_auth_type: {VERIFIED}\n  {CA}", "client_allowed_sans"),
        ("min_version: TLS13", "min_version: TLS12", "min_version"),
        ("min_version: TLS13", "", "min_version"),
    ],
)  # fmt: skip
async def test_weaker_client_certificates_need_a_restart_and_stronger_do_not(live, folder, strong, weak, key):
    config = live(f"{CERTIFICATE}  {weak}\n")
    for text in (strong, weak):
        replace(folder.path / "web.yml", f"{CERTIFICATE}  {text}\n".encode())
        with capture_logs() as logs:
            await config.check()
    assert f"tls_server_config.{key} is weaker; restart" in logs[0]["problems"]


async def test_other_client_names_and_authorities_apply_immediately(live, folder):
    text = f"{CERTIFICATE}  client_auth_type: {VERIFIED}\n  {CA}\n  client_allowed_sans: [a]\n"
    config = live(text)
    replace(folder.path / "web.yml", text.replace("[a]", "[b]").encode())
    with capture_logs():
        await config.check()
    assert config.current.settings.tls_server_config.client_allowed_sans == ("b",)


async def test_a_restored_file_is_successful_again(tmp_path, clock):
    for name, text in (("good", USERS), ("bad", "nonsense: 1\n")):
        (tmp_path / name).write_text(text)
    link = tmp_path / "web.yml"
    link.symlink_to("good")
    config = LiveWebConfig(link, clock)
    seen = []
    for name in ("bad", "good"):
        link.unlink()
        link.symlink_to(name)
        with capture_logs():
            await config.check()
        seen.append(config.successful)
    assert seen == [False, True]
