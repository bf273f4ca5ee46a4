from __future__ import annotations

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError


def test_a_switch_that_is_neither_true_nor_false_is_rejected():
    with pytest.raises(UsageError, match="WEB_ENABLE_LIFECYCLE is 'maybe'"):
        parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": "maybe"})
