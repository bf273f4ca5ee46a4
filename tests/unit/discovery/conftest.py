"""Fixtures and helpers of discovery tests."""

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.discovery.target import DiscoveryError


@pytest.fixture
def log():
    """Log entries of the test."""
    with capture_logs() as entries:
        yield entries


async def failure(discovery, message, targets=None):
    """Refresh, which must fail with the message and leave these targets, None for those as they were."""
    with pytest.raises(DiscoveryError, match=message) as caught:
        await discovery.targets()
    assert caught.value.targets == targets
    return caught.value
