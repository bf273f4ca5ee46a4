from __future__ import annotations

from spec_decode_exporter.config.active_yaml import active_yaml

FILE = """\
windows: [90s, 36h]
targets:
  - url: http://a/metrics?key=${S}
    authorization: {credentials: '${S}'}
    http_headers: {X-A: {values: [open]}}
  - url: http://b
    basic_auth: {username: ann, password: '${S}'}
  - url: http://c
    authorization: {credentials_file: token}
discovery:
  http: [{url: 'http://sd/list?key=${S}', authorization: {credentials: '${S}'}}]
  scrape: {basic_auth: {username: bob, password: '${S}'}}
"""


def test_the_configuration_in_effect_is_shown_without_secrets(read, tmp_path):
    (tmp_path / "token").write_text("hunter2")
    shown = active_yaml(read(FILE, S="hunter2"))
    assert "hunter2" not in shown
    assert shown.count("<secret>") == 6
    for expected in (
        "- 1m30s\n- 36h\n",
        "username: ann",
        "- open\n",
        f"credentials_file: {tmp_path}/token",
        "4MiB",
    ):
        assert expected in shown


def test_the_redacted_configuration_can_be_loaded_again(read):
    config = read(
        "poll: {timeout: 3s}\ntargets: [{url: http://a, labels: {rack: '07'}}]\nmetrics: {disable: [rates]}"
    )
    assert read(active_yaml(config)) == config
