"""Access to the API of a running exporter for commands: address and request."""

from __future__ import annotations

import argparse
from typing import Final

from yarl import URL

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.core.numbers import decode
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.escape import escaped
from spec_decode_exporter.reports.saved_snapshot import MAX_BYTES, SavedSnapshot, parsed
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.errors import PollError, StatusError

_PATH: Final = "api/v1/snapshot"
_TIMEOUT: Final = 10.0
_MAX_PROBLEM_VALUES: Final = 1_000


class NotReadError(ExporterError):
    """An exporter did not return a result; the text is the reason."""


def snapshot_url(text: str) -> str:
    """Return the URL of an exporter's snapshot; ``http://`` may be omitted.

    Raises:
        ArgumentTypeError: It is not the URL of an exporter.
    """
    try:
        url = URL(text if "://" in text else f"http://{text}")
    except ValueError:
        url = URL()
    if url.user or url.password:
        raise argparse.ArgumentTypeError(
            f"the URL holds a user or password; save its {_PATH} with another program and use --snapshot"
        )
    if url.scheme not in {"http", "https"} or not url.host:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an exporter's URL: write one such as http://localhost:7732"
        )
    return str(url / _PATH)


async def read_snapshot_of(url: str) -> SavedSnapshot:
    """Request the snapshot of an exporter.

    Raises:
        NotReadError: The exporter does not answer, or its format is that of another version.
    """
    client = Client(HttpSettings(), timeout=_TIMEOUT, max_body=MAX_BYTES, is_command=True)
    try:
        response = await client.get(url)
        return parsed(response.body)
    except PollError as error:
        raise NotReadError(f"{url}: {error}{_detail(error)}") from None
    except ValueError:
        raise NotReadError(f"{url}: the response is not in the format of this version") from None
    finally:
        await client.close()


def _detail(error: PollError) -> str:
    """Return the exporter's own explanation of a rejected request."""
    if not isinstance(error, StatusError) or not error.problem:
        return ""
    try:
        detail = decode(error.problem, _MAX_PROBLEM_VALUES)["detail"]
    except (ValueError, LookupError, TypeError):
        return ""
    return f": {escaped(detail)}" if isinstance(detail, str) else ""
