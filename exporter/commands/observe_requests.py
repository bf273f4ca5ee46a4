"""What an exporter says of single requests, for the report of ``observe``: the servers do not tell it."""

from __future__ import annotations

import argparse
from typing import Final

from pydantic import ValidationError
from yarl import URL

from exporter.config.http_settings import HttpSettings
from exporter.export.request_models import RequestsView
from exporter.scrape.client import Client
from exporter.scrape.errors import PollError

_PATH: Final = "api/v1/requests"
_TIMEOUT: Final = 10.0
_LARGEST: Final = 16 * 2**20


class NotReadError(Exception):
    """An exporter that does not say it; the text says why."""


def exporter_url(text: str) -> str:
    """Return the address of what an exporter says of requests; ``http://`` need not be written.

    Raises:
        ArgumentTypeError: It is no URL of an exporter.
    """
    try:
        url = URL(text if "://" in text else f"http://{text}")
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host or url.user or url.password:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no exporter's URL: write one such as http://localhost:7732, without a password"
        )
    return str(url / _PATH)


async def read_requests(url: str) -> RequestsView:
    """Ask an exporter what the requests say.

    Raises:
        NotReadError: It does not answer, or in another way than this version does.
    """
    client = Client(HttpSettings(), timeout=_TIMEOUT, max_body=_LARGEST)
    try:
        answer = await client.get(url)
        return RequestsView.model_validate_json(answer.body)
    except PollError as error:
        raise NotReadError(f"{url}: {error}") from None
    except ValidationError:
        raise NotReadError(f"{url}: the answer is not what this version of the exporter says") from None
    finally:
        await client.close()
