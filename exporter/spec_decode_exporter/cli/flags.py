"""Flags of the commands: one table of names, texts, environment variables and configuration keys."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from yarl import URL

from spec_decode_exporter.config.comparison_settings import SpeculativeSettings
from spec_decode_exporter.config.mistakes import Problem, near_name
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.source import FLAGS, Source
from spec_decode_exporter.config.types import Context, Expanded, format_duration, parse_duration
from spec_decode_exporter.core.user_errors import ExporterError, UsageError
from spec_decode_exporter.discovery.vllm_command_line import config_speculation

ENVIRONMENT_PREFIX: Final = "SPEC_DECODE_EXPORTER_"
_SPECULATION: Final = ("method", "tokens", "draft_model", "rejection_method")
_SWITCH: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("", "0", "false", "no", "off"), False),
}

T = TypeVar("T")

_log = structlog.get_logger()


def absolute(path: str) -> str:
    """Return a path of the working directory as an absolute one; a path in a file is relative to that file."""
    return str(Path(path).absolute())


def completed(url: str) -> str:
    """Return an address of ``--target`` as ``observe`` reads it: ``localhost:8000`` is http."""
    from spec_decode_exporter.reports.observation import completed_url

    return completed_url(url)


class Flag(NamedTuple):
    """A flag of a command."""

    name: str
    metavar: str
    """Name of its value, for which choices stand in the help; empty for a switch, which has ``--no-`` too."""
    text: str
    key: str = ""
    """Configuration key that it sets, with dots; below ``targets.``, of each server of the command line."""
    read: Callable[[str], Any] | None = None
    """Returns the value of a text, or raises ArgumentTypeError; None for the text itself."""
    default: Any = None
    choices: Collection[str] | None = None
    repeats: bool = False
    """May be given several times. Flags replace the values of the variable, which has commas between them."""
    also: tuple[str, ...] = ()  # other names of it
    kept_as: str = ""  # name under which the arguments hold the value, if it is not that of the flag

    @property
    def destination(self) -> str:
        """The name under which the arguments hold the value."""
        return self.kept_as or self.name.removeprefix("--").replace(".", "_").replace("-", "_")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return ENVIRONMENT_PREFIX + self.destination.upper()


SERVER_FLAGS: Final = (
    Flag("--poll.interval", "DURATION", "time between two polls of a server (default 1s)", "poll.interval"),
    Flag("--cost.draft-cost-ratio", "RATIO", "cost of a draft token, relative to a decode step without speculation", "cost.draft_cost_ratio"),
    Flag("--cost.running-requests", "NUMBER", "concurrent requests at which that cost was measured (default 4)", "cost.running_requests"),
    Flag("--speculative.method", "METHOD", "method of the servers, such as eagle3 or ngram", "targets.speculative.method"),
    Flag("--speculative.config", "JSON", "or the --speculative-config of their vLLM"),
    Flag("--baseline.prometheus.url", "URL", "a Prometheus with the counters of the servers from before speculation was enabled", "baseline.prometheus.url"),
)  # fmt: skip
"""Flags of ``run``, ``observe`` and ``recommend``."""
PROFILE_FLAG: Final = Flag("--metrics.profile", "PROFILE", "metrics to export: minimal, standard or full (default standard)", "metrics.profile")  # fmt: skip
"""Flag of ``run`` and ``observe``."""
RUN_FLAGS: Final = (
    Flag("--state.file", "FILE", "file of the state that survives a restart", "state.file", absolute),
    PROFILE_FLAG,
    Flag("--log.level", "LEVEL", "debug, info, warning or error (default info)", "log.level"),
    Flag("--log.format", "FORMAT", "logfmt or json (default logfmt)", "log.format"),
)
"""Flags of ``run`` alone that set a key."""
_NAMES: Final = {flag.key: flag.name for flag in (*SERVER_FLAGS, *RUN_FLAGS)}


def add_flags(
    parser: argparse._ActionsContainer, table: Iterable[Flag], environ: Mapping[str, str] | None = None
) -> None:
    """Add flags to a parser; ``environ`` has the values of those that are not set, None if they have no variable.

    An empty variable counts as absent.

    Raises:
        UsageError: The variable of a switch is neither true nor false.
    """
    for flag in table:
        value = (environ or {}).get(flag.variable, "")
        options = _value_options(flag, value) if flag.metavar else _switch_options(flag, value)
        parser.add_argument(
            flag.name, *flag.also, dest=flag.destination, help=flag.text.replace("%", "%%"), **options
        )


def _switch_options(flag: Flag, value: str) -> dict[str, Any]:
    value = value.lower()
    if value not in _SWITCH:
        raise UsageError(f"{flag.variable} is {value!r}; it is a switch, set it to true or false")
    return {"action": argparse.BooleanOptionalAction, "default": _SWITCH[value]}


def _value_options(flag: Flag, value: str) -> dict[str, Any]:
    metavar = None if flag.choices else flag.metavar
    options = {"metavar": metavar, "type": flag.read, "choices": flag.choices}
    if flag.repeats:
        parts = filter(None, map(str.strip, value.split(",")))
        try:
            default = [flag.read(part) if flag.read else part for part in parts]
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{flag.variable}: {error}") from None
        return {**options, "action": _Replace, "default": default}
    return {**options, "default": Expanded.of(value, flag.variable) if value else flag.default}


class _Replace(argparse.Action):
    """Collects the values of a flag; the first one drops those of the variable."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Append a value."""
        del parser, option_string
        collected = getattr(namespace, self.dest)
        is_default = collected is self.default
        setattr(namespace, self.dest, [*([] if is_default else collected), values])


def general_keys(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the values of the flags that are set, by key of the configuration; those of targets apart."""
    flags = [flag for flag in (*SERVER_FLAGS, *RUN_FLAGS) if flag.key and not flag.key.startswith("targets.")]
    values = {flag.key: getattr(arguments, flag.destination, None) for flag in flags}
    return {key: value for key, value in values.items() if value is not None}


def flag_problem(problem: Problem) -> str:
    """Return a mistake as one line; one of the command line names the flag, or the target by number."""
    number = re.fullmatch(r"targets\[(\d+)\]\.(url|name)", problem.path)
    flag = f"target {int(number[1]) + 1}" if number else _NAMES.get(re.sub(r"\[\d+\]", "", problem.path))
    return f"{FLAGS}: {flag} {problem.message}" if problem.place == FLAGS and flag else str(problem)


def is_given(value: str | None) -> bool:
    """Return whether a flag is on the command line; its variable, often that of ``run``, does not count."""
    return value is not None and not isinstance(value, Expanded)


def reject_pairs(arguments: argparse.Namespace, pairs: Mapping[str, str]) -> None:
    """Reject flags that are given together.

    Args:
        arguments: Parsed arguments.
        pairs: A flag's name among the arguments, and those that it excludes, separated by spaces.

    Raises:
        UsageError: Two exclude each other.
    """
    flags = {Flag(flag, "", "").destination: flag for flag in arguments.flags} | {"urls": "URL"}
    for name, others in pairs.items():
        for other in others.split() if getattr(arguments, name) is not None else ():
            value = getattr(arguments, other)
            if value and not isinstance(value, Expanded):
                raise UsageError(f"{flags[other]} and {flags[name]} exclude each other: use one")


def speculation_keys(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the keys of ``speculative`` that vLLM's ``--speculative-config`` holds, and the method of its flag.

    An injected sidecar copies that argument unseen from the pod into the variable: an unreadable variable is
    therefore logged and ignored.

    Raises:
        UsageError: The flag is not readable.
    """
    keys, text = dict[str, object](), arguments.speculative_config
    try:
        speculation = config_speculation(text) if text is not None else None
    except ValueError as error:
        if not isinstance(text, Expanded):
            raise UsageError(f"--speculative.config {error}") from None
        _log.warning("variable_not_understood", variable=text.origin, reason=str(error))
        speculation = None
    if speculation:
        keys = {name: getattr(speculation, name) for name in _SPECULATION}
        keys |= {"schedule": speculation.schedule.ranges, "adaptive": speculation.is_adaptive}
    keys = {key: value for key, value in keys.items() if value}
    method = arguments.speculative_method
    return keys if method is None else {**keys, "method": method}


def exporter_url(text: str) -> URL:
    """Return the URL of an exporter; ``http://`` may be omitted. Raise ValueError if it is none, or has a user."""
    try:
        url = URL(completed(text))
    except ValueError:
        url = URL()
    if url.user or url.password:
        raise ValueError(
            "the URL holds a user or password; save its api/v1/snapshot with another program and use --snapshot"
        )
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"{text!r} is not an exporter's URL: write one such as http://localhost:7732")
    return url


def with_speculation(config: Config, speculation: Mapping[str, object]) -> Config:
    """Add keys of ``speculative`` to every configured target, except for those that the target sets itself.

    Raises:
        ConfigError: A key is not valid.
    """
    if not speculation:
        return config
    targets = []
    for target in config.targets:
        own = target.speculative.model_dump(exclude_none=True) if target.speculative else {}
        settings = Source(FLAGS, {**speculation, **own})
        speculative = settings.validated(SpeculativeSettings, Context(Path()))
        targets.append(target.model_copy(update={"speculative": speculative}))
    return config.model_copy(update={"targets": tuple(targets)})


def reader(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader that turns an error of ``parse`` that a user can mend into an error of argparse."""

    def checked(text: str) -> T:
        try:
            return parse(text)
        except (ValueError, ExporterError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def scenario(text: str) -> str:
    """Return the name of a scenario or of a file, checked without the code of the simulator."""
    from spec_decode_exporter.simulator.scenario import INCLUDED

    if text in INCLUDED or Path(text).exists():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} {near_name(text, [*INCLUDED], 'scenario or file')}")


def _valid(parse: Callable[[str], T], noun: str, is_valid: Callable[[T], bool]) -> Callable[[str], T]:
    """Return a reader of valid values, which a noun describes in the error."""

    def checked(text: str) -> T:
        with suppress(ValueError):
            if is_valid(value := parse(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {noun}")

    return checked


def duration(lower: float = 0.0, upper: float = inf, *, or_zero: bool = False) -> Callable[[str], float]:
    """Return a reader of durations between two, both included, in seconds; of 0 too if ``or_zero``."""
    limits = f"of {format_duration(lower)} or more"
    if isfinite(upper):
        limits = f"between {format_duration(lower)} and {format_duration(upper)}"
    noun = f"a duration {limits}, such as 90s"
    return _valid(parse_duration, noun, lambda value: lower <= value <= upper or (or_zero and not value))


def whole(lower: int, upper: int = 10**9) -> Callable[[str], int]:
    """Return a reader of whole numbers between two, both included."""
    noun = f"a whole number from {lower} to {upper}"
    return _valid(int, noun, lambda value: lower <= value <= upper)


def number(upper: float = inf, *, above_zero: bool = False) -> Callable[[str], float]:
    """Return a reader of finite numbers from 0, or above 0, up to ``upper``, included."""
    noun = "a number above 0" if above_zero else "a number of 0 or more"
    noun += f", {upper:g} at most{': 0.7 is 70 %' * (upper == 1)}" if isfinite(upper) else ""
    return _valid(
        float, noun, lambda value: isfinite(value) and 0 <= value <= upper and (value > 0 or not above_zero)
    )
