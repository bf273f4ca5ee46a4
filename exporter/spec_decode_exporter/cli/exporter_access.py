"""Access to the API of a running exporter for commands: address, credentials and request."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError, create_model
from yarl import URL

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX, Flags
from spec_decode_exporter.cli.setting_flags import SettingFlag, add_setting_flags, sections
from spec_decode_exporter.config.environment import Expanded
from spec_decode_exporter.config.http_settings import HttpSettings, Section
from spec_decode_exporter.config.source import FLAGS, Source
from spec_decode_exporter.config.values import Context
from spec_decode_exporter.core.bounded_json import TooManyValuesError, check_values
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.escape import escaped
from spec_decode_exporter.scrape.http.client import Client
from spec_decode_exporter.scrape.http.credentials_check import credential_mistake
from spec_decode_exporter.scrape.poll_errors import PollError, StatusError
from spec_decode_exporter.views.models import View

AnyView = TypeVar("AnyView", bound=View)

_TIMEOUT: Final = 10.0
MAX_BODY: Final = 16 * 2**20
"""Maximum bytes of a response."""
_MAX_PROBLEM_VALUES: Final = 1_000
MAX_VALUES: Final = 500_000
"""Maximum JSON values of a response."""


class NotReadError(ExporterError):
    """An exporter did not return a result; the text is the reason."""


@dataclass(frozen=True, slots=True)
class ExporterAccess:
    """Flags of one command about an exporter, such as ``--exporter``."""

    name: str
    """Name of the flag with the URL, and prefix of the flags with credentials."""
    path: str
    """Path of the result in the API."""

    @property
    def password_variable(self) -> str:
        """Environment variable of the password: a flag would be visible to every user of the machine."""
        return f"{ENVIRONMENT_PREFIX}{self.name.upper()}_BASIC_AUTH_PASSWORD"

    @property
    def flags(self) -> tuple[SettingFlag, ...]:
        """Flags of the credentials."""
        return tuple(
            SettingFlag(f"--{self.name}.{key.replace('_', '-')}", metavar, text, key)
            for key, metavar, text in (
                ("basic_auth.username", "NAME", "user name for that exporter"),
                ("basic_auth.password_file", "FILE", "a file with its password"),
                ("tls_config.ca_file", "FILE", "certificate authorities to trust if its URL is https"),
            )
        )

    def url(self, text: str) -> str:
        """Return the URL of the result; ``http://`` may be omitted.

        Raises:
            ArgumentTypeError: It is not the URL of an exporter.
        """
        try:
            url = URL(text if "://" in text else f"http://{text}")
        except ValueError:
            url = URL()
        if url.user or url.password:
            raise argparse.ArgumentTypeError(
                f"the URL holds a user or password; use --{self.name}.basic-auth.username and …password-file"
            )
        if url.scheme not in {"http", "https"} or not url.host:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not an exporter's URL: write one such as http://localhost:7732"
            )
        return str(url / self.path)

    def add_flags(self, flags: Flags) -> None:
        """Add the credentials for the exporter; those for the servers are not sent to it."""
        add_setting_flags(flags, self.flags)

    def http_settings(self, arguments: argparse.Namespace, environ: Mapping[str, str]) -> HttpSettings:
        """Return the HTTP settings for the exporter.

        Raises:
            ConfigError: The flags cannot be used.
        """
        settings = sections(arguments, self.flags)
        password = environ.get(self.password_variable)
        if password and "password_file" not in settings.get("basic_auth", ()):
            settings.setdefault("basic_auth", {})["password"] = Expanded.of(
                password, f"${{{self.password_variable}}}"
            )
        # The flags are read as a configuration, so that a mistake has a path.
        fields: dict[str, Any] = {self.name: (HttpSettings, ...)}
        section = create_model("ExporterSection", __base__=Section, **fields)
        source = Source(FLAGS, data={self.name: settings})
        http: HttpSettings = getattr(source.validated(section, Context(Path())), self.name)
        mistake = credential_mistake(http)
        if mistake is not None:
            source.add_problem((self.name,), mistake)
        source.refuse()
        return http


async def read_result(url: str, http: HttpSettings, read: Callable[[bytes], AnyView]) -> AnyView:
    """Request a result of an exporter.

    Raises:
        NotReadError: The exporter does not answer, or its format is that of another version.
    """
    client = Client(http, timeout=_TIMEOUT, max_body=MAX_BODY, is_command=True)
    try:
        response = await client.get(url)
        check_values(response.body, MAX_VALUES)
        return read(response.body)
    except PollError as error:
        raise NotReadError(f"{url}: {error}{_detail(error)}") from None
    except (TooManyValuesError, ValidationError):
        raise NotReadError(f"{url}: the response is not in the format of this version") from None
    finally:
        await client.close()


def _detail(error: PollError) -> str:
    """Return the exporter's own explanation of a rejected request."""
    if not isinstance(error, StatusError) or not error.problem:
        return ""
    try:
        check_values(error.problem, _MAX_PROBLEM_VALUES)
        detail = json.loads(error.problem)["detail"]
    except (TooManyValuesError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f": {escaped(detail)}" if isinstance(detail, str) else ""
