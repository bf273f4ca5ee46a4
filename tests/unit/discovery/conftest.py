"""Fixtures of discovery tests."""

import pytest
from structlog.testing import capture_logs


@pytest.fixture
def log():
    """Log entries of the test."""
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def urls():
    """Return the URLs of targets."""
    return lambda targets: [target.url for target in targets]
