from __future__ import annotations

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError


def test_a_flag_overrides_a_switch_of_the_environment():
    environ = {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": "true"}
    assert parse(["--no-web.enable-lifecycle"], environ).web_enable_lifecycle is False


def test_listen_addresses_repeat():
    arguments = parse(["--web.listen-address", ":1", "--web.listen-address", "[::1]:2"], {})
    assert arguments.web_listen_address == [":1", "[::1]:2"]


def test_a_switch_that_is_neither_true_nor_false_is_rejected():
    with pytest.raises(UsageError, match="WEB_ENABLE_LIFECYCLE is 'maybe'"):
        parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": "maybe"})
