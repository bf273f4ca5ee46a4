from __future__ import annotations

import pytest

TARGET = "targets:\n  - url: http://a\n    "


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ("authorization: {credentials: hunter2}", "3: targets[0].authorization.credentials is a secret in plain text; name a file that holds it with `credentials_file`, or write `${NAME}` alone to take it from the environment"),
        ("authorization: {credentials: 'x${T}'}", "3: targets[0].authorization.credentials is a secret in plain text; name a file that holds it with `credentials_file`, or write `${NAME}` alone to take it from the environment"),
        ("authorization: {credentials: [hunter2]}", "3: targets[0].authorization.credentials must be a text, not a list"),
        ("authorization: {credentials: '${EMPTY}'}", "3: targets[0].authorization.credentials is empty: the environment variable in ${EMPTY} holds nothing"),
        ("authorization: {type: Bearer}", "3: targets[0].authorization has no token; add `credentials_file`"),
        ("authorization: {type: basic, credentials: '${T}'}", "3: targets[0].authorization.type cannot be Basic; use `basic_auth` with a username and a password"),
        ("authorization: {type: 'a b', credentials: '${T}'}", "3: targets[0].authorization.type is not a word that a header may hold: letters, digits and hyphens"),
        ("authorization: {credentials: '${T}', credentials_file: exporter.yml}", "3: targets[0].authorization.credentials_file cannot stand beside `credentials`; remove one of the two"),
        ("authorization: {credentials: '${T}'}\n    basic_auth: {username: a}", "4: targets[0].basic_auth cannot stand beside `authorization`; remove one of the two"),
        ("basic_auth: {password: '${T}'}", "3: targets[0].basic_auth has no user; add `username`"),
        ("basic_auth: {username: a, password: '${T}', password_file: exporter.yml}", "3: targets[0].basic_auth.password_file cannot stand beside `password`; remove one of the two"),
        ("tls_config: {cert_file: exporter.yml}", "3: targets[0].tls_config has a certificate alone; add `key_file`"),
        ("tls_config: {key_file: exporter.yml}", "3: targets[0].tls_config has a key alone; add `cert_file`"),
        ("tls_config: {insecure_skip_verify: perhaps}", "3: targets[0].tls_config.insecure_skip_verify must be true or false, not 'perhaps'"),
        ('http_headers: {X-A: {values: ["a\\nb"]}}', "3: targets[0].http_headers.X-A.values[0] is not a header's value: it must be one line of visible ASCII characters"),
        ("http_headers: {X-A: {values: ['${T}']}}", "3: targets[0].http_headers.X-A.values[0] comes from the environment, so it may be a secret; use `authorization` or `basic_auth`"),
        ("http_headers: {X-A: {}}", "3: targets[0].http_headers.X-A has no value; add `values`"),
        ("http_headers: {'X A': {values: [b]}}", "3: targets[0].http_headers.X A is not a word that a header may hold: letters, digits and hyphens"),
        ("http_headers: {host: {values: [b]}}", "3: targets[0].http_headers.host is a header that the exporter sets itself; remove it"),
        ("http_headers: [a]", "3: targets[0].http_headers must be a mapping of names to values, not a list"),
        ("follow_redirects: true", "3: targets[0].follow_redirects is not a known key here; there are `authorization`, `basic_auth`, `tls_config`, `http_headers`, `url`, `name`, `labels`, `speculative`, `cost`, `baseline`, `reference`, `policy`"),
    ],
)  # fmt: skip
def test_http_settings_follow_the_rules_of_prometheus(mistakes, keys, mistake):
    assert mistakes(TARGET + keys, T="hunter2", EMPTY="") == [mistake]


def test_a_secret_from_the_environment_is_kept_and_not_shown(read):
    [target] = read(TARGET + "authorization: {credentials: '${T}'}", T="hunter2").targets
    assert target.authorization.credentials.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(target)
