"""Read speculation settings from a vLLM command line, as in the spec of a pod.

The flags follow ``vllm/engine/arg_utils.py``, their spellings ``vllm/utils/argparse_utils.py``, and the
methods of draft models ``vllm/config/speculative.py``. Command lines are only read, never executed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Final

from spec_decode_exporter.core.numbers import decode
from spec_decode_exporter.scrape.server_info import ServedSpeculation, speculation_of

MAX_COMMAND_CHARACTERS: Final = 65_536
"""Characters of a command line and its environment."""
MAX_WORDS: Final = 1024
"""Words and variables: empty words have no characters, but take time."""
MAX_SCRIPT: Final = 16_384
"""Characters of a word, and of all scripts, with variables expanded: 20 ms of work."""

_JSON: Final = ""
_FLAGS: Final = {
    "--speculative-config": _JSON,
    "-sc": _JSON,
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
    # Before vLLM 0.9:
    "--speculative-model": "model",
    "--num-speculative-tokens": "num_speculative_tokens",
}
"""vLLM's flags and the settings that they set; ``_JSON`` sets all of them."""
_SPECULATION_FLAG: Final = re.compile(r"(?:^|\s)(?:--spec|--num[-_]spec|-sc\b)")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)", re.ASCII)
_SHELL_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_BY_NAME: Final = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
"""Methods that vLLM infers from a draft model's name; the first match counts."""
_NGRAM: Final = frozenset({"ngram", "[ngram]"})


def pod_speculation(words: Sequence[str], environ: Mapping[str, str]) -> ServedSpeculation | None:
    """Return the speculation settings of a container's vLLM; None if its spec has none.

    A command line beyond ``MAX_WORDS`` or ``MAX_COMMAND_CHARACTERS`` is not read.

    Args:
        words: The container's ``command`` and ``args``. A word may be a whole shell script.
        environ: The part of its environment with values in the spec.
    """
    characters = sum(map(len, chain(words, environ.values())))
    if len(words) + len(environ) > MAX_WORDS or characters > MAX_COMMAND_CHARACTERS:
        return None
    command = [_expanded(word, environ) for word in words]
    return next(filter(None, map(_speculation, chain([command], _command_lines(command, environ)))), None)


def config_speculation(text: str) -> ServedSpeculation:
    """Return the settings in vLLM's ``--speculative-config``, or in a command line with this flag.

    The command line is for a shell, or has one literal word a line.

    Raises:
        ValueError: The text has no speculation settings, or is too long.
    """
    if len(text) > MAX_COMMAND_CHARACTERS:
        raise ValueError(f"has more than {MAX_COMMAND_CHARACTERS} characters")
    # Flags at the beginning of lines with their values, which may have several lines.
    flags = [part for flag in re.split(r"\n(?=-)", text) for part in flag.split("\n", 1)]
    readings = (["--speculative-config", text], [text], flags, text.splitlines())
    settings = next(filter(None, (pod_speculation(words, {}) for words in readings)), None)
    if settings is None:
        raise ValueError('is not vLLM\'s JSON, such as {"method": "ngram", "num_speculative_tokens": 4}')
    if settings.problem:
        raise ValueError(f"is not used: {settings.problem}")
    return settings


def _expanded(word: str, environ: Mapping[str, str]) -> str:
    """Expand ``$(NAME)`` like Kubernetes: references to unknown variables stay."""
    size = len(word) + sum(len(environ.get(name, "")) for name in _REFERENCE.findall(word))
    if size > MAX_SCRIPT:
        return ""
    return _REFERENCE.sub(lambda match: environ.get(match[1], match[0]) if match[1] else "$", word)


def _command_lines(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Sequence[str]]:
    """Yield the words of each shell script that mentions speculation, up to ``MAX_SCRIPT`` characters in all.

    A script is a word of the command, or a variable. A flag with its value may contain spaces too.
    """
    left = MAX_SCRIPT
    for script in chain(command, environ.values()):
        if script.startswith(("-", "{")) or len(script) > left or not _SPECULATION_FLAG.search(script):
            continue
        left -= len(script)
        yield _words_of(script, environ)


def _words_of(script: str, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the words of a script; flags in the value of a variable become separate words."""
    words: list[str] = []
    left = MAX_SCRIPT
    for word in _split(script):
        match = _SHELL_VARIABLE.fullmatch(word)
        value = environ.get(match[1] or match[2], word) if match else word
        left -= len(value)
        if left < 0:
            return ()
        words += value.split() if match and value.startswith("-") else [value]
    return words


@lru_cache(maxsize=64)
def _split(script: str) -> tuple[str, ...]:
    """Return the words of a shell script; none if its quotes do not match."""
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    try:
        return tuple(lexer)
    except ValueError:
        return ()


def _speculation(words: Sequence[str]) -> ServedSpeculation | None:
    """Return the settings of one command line; of repeated flags the last counts, as in vLLM."""
    whole: dict[str, object] = {}
    dotted: dict[str, object] = {}
    single: dict[str, object] = {}
    for key, below, text in _options(words):
        value = _loaded(text)
        if key:
            single[key] = value
        elif below:
            dotted[below] = value
        elif isinstance(value, dict):
            whole = value
    settings = {**(dotted or whole), **single}
    method = _method(settings.get("method"), settings.get("model"))
    speculation = speculation_of({**settings, "method": method})
    # A way to draft or to verify alone is no speculation.
    drafts = replace(speculation, rejection_method="", is_adaptive=False, drafts_in_parallel=False)
    return None if drafts == ServedSpeculation() else speculation


def _options(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the key that a flag sets, its part after a dot, and its value."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        flag, equals, value = word.partition("=")
        name, _, below = flag.partition(".")
        name = f"--{name[2:].replace('_', '-')}" if name.startswith("--") else name
        if name in _FLAGS:
            yield _FLAGS[name], below, value if equals else following


def _loaded(text: str) -> object:
    """Return the value of a JSON text; return other text unchanged."""
    try:
        return decode(text.encode(), len(text))
    except ValueError:
        return text


def _method(method: object, model: object) -> object:
    """Return the method that vLLM derives; None if it depends on the draft model's files."""
    if isinstance(method, str):
        return "ngram" if method in _NGRAM else "mtp" if method.endswith("_mtp") else method
    if not isinstance(model, str):
        return None
    if model in _NGRAM:
        return "ngram"
    return next((name for part, name in _BY_NAME.items() if part in model.lower()), None)
