"""What the monitors log."""

import pytest
from structlog.testing import capture_logs


@pytest.fixture
def logs():
    with capture_logs() as logs:
        yield logs
