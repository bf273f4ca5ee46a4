"""Request findings of an exporter, for the report of ``observe``: servers do not export them."""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.cli.exporter_access import ExporterAccess, read_result
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.views.request_models import RequestsView

REQUESTS: Final = ExporterAccess("requests", "api/v1/requests")
"""The exporter that receives requests."""


async def read_requests(url: str, http: HttpSettings) -> RequestsView:
    """Request the findings of an exporter.

    Raises:
        NotReadError: The exporter does not answer, or its format is that of another version.
    """
    return await read_result(url, http, RequestsView.model_validate_json)
