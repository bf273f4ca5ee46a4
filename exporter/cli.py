"""The commands: run (the default), check-config and simulate."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from exporter import __version__
from exporter.clock import SystemClock
from exporter.config.environment import FromVariable
from exporter.config.load import ConfigError, load
from exporter.config.schema import DEFAULT_URL, Config, SpeculativeSettings, TargetSettings
from exporter.export.catalogue import NAMES
from exporter.log import configure_log
from exporter.service import REVISION, Options, Service
from exporter.targets.arguments import config_speculation
from exporter.web.listen import ListenError, parse_listen_address

ENVIRONMENT_PREFIX: Final = "SPEC_DECODE_EXPORTER_"
DEFAULT_ADDRESS: Final = ":7732"
_COMMANDS: Final = ("run", "check-config", "simulate")

Result = TypeVar("Result")

_log = structlog.get_logger()

_SWITCH: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("", "0", "false", "no", "off"), False),
}

_OVERRIDES: Final = {
    "poll_interval": "poll.interval",
    "cost_draft_cost_ratio": "cost.draft_cost_ratio",
    "cost_draft_parameters": "cost.draft_parameters",
    "cost_target_parameters": "cost.target_parameters",
    "state_file": "state.file",
    "shard_index": "discovery.shard.index",
    "shard_count": "discovery.shard.count",
    "log_level": "log.level",
    "log_format": "log.format",
}
"""Flags that stand for a key of the configuration."""

_SPECULATIVE: Final = {
    "--speculative.method": "method",
    "--speculative.tokens": "tokens",
    "--speculative.draft-model": "draft_model",
}
"""Flags that stand for a key under ``speculative``, on every target that no file names."""

_SPECULATIVE_CONFIG: Final = "--speculative.config"
"""The flag that says it in vLLM's own words, where neither those flags nor a file do."""


class UsageError(Exception):
    """The flags cannot be used as they are."""


def main() -> None:
    """Run the command line; the process' exit status is 0, or 1 for what went wrong, or 2 for usage."""
    try:
        arguments = parse(sys.argv[1:], os.environ)
        sys.exit(arguments.handle(arguments))
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - one mistake a line, each with its place
        sys.exit(1)
    except (ListenError, UsageError, ValueError) as error:
        print(f"spec-decode-exporter: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def parse(words: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Read the command line; a flag that is not given is taken from its environment variable."""
    parser = build_parser(environ, simulate="simulate" in words[:1])
    named = any(word in _COMMANDS for word in words[:1])
    asks = any(word in ("-h", "--help", "--version") for word in words[:1])
    if words and not named and not words[0].startswith("-"):
        raise UsageError(f"there is no command {words[0]!r}; the commands are {', '.join(_COMMANDS)}")
    return parser.parse_args(list(words) if named or asks else ["run", *words])


def build_parser(environ: Mapping[str, str], *, simulate: bool = True) -> argparse.ArgumentParser:
    """Return the parser of every command and flag; without those of ``simulate`` where they are not needed.

    A sidecar should not hold a simulator in its memory, so that is only imported where it is used.
    """
    parser = argparse.ArgumentParser(
        prog="spec-decode-exporter",
        description="Prometheus exporter that says what vLLM's speculative-decoding counters mean now.",
        epilog="Without a command, run. Each flag is also an environment variable: --web.listen-address is "
        f"{ENVIRONMENT_PREFIX}WEB_LISTEN_ADDRESS, with commas between several values.",
    )
    version = f"%(prog)s {__version__} (revision {REVISION}, Python {sys.version.split()[0]})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="{run,check-config,simulate}")
    run = commands.add_parser("run", help="watch servers and serve their metrics")
    run.add_argument("--version", action="version", version=version)
    _add_run_flags(_Flags(run, environ))
    run.set_defaults(handle=_run, simulated=None)
    check = commands.add_parser("check-config", help="check a configuration file and list every mistake")
    check.add_argument("file", metavar="FILE", type=Path)
    check.set_defaults(handle=_check_config)
    simulator = commands.add_parser("simulate", help="serve a simulated vLLM, for demos, drills and tests")
    if simulate:
        from exporter.simulate import command

        command.add_arguments(simulator)
    simulator.set_defaults(handle=_simulate)
    return parser


def _as_given(text: str) -> str:
    return text


def _absolute(path: str) -> str:
    """Make a path one from where the exporter was started; those in a file are relative to the file."""
    absolute = str(Path(path).absolute())
    return FromVariable.of(absolute, path.variable) if isinstance(path, FromVariable) else absolute


class _Flags:
    """Adds flags that can also come from the environment."""

    def __init__(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        self._parser = parser
        self._environ = environ

    def one(
        self,
        name: str,
        metavar: str,
        text: str,
        default: str | None = None,
        read: Callable[[str], str] = _as_given,
    ) -> None:
        """Add a flag with one value. A variable that holds nothing is as good as none."""
        default = self._value(name) or default
        self._parser.add_argument(
            name, dest=_destination(name), metavar=metavar, default=default, help=text, type=read
        )

    def several(self, name: str, metavar: str, text: str) -> None:
        """Add a flag that may be repeated; given on the command line, it replaces its variable's values."""
        parts = _parts(self._value(name))
        self._parser.add_argument(
            name, dest=_destination(name), metavar=metavar, help=text, action=_Replace, default=parts
        )

    def switch(self, name: str, text: str) -> None:
        """Add a flag without a value, and its --no- counterpart."""
        variable = _variable(name)
        text_value = self._environ.get(variable, "").lower()
        if text_value not in _SWITCH:
            raise UsageError(f"{variable} is {text_value!r}; it is a switch, set it to true or false")
        self._parser.add_argument(
            name,
            dest=_destination(name),
            action=argparse.BooleanOptionalAction,
            default=_SWITCH[text_value],
            help=text,
        )

    def _value(self, name: str) -> FromVariable | None:
        """Return what the flag's variable holds; None if that is nothing."""
        variable = _variable(name)
        value = self._environ.get(variable)
        return FromVariable.of(value, variable) if value else None


class _Replace(argparse.Action):
    """Collects a flag's values; the first one drops those that came from the environment."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Take one more value."""
        del parser, option_string
        given = getattr(namespace, self.dest)
        fresh = given is self.default
        setattr(namespace, self.dest, [*([] if fresh else given), values])


def _parts(value: FromVariable | None) -> list[str]:
    if value is None:
        return []
    return [FromVariable.of(part.strip(), value.variable) for part in value.split(",") if part.strip()]


def _add_run_flags(flags: _Flags) -> None:
    flags.one("--config.file", "FILE", "the configuration; without one, flags and defaults")
    flags.switch("--config.auto-reload", "read the configuration again when its file changes")
    flags.several("--target", "URL", "a metrics page to watch, without a configuration; repeatable")
    flags.one(
        "--poll.interval", "DURATION", "how often a server is asked, such as 1s; goes before the file's"
    )
    flags.one("--speculative.method", "METHOD", "how the target speculates, such as eagle3 or ngram")
    flags.one("--speculative.tokens", "NUMBER", "how many tokens the target drafts at a time")
    flags.one("--speculative.draft-model", "NAME", "the name of the target's draft model")
    flags.one(_SPECULATIVE_CONFIG, "JSON", "or what the target's vLLM is given as --speculative-config")
    flags.one("--cost.draft-cost-ratio", "RATIO", "what a draft token costs, in plain decode steps")
    flags.one("--cost.draft-parameters", "NUMBER", "or the size of the draft model, such as 500M …")
    flags.one("--cost.target-parameters", "NUMBER", "… beside that of the model that is served, such as 8B")
    flags.one("--state.file", "FILE", "what is remembered over a restart of the exporter", read=_absolute)
    flags.one("--shard.count", "NUMBER", "how many exporters share the targets")
    flags.one("--shard.index", "NUMBER", "which of them this is, from 0, or auto for a StatefulSet's pod")
    flags.several(
        "--web.listen-address", "ADDRESS", f"where to serve; repeatable (default {DEFAULT_ADDRESS})"
    )
    flags.one("--web.telemetry-path", "PATH", "the path of the metrics (default /metrics)", "/metrics")
    flags.switch("--web.enable-lifecycle", "let POST /-/reload read the configuration again")
    flags.one("--log.level", "LEVEL", "debug, info, warning or error (default info)")
    flags.one("--log.format", "FORMAT", "logfmt or json (default logfmt)")
    flags.one("--simulate", "SCENARIO", "watch an embedded simulated vLLM instead of real servers")


def _variable(flag: str) -> str:
    return ENVIRONMENT_PREFIX + flag.removeprefix("--").replace(".", "_").replace("-", "_").upper()


def _destination(flag: str) -> str:
    return flag.removeprefix("--").replace(".", "_").replace("-", "_")


def read_config(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Config:
    """Load the configuration that the flags of ``run`` ask for.

    Raises:
        ConfigError: It has mistakes.
        UsageError: Targets come from more than one of a file, flags and the simulator.
    """
    overrides: dict[str, object] = {
        key: getattr(arguments, flag)
        for flag, key in _OVERRIDES.items()
        if getattr(arguments, flag) is not None
    }
    targets = _targets(arguments)
    if targets:
        overrides["targets"] = targets
    path = Path(arguments.config_file) if arguments.config_file else None
    config = load(path, environ=environ, overrides=overrides, metrics=NAMES)
    return _told(config, _understood(arguments.speculative_config))


def _targets(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Return the targets that the flags name; none, if they say nothing of targets."""
    said = {flag: getattr(arguments, _destination(flag)) for flag in _SPECULATIVE}
    if arguments.simulate and (arguments.target or arguments.config_file):
        raise UsageError("--simulate is for use without --target and --config.file; it brings its own target")
    if arguments.config_file:
        _refuse_beside_file({"--target": next(iter(arguments.target), None), **said})
    speculative = {_SPECULATIVE[flag]: value for flag, value in said.items() if value is not None}
    more = {"speculative": speculative} if speculative else {}
    if arguments.simulated:
        return [{**arguments.simulated, **more}]
    urls = arguments.target or ([DEFAULT_URL] if speculative else [])
    return [{"url": url, **more} for url in urls]


def _understood(text: str | None) -> dict[str, object]:
    """Return what vLLM's ``--speculative-config`` says.

    Who injects a sidecar copies it from the pod into the variable unseen: what cannot be understood there is
    no reason not to start.
    """
    if text is None:
        return {}
    try:
        found = config_speculation(text)
    except ValueError as error:
        if not isinstance(text, FromVariable):
            raise UsageError(f"{_SPECULATIVE_CONFIG} {error}") from None
        _log.warning("variable_not_understood", variable=text.variable, reason=str(error))
        return {}
    said = {"method": found.method, "tokens": found.tokens, "draft_model": found.draft_model}
    return {key: value for key, value in said.items() if value}


def _told(config: Config, said: Mapping[str, object]) -> Config:
    """Give every configured target what is ``said`` of its speculation, where it does not say it itself."""
    if not said:
        return config
    targets = (
        target.model_copy(
            update={"speculative": SpeculativeSettings.model_validate({**said, **_own(target)})}
        )
        for target in config.targets
    )
    return config.model_copy(update={"targets": tuple(targets)})


def _own(target: TargetSettings) -> dict[str, object]:
    return target.speculative.model_dump(exclude_none=True) if target.speculative else {}


def _refuse_beside_file(said: Mapping[str, str | None]) -> None:
    for flag, value in said.items():
        if value is not None:
            name = value.variable if isinstance(value, FromVariable) else flag
            raise UsageError(
                f"{name} is for use without --config.file; put it into the file, under `targets`"
            )


def _run(arguments: argparse.Namespace) -> int:
    run_loop(_serve(arguments))
    with suppress(OSError):
        sys.stdout.flush()
    # A name look-up that hangs has its thread hang too, and the interpreter would wait for it.
    os._exit(0)


class _Unwaited(ThreadPoolExecutor):
    """Threads that nobody waits for when the program ends: what they still do is of no use then."""

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:  # noqa: FBT001, FBT002
        """Let them be, whatever ``wait`` asks for."""
        del wait
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def run_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run on uvloop where it is installed, else on asyncio's own loop."""
    if find_spec("uvloop") is None:
        return asyncio.run(coroutine)
    import uvloop

    result: Result = uvloop.run(coroutine)
    return result


@asynccontextmanager
async def _simulated(name: str) -> AsyncIterator[dict[str, object]]:
    """Serve a simulated vLLM inside this process; yields it as a target, with what drafting costs."""
    from exporter.simulate.library import load_scenario
    from exporter.simulate.server import serve
    from exporter.simulate.simulation import Simulation
    from exporter.simulate.truth import target_settings

    scenario = load_scenario(name)
    server = await serve(Simulation(scenario, seed=0), "127.0.0.1", 0)
    try:
        yield {
            "url": f"http://127.0.0.1:{server.port}/metrics",
            "name": "simulated-vllm",
            **target_settings(scenario),
        }
    finally:
        await server.close()


async def _serve(arguments: argparse.Namespace) -> None:
    asyncio.get_running_loop().set_default_executor(_Unwaited())
    async with AsyncExitStack() as stack:
        if arguments.simulate:
            arguments.simulated = await stack.enter_async_context(_simulated(arguments.simulate))

        def read() -> Config:
            config = read_config(arguments, os.environ)
            configure_log(config.log.level, config.log.format)
            return config

        options = Options(
            addresses=[
                parse_listen_address(text) for text in arguments.web_listen_address or [DEFAULT_ADDRESS]
            ],
            telemetry_path=arguments.web_telemetry_path,
            lifecycle=arguments.web_enable_lifecycle,
            watched=_watched(arguments),
        )
        await Service(read, options, SystemClock()).run(_show_page)


def _watched(arguments: argparse.Namespace) -> Path | None:
    if not arguments.config_auto_reload:
        return None
    if not arguments.config_file:
        raise UsageError("--config.auto-reload is for use with --config.file; there is no file to watch")
    return Path(arguments.config_file)


def _show_page(urls: Sequence[str]) -> None:
    # Nobody may be there to read it, which is no reason not to serve.
    with suppress(OSError):
        print(f"spec-decode-exporter {__version__}: open {urls[0]}", flush=True)  # noqa: T201


def _check_config(arguments: argparse.Namespace) -> int:
    config = load(arguments.file, environ=os.environ, metrics=NAMES)
    targets = f"{len(config.targets)} target{'s' if len(config.targets) != 1 else ''}"
    found = " and what discovery finds" if config.discovery.ways else ""
    print(f"{arguments.file}: good, watches {targets}{found}")  # noqa: T201
    return 0


def _simulate(arguments: argparse.Namespace) -> int:
    from exporter.simulate import command

    return run_loop(command.run(arguments))


if __name__ == "__main__":
    main()
