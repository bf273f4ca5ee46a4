"""Load a configuration with the checks that need other stages: metric names, credentials, references."""

from __future__ import annotations

from functools import partial
from typing import Final

from spec_decode_exporter.config.load import load
from spec_decode_exporter.reports.reference_rates import read_rates
from spec_decode_exporter.scrape.credentials import credential_mistakes

load_config: Final = partial(load, checks=(credential_mistakes,), read_rates=read_rates)
"""``load`` for a running exporter and for ``check-config``."""
