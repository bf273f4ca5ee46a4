"""Interval of the summaries in the log."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from spec_decode_exporter.config.load import active_yaml
from spec_decode_exporter.config.schema import Config


@pytest.mark.parametrize(("written", "seconds"), [("off", None), ("1s", 1.0), ("10s", 10.0), ("1m", 60.0)])
def test_it_is_off_or_a_duration_and_keeps_its_text(written, seconds):
    config = Config.model_validate({"log": {"summary_interval": written}})
    assert config.log.summary_interval == seconds
    assert Config().log.summary_interval is None
    assert f"summary_interval: {written}" in active_yaml(config).replace("'", "")


@pytest.mark.parametrize("written", ["on", "10", "999ms", "0", "", "5 s", ["10s"], "2y"])
def test_another_value_is_rejected(written):
    with pytest.raises(ValidationError):
        Config.model_validate({"log": {"summary_interval": written}})
