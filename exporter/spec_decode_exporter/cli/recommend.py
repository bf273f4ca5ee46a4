"""Command ``spec-decode-exporter recommend``: print the setting of speculation to paste."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spec_decode_exporter.cli.event_loop import run_loop
from spec_decode_exporter.cli.exporter_access import read_snapshot_of, snapshot_url
from spec_decode_exporter.cli.flags import Flags
from spec_decode_exporter.cli.measurement import configured_servers, measurement_time
from spec_decode_exporter.cli.observe_config import add_settings
from spec_decode_exporter.cli.output import require_stdout, write_stdout
from spec_decode_exporter.cli.setting_flags import BASELINE_FLAGS, add_setting_flags, reject_baseline
from spec_decode_exporter.core.clock import SystemClock
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.numbers import TooManyValuesError
from spec_decode_exporter.core.user_errors import ExporterError, UsageError
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.observe.session import watch
from spec_decode_exporter.reports.recommend.recommend_report import FORMATS, recommendation_status, written
from spec_decode_exporter.reports.saved_snapshot import MAX_BYTES, SavedSnapshot, parsed

_DESCRIPTION: Final = """\
Print the setting of speculation: the number of draft tokens, by load if the cost of drafting is known at
several loads, as the line to paste, and why. What is unknown is not printed; the output says what to measure.
"""
_EPILOG: Final = """\
exit status:
  0  the setting of every engine that speculates is known
  1  a server, an exporter or a file could not be read
  2  the command line is wrong
  3  the setting of an engine is unknown, or none speculates
"""


class NoSnapshotError(ExporterError):
    """A file is no snapshot; the text is the reason."""


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command; ``environ`` has the values of flags that are not set."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(simulated=None)
    parser.add_argument(
        "urls", metavar="URL", nargs="*", help="metrics pages of servers (default: localhost:8000)"
    )
    parser.add_argument(
        "--exporter",
        metavar="URL",
        type=snapshot_url,
        help="instead of servers: a running exporter, such as localhost:7732",
    )
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        type=Path,
        help="or a file: a response of /api/v1/snapshot, or the output of observe --format json",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="format of the setting (default: text)"
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="DURATION",
        type=measurement_time,
        default=60.0,
        help="time to observe servers (default: 1m)",
    )
    parser.add_argument(
        "--simulate", metavar="SCENARIO", help="observe an embedded simulated vLLM instead of real servers"
    )
    flags = Flags(parser, environ)
    add_settings(flags)
    add_setting_flags(flags, BASELINE_FLAGS)


def handle(arguments: argparse.Namespace) -> int:
    """Print the settings; return the exit status."""
    require_stdout("setting")
    configure_log("critical", "logfmt")
    view = _view(arguments)
    write_stdout(written(view.engines, arguments.format))
    status = recommendation_status(view.engines)
    missing = [target for target in view.targets if not target.engines]
    for target in missing:
        print(f"spec-decode-exporter: {target.target}: {target.error or 'no engine'}", file=sys.stderr)  # noqa: T201
    return ExitStatus.FAILED if missing else status


def read_snapshot(path: Path) -> SavedSnapshot:
    """Read a snapshot of the API, or an observation; of several, one a line, the last.

    Raises:
        NoSnapshotError: The file cannot be read, or is neither.
    """
    try:
        return parsed(read_bounded(path, MAX_BYTES))
    except OSError as error:
        raise NoSnapshotError(f"{path} cannot be read: {error.strerror or error}") from None
    except TooManyValuesError as error:
        raise NoSnapshotError(f"{path} cannot be read: {error}") from None
    except ValueError:
        raise NoSnapshotError(
            f"{path}: it is neither a response of /api/v1/snapshot nor the output of observe --format json "
            "of this version"
        ) from None


def _view(arguments: argparse.Namespace) -> SavedSnapshot:
    servers = [*arguments.urls, *filter(None, (arguments.simulate, arguments.config_file))]
    if sum(map(bool, (servers, arguments.exporter, arguments.snapshot))) > 1:
        raise UsageError("give servers, --exporter or --snapshot: one of the three")
    if arguments.snapshot or arguments.exporter:
        reject_baseline(arguments, "an exporter or a file")
    if arguments.snapshot:
        return read_snapshot(arguments.snapshot)
    if arguments.exporter:
        return run_loop(read_snapshot_of(arguments.exporter))
    return run_loop(_observed(arguments))


async def _observed(arguments: argparse.Namespace) -> SavedSnapshot:
    async with configured_servers(arguments, "observing") as config:
        observed = await watch(config, arguments.seconds, SystemClock())
        return SavedSnapshot.model_validate(observed.view())
