from __future__ import annotations

from pathlib import Path

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.run import _watched
from spec_decode_exporter.core.errors import UsageError


def test_automatic_reload_needs_a_file():
    watching = parse(["--config.auto-reload", "--config.file", "/x"], {})
    assert _watched(watching) == Path("/x")
    assert _watched(parse(["--config.file", "/x"], {})) is None
    with pytest.raises(UsageError, match="there is no file to watch"):
        _watched(parse(["--config.auto-reload"], {}))
