"""Web configuration: its file, its versions over time, TLS, passwords and the guard of requests."""

import asyncio
import contextlib
import ssl
import threading
from base64 import b64encode
from unittest.mock import AsyncMock

import bcrypt
import pytest
import trustme
from pydantic import SecretStr
from structlog.testing import capture_logs

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.core.files import replace_file
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.web import security as module
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.security import (
    CHECK_INTERVAL,
    IF_GIVEN,
    MAX_CONNECTIONS,
    VERIFIED,
    Guard,
    LiveWebConfig,
    Passwords,
    read_web_config,
)
from tests.conftest import settle
from tests.unit.web.plain_state import plain_state

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
USERS = f"basic_auth_users:\n  alice: {HASH}\n"
CERTIFICATE = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"


def problems(web_file, text):
    """Return place, key and message of each problem of a file with this text."""
    web_file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_web_config(web_file)
    return [(each.place.rpartition("/")[2], each.path, each.message) for each in refused.value.problems]


# fmt: off
BAD = {
    "empty section": ("tls_server_config: {}\n", "web.yml:1", "tls_server_config", "has no certificate; add `cert_file`"),
    "certificate alone": ("tls_server_config:\n  cert_file: server.pem\n", "web.yml:1", "tls_server_config", "has no key; add `key_file`"),
    "no such file": (CERTIFICATE.replace("server.pem", "none.pem"), "web.yml:2", "tls_server_config.cert_file", "names a file that cannot be read"),
    "another's key": (CERTIFICATE.replace("server.pem", "authority.pem"), "web.yml:1", "tls_server_config", "not a certificate and its unencrypted key in PEM (KEY_VALUES_MISMATCH)"),
    "authority that is none": (CERTIFICATE + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: server.key\n", "web.yml:1", "tls_server_config", "server.key: not a certificate in PEM"),
    "authority without policy": (CERTIFICATE + "  client_ca_file: authority.pem\n", "web.yml:4", "tls_server_config.client_ca_file", "has no effect without `client_auth_type: RequireAndVerifyClientCert`"),
    "policy without authority": (CERTIFICATE + "  client_auth_type: RequireAndVerifyClientCert\n", "web.yml:4", "tls_server_config.client_auth_type", "needs `client_ca_file`: otherwise, any public authority could let clients in"),
    "policy RequireClientCert": (CERTIFICATE + "  client_auth_type: RequireClientCert\n  client_ca_file: authority.pem\n", "web.yml:4", "tls_server_config.client_auth_type", "must be 'NoClientCert', 'VerifyClientCertIfGiven' or 'RequireAndVerifyClientCert', not 'RequireClientCert'"),
    "names that no certificate has to have": (CERTIFICATE + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: authority.pem\n  client_allowed_sans: [a]\n", "web.yml:6", "tls_server_config.client_allowed_sans", "needs `client_auth_type: RequireAndVerifyClientCert`"),
    "old version": (CERTIFICATE + "  min_version: TLS10\n", "web.yml:4", "tls_server_config.min_version", "must be 'TLS12' or 'TLS13', not 'TLS10'"),
    "user without a hash": ("basic_auth_users:\n  alice:\n", "web.yml:2", "basic_auth_users.alice", "has no value; remove it, or give it one"),
    "plain password": ("basic_auth_users:\n  alice: hunter2\n", "web.yml:2", "basic_auth_users.alice", "is not a bcrypt hash; make one with"),
    "cost": (f"basic_auth_users: {{alice: {HASH.replace('$10$', '$31$')}}}\n", "web.yml:1", "basic_auth_users.alice", "has a cost of 31: it must be 4 to 16; 10 is usual"),
    "colon": (f'basic_auth_users: {{"a:b": {HASH}}}\n', "web.yml:1", "basic_auth_users.a:b", "must not be empty or contain a colon"),
}
# fmt: on


@pytest.mark.parametrize(("text", "place", "path", "message"), BAD.values(), ids=BAD)
def test_an_error_is_reported_with_its_position_and_remedy(web_file, text, place, path, message):
    found = problems(web_file, text)
    assert [entry[:2] for entry in found if message in entry[2]] == [(place, path)], found


def test_all_errors_are_reported_at_once_and_without_a_hash_or_a_key(web_file):
    secret = "$2y$10$secretsecretsecret"
    text = CERTIFICATE.replace("server.key", f"[{secret}]") + "  min_version: TLS11\n"
    found = problems(web_file, f"{text}basic_auth_users: {{alice: {secret}}}\n")
    tls = "tls_server_config"
    keys = {f"{tls}.key_file", f"{tls}.min_version", "basic_auth_users.alice"}
    assert {key for _, key, _ in found} == keys
    assert "secret" not in str(found)


def test_users_without_bcrypt_are_reported_with_the_remedy(web_file, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    [(_, key, message)] = problems(web_file, USERS)
    assert key == "basic_auth_users"
    assert message == "needs bcrypt; install it with `pip install 'spec-decode-exporter[auth]'`"
    web_file.write_text(CERTIFICATE)
    read_web_config(web_file)


MUTUAL = CERTIFICATE + "  client_ca_file: authority.pem\n  client_auth_type: "


def shaken(server, authority, certificate=None):
    """Do a handshake in memory, with a client that may have a certificate; return the server's side of it."""
    client = ssl.create_default_context()
    authority.configure_trust(client)
    if certificate is not None:
        certificate.configure_cert(client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    done = set()
    for side in [asking, answering] * 5:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
            done.add(side)
    assert len(done) == 2
    return answering


@pytest.mark.parametrize(("policy", "required"), [(IF_GIVEN, False), (VERIFIED, True)])
def test_only_certificates_of_the_authority_are_accepted_and_none_if_none_is_required(
    web_file, authority, policy, required
):
    web_file.write_text(MUTUAL + policy)
    context = read_web_config(web_file).context
    own, foreign = (issuer.issue_cert("prometheus.example") for issuer in (authority, trustme.CA()))
    assert shaken(context, authority, own).getpeercert()
    with pytest.raises(ssl.SSLError):
        shaken(context, authority, foreign)
    with pytest.raises(ssl.SSLError) if required else contextlib.nullcontext():
        assert shaken(context, authority).getpeercert() is None


@pytest.mark.parametrize(
    ("identities", "names", "allowed"),
    [
        (["prometheus.example"], "prometheus.example", True),
        (["prometheus.example"], "example", False),
        (["other.example", "prometheus.example"], "none.example, prometheus.example", True),
        (["192.0.2.1"], "192.0.2.1", True),
        (["2001:db8::1"], "'2001:db8::1'", True),
    ],
)
def test_a_certificate_can_need_an_allowed_name(web_file, authority, identities, names, allowed):
    web_file.write_text(f"{MUTUAL}{VERIFIED}\n  client_allowed_sans: [{names}]\n")
    config = read_web_config(web_file)
    certificate = shaken(config.context, authority, authority.issue_cert(*identities)).getpeercert()
    assert config.settings.tls_server_config.allows(certificate) is allowed


BOTH_USERS = f"{USERS}  bob: {HASH}\n"


def users(config):
    return list(config.current.settings.basic_auth_users)


TOOLKIT = f"""
rate_limit: {{interval: 1s, burst: 5}}
http_server_config:
  http2: false
  headers: {{Strict-Transport-Security: , X-Frame-Options: deny}}
{CERTIFICATE}  prefer_server_cipher_suites: true
{USERS}"""


async def test_keys_of_exporter_toolkit_without_an_effect_are_named_once(web_file, clock):
    web_file.write_text(TOOLKIT)
    with capture_logs() as logs:
        config = LiveWebConfig(web_file, clock)
        replace_file(web_file, TOOLKIT.replace("alice", "alicia").encode())
        await config.check()
        await config.check()
    assert users(config) == ["alicia"]
    assert [each["event"] for each in logs] == ["web_config_keys_ignored", "web_config_reloaded"]
    assert logs[0]["keys"] == ["http_server_config", "rate_limit", "prefer_server_cipher_suites"]


async def test_a_new_user_and_a_new_certificate_with_its_key_apply(web_file, clock, authority):
    web_file.write_text(CERTIFICATE + USERS)
    config, issued = LiveWebConfig(web_file, clock), authority.issue_cert("other.example")
    contexts = [config.context()]
    with capture_logs() as logs:
        replace_file(web_file, f"{CERTIFICATE}{BOTH_USERS}".encode())
        await config.check()
        contexts.append(config.context())
        assert users(config) == ["alice", "bob"]
        replace_file(web_file.with_name("server.pem"), issued.cert_chain_pems[0].bytes())
        await config.check()
        assert (config.context(), config.successful) == (contexts[-1], False)
        replace_file(web_file.with_name("server.key"), issued.private_key_pem.bytes())
        await config.check()
    assert config.successful
    assert len({*contexts, config.context()}) == 3
    names = ["reloaded", "reload_failed", "reloaded"]
    assert [entry["event"] for entry in logs] == [f"web_config_{name}" for name in names]


async def test_changed_files_are_followed(web_file, clock, until):
    web_file.write_text(USERS)
    config = LiveWebConfig(web_file, clock)
    following = asyncio.create_task(config.follow())
    replace_file(web_file, BOTH_USERS.encode())
    with capture_logs():
        while users(config) == ["alice"]:
            await clock.advance(CHECK_INTERVAL)
            await until(lambda: clock.asleep)
    assert users(config) == ["alice", "bob"]
    await cancel([following])


NAMED = f"{MUTUAL}{VERIFIED}\n  client_allowed_sans: [a, b]\n"
NEWEST = f"{CERTIFICATE}  min_version: TLS13\n"
# fmt: off
REFUSED = {
    "no text": (USERS, "\xff", "web.yml"),
    "unknown key": (USERS, "nonsense: 1\n", "nonsense is not a known key"),
    "no file": (USERS, None, "web.yml"),
    "no users": (USERS, "", "basic_auth_users was removed; restart"),
    "no TLS": (CERTIFICATE, "", "tls_server_config was removed; restart"),
    "new TLS": ("", CERTIFICATE, "tls_server_config was added; restart"),
    "optional": (f"{MUTUAL}{VERIFIED}\n", f"{MUTUAL}{IF_GIVEN}\n", "tls_server_config.client_auth_type is weaker; restart"),
    "no longer required": (f"{MUTUAL}{VERIFIED}\n", CERTIFICATE, "tls_server_config.client_auth_type is weaker; restart"),
    "any name": (NAMED, f"{MUTUAL}{VERIFIED}\n", "tls_server_config.client_allowed_sans is weaker; restart"),
    "an older version": (NEWEST, NEWEST.replace("13", "12"), "tls_server_config.min_version is weaker; restart"),
}
# fmt: on


@pytest.mark.parametrize(("before", "after", "problem"), REFUSED.values(), ids=REFUSED)
async def test_an_invalid_or_weaker_file_is_logged_once_and_the_previous_version_stays_active(
    web_file, clock, before, after, problem
):
    web_file.write_text(before)
    config = LiveWebConfig(web_file, clock)
    settings = config.current.settings
    with capture_logs() as logs:
        web_file.unlink() if after is None else replace_file(web_file, after.encode("latin-1"))
        for _ in range(3):
            await config.check()
        assert (config.current.settings, config.successful) == (settings, False)
        replace_file(web_file, before.encode())
        for _ in range(2):
            await config.check()
    assert config.successful
    assert [entry["event"] for entry in logs] == ["web_config_reload_failed", "web_config_reloaded"]
    assert problem in logs[0]["problems"]


def basic(name, password):
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


HASHES = {
    each: bcrypt.hashpw(each.encode(), bcrypt.gensalt(4)).decode()
    for each in ("wonder:land", "größe", "wonderland", "builder", "x" * 72, "new", "other", "looking glass")
}
"""Passwords and their hashes."""


@pytest.fixture
def guard(web_file, clock):
    """Return the guard of two users."""
    users = f"basic_auth_users:\n  alice: {HASHES['wonder:land']}\n  jürgen: {HASHES['größe']}\n"
    web_file.write_text(users, encoding="utf-8")
    return Guard(LiveWebConfig(web_file, clock))


PAGES = (
    "/ /static/style.css /metrics /api/v1/snapshot /api/v1/requests /config /-/healthy /-/ready /no/such/page"
)
OTHERS = [("POST", "/-/reload"), ("POST", "/api/v1/requests"), ("DELETE", "/metrics"), ("OPTIONS", "/")]


async def test_no_page_is_served_without_credentials(aiohttp_client, guard):
    state = plain_state(snapshot=lambda: pytest.fail("the page was made"))
    client = await aiohttp_client(create_app(state, guard))
    for method, path in [*[("GET", path) for path in PAGES.split()], *OTHERS]:
        answer = await client.request(method, path)
        assert answer.status == 401, path
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="spec-decode-exporter", charset="UTF-8"'
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Connection"] == "close"
        assert "Unauthorized" in await answer.text()


RIGHT = basic("alice", "wonder:land")
REJECTED = [
    *["", "Basic", "Basic ", "Basic !!!!", "Basic \udcff", RIGHT[:-4] + "!" + RIGHT[-4:]],
    "Basic " + b64encode(b"alice").decode(),
    "Bearer " + b64encode(b"alice:wonder:land").decode(),
    *[basic("alice", "wonder"), basic("alice", ""), basic("", "")],
    *[basic("bob", "wonder:land"), basic("ALICE", "wonder:land")],
]


async def test_only_a_user_with_a_password_reads_pages(aiohttp_client, guard):
    client = await aiohttp_client(create_app(plain_state(), guard))
    with capture_logs() as logs:
        for header in REJECTED:
            assert (await client.get("/metrics", headers={"Authorization": header})).status == 401, header
    assert logs == []
    for header in (RIGHT, basic("jürgen", "größe"), RIGHT.replace("Basic", "basic")):
        for path in ("/", "/metrics", "/-/healthy", "/config"):
            assert (await client.get(path, headers={"Authorization": header})).status == 200


async def test_a_full_check_queue_returns_503_with_retry_after(aiohttp_client, guard, monkeypatch):
    client = await aiohttp_client(create_app(plain_state(), guard))
    monkeypatch.setattr(Passwords, "match", AsyncMock(side_effect=asyncio.QueueFull))
    answer = await client.get("/metrics", headers={"Authorization": basic("alice", "x")})
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"


KNOWN = {
    "alice": SecretStr(HASHES["wonderland"]),
    "bob": SecretStr(HASHES["builder"]),
    "long": SecretStr(HASHES["x" * 72]),
}
"""Users by name."""


@pytest.fixture
def compared(monkeypatch):
    """Return the passwords and hashes that bcrypt compared."""
    done, real = [], module._matches
    monkeypatch.setattr(module, "_matches", lambda *both: done.append(both) or real(*both))
    return done


@pytest.mark.parametrize(
    ("name", "password", "right"),
    [
        ("alice", b"wonderland", True),
        ("alice", b"builder", False),
        ("alice", b"", False),
        ("alice", b"wonderland" * 50, False),
        ("long", b"x" * 80, True),
        ("carol", b"wonderland", False),
        ("al\udcffice", b"wonderland", False),
    ],
)
async def test_only_the_users_own_password_matches_by_its_first_72_bytes(name, password, right):
    passwords = Passwords()
    assert await passwords.match(KNOWN, name, password) is right
    assert await passwords.match(KNOWN, name, password) is right


async def test_an_unknown_name_costs_one_comparison_with_always_the_same_hash_and_never_matches(
    compared, monkeypatch
):
    passwords = Passwords()
    for number in range(8):
        assert not await passwords.match(KNOWN, "mallory", b"%d" % number)
    assert len(compared) == 8
    (written,) = {written for _, written in compared}
    assert written in {user.get_secret_value() for user in KNOWN.values()}
    monkeypatch.setattr(module, "_matches", lambda *_: True)
    assert not await Passwords().match(KNOWN, "mallory", b"wonderland")
    for name in KNOWN:
        assert await passwords.match(KNOWN, name, b"wonderland")
    assert not await passwords.match(KNOWN, "mallory", b"wonderland"), "as of another, it is cached"


async def test_a_full_queue_rejects_a_check_unless_its_result_is_cached(monkeypatch):
    passwords, go_on, real = Passwords(), threading.Event(), module._matches
    assert await passwords.match(KNOWN, "alice", b"wonderland")
    monkeypatch.setattr(module, "_matches", lambda *both: go_on.wait(timeout=10) and real(*both))
    guesses = [passwords.match(KNOWN, "alice", b"%d" % number) for number in range(MAX_CONNECTIONS)]
    asked = [asyncio.create_task(guess) for guess in guesses]
    await settle()
    with pytest.raises(asyncio.QueueFull):
        await passwords.match(KNOWN, "alice", b"one more")
    assert await passwords.match(KNOWN, "alice", b"wonderland")
    go_on.set()
    assert not any(await asyncio.gather(*asked))


async def test_right_passwords_are_cached_and_wrong_ones_are_not(compared, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CACHED", 2)
    passwords = Passwords()
    asked = [passwords.match(KNOWN, "alice", b"wonderland") for _ in range(MAX_CONNECTIONS)]
    assert all(await asyncio.gather(*asked))
    assert len(compared) == 1
    for _ in range(2):
        assert not await passwords.match(KNOWN, "alice", b"wrong")
        assert await passwords.match(KNOWN, "alice", b"wonderland")
    assert len(compared) == 3
    for name, password in (("bob", b"builder"), ("long", b"x" * 72), ("long", b"x" * 72)):
        assert await passwords.match(KNOWN, name, password)
    assert len(compared) == 5
    assert await passwords.match(KNOWN, "alice", b"wonderland")
    assert len(compared) == 6, "the cache has a limit"


async def test_a_result_is_cached_until_the_hash_changes(compared):
    passwords = Passwords()
    assert await passwords.match(KNOWN, "alice", b"wonderland")
    others = {"carol": SecretStr(HASHES["new"]), **KNOWN, "bob": SecretStr(HASHES["other"])}
    assert await passwords.match(others, "alice", b"wonderland")
    assert len(compared) == 1
    assert b"wonderland" not in repr(vars(passwords)).encode()
    changed = {**KNOWN, "alice": SecretStr(HASHES["looking glass"])}
    assert not await passwords.match(changed, "alice", b"wonderland")
    assert await passwords.match(changed, "alice", b"looking glass")
    removed = {"bob": KNOWN["bob"]}
    assert not await passwords.match(removed, "alice", b"looking glass")
