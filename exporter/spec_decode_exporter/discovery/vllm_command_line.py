"""Read speculation settings from a vLLM command line, as in the spec of a pod.

The flags follow ``vllm/engine/arg_utils.py``, their spellings ``vllm/utils/argparse_utils.py``, and the
methods of draft models ``vllm/config/speculative.py``. Command lines are only read, never executed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice, zip_longest
from typing import Final

from spec_decode_exporter.core.numbers import decode
from spec_decode_exporter.scrape.server_info import ServedSpeculation, speculation_of

MAX_COMMAND_CHARACTERS: Final = 32 * 2**10
"""Characters of a pod's commands and variables, also with variables expanded: some 60 ms of work."""
MAX_WORDS: Final = 1024  # words and variables: empty words have no characters, but take time
_MAX_VARIABLES: Final = 4  # that are read without a command that names them
_FLAGS: Final = {
    **dict.fromkeys(("--speculative-config", "-sc"), ""),
    "--spec-method": "method",
    **dict.fromkeys(("--spec-model", "--speculative-model"), "model"),
    **dict.fromkeys(("--spec-tokens", "--num-speculative-tokens"), "num_speculative_tokens"),
    **dict.fromkeys(("serve", "--model"), "served"),
}
"""vLLM's flags, also those before 0.9, and the settings that they set; an empty one is all of them."""
_SPECULATION_FLAG: Final = re.compile(r"(?:^|[\s'\"])(?:--spec|--num[-_]spec|-sc\b)")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)", re.ASCII)
_SHELL_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)(?::?-[^{}]*)?\}|(\w+))", re.ASCII)
_SPACE: Final = re.compile(r"[ \t\r\n]")
_BARE_JSON: Final = re.compile(
    r"(?:[^{'\"]*[\s=])?\{\s*\""
)  # in no quotes: a shell would take those of its keys
_BARE_WORD: Final = re.compile(r"(?:[^\s{]|\{[^{}]*\})+")
_ARGUMENTS: Final = re.compile(r"(?i)(?:args?|arguments|flags?|opts|options|cmd|command|params)(?![a-z])")
"""Names of variables that hold arguments, such as KServe's ``VLLM_ADDITIONAL_ARGS``."""
_COMMAND: Final = re.compile(r"\s*(?:exec\s+)?(?:\S*/)?(?:(?:vllm\s+)?serve|python[\d.]*\s+-m)\s")
"""Beginning of a value that is a whole command line, whatever its variable is called."""
_SPECULATOR: Final = re.compile(r"(?i:speculators?[.-](eagle3?|p-?eagle|mtp|dflash|dspark)(?![a-z0-9]))")
"""Name of a checkpoint in the format of ``speculators``; vLLM drafts with it for the model in its files."""
_MENTIONED: Final = re.compile(f"{_SPECULATION_FLAG.pattern}|{_SPECULATOR.pattern}")
_BY_NAME: Final = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
"""Methods that vLLM infers from a draft model's name; the first match counts."""
_NGRAM: Final = frozenset({"ngram", "[ngram]"})


def pod_speculation(words: Sequence[str], environ: Mapping[str, str]) -> ServedSpeculation | None:
    """Return the speculation settings of a container's vLLM; None if its spec has none, or is too long.

    ``words`` are its ``command`` and ``args``, also shell scripts; ``environ`` has the values of the spec.
    """
    characters = sum(map(len, chain(words, environ.values())))
    if len(words) + len(environ) > MAX_WORDS or characters > MAX_COMMAND_CHARACTERS:
        return None
    known = {"$$": "$"}
    for name, value in environ.items():  # Kubernetes expands a value by the variables above it
        known[name] = _expanded(value, known)
    command = [_expanded(word, known) for word in words]
    texts = [*command, *known.values()]
    if sum(map(len, texts)) > MAX_COMMAND_CHARACTERS or not any(map(_MENTIONED.search, texts)):
        return None
    found = _speculation(_words(command, known))
    if found or any(map(_SPECULATION_FLAG.search, command)):
        return found
    # An entry point may read a variable that no command names; two that differ say nothing.
    read = (value for name, value in known.items() if _ARGUMENTS.search(name) or _COMMAND.match(value))
    few = islice(filter(_MENTIONED.search, read), _MAX_VARIABLES)
    distinct = {_speculation(_words([value], known)) for value in few} - {None}
    return distinct.pop() if len(distinct) == 1 else None


def config_speculation(text: str) -> ServedSpeculation:
    """Return the settings in vLLM's ``--speculative-config``, or in a command line with this flag.

    The line is for a shell, or has one literal word a line. Raise ValueError if there are none in it.
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


def _expanded(text: str, environ: Mapping[str, str], references: re.Pattern[str] = _REFERENCE) -> str:
    """Expand references to variables; those to unknown ones stay. A text that becomes too long is empty."""
    names = [match[match.lastindex or 0] for match in references.finditer(text)]
    if len(text) + sum(len(environ.get(name, "")) for name in names) > MAX_COMMAND_CHARACTERS:
        return ""
    return references.sub(lambda match: environ.get(match[match.lastindex or 0], match[0]), text)


def speculator_method(model: str) -> str:
    """Return the method of a ``speculators`` checkpoint, by its name or path; empty for another model."""
    match = _SPECULATOR.search(model)
    method = match[1].lower() if match else ""
    return "eagle3" if method.startswith("p") else method  # P-EAGLE is EAGLE-3 with parallel drafting


def _words(command: Iterable[str], environ: Mapping[str, str]) -> Sequence[str]:
    """Return the words of a command, and of its scripts and variables up to the limit of characters."""
    words: list[str] = []
    left, waiting = MAX_COMMAND_CHARACTERS, [*command][::-1]
    while waiting:
        word = waiting.pop()
        parts = _parts(word) if len(word) <= left else (word,)
        if parts == (word,) and len(word) <= left:
            parts = (_expanded(word, environ, _SHELL_VARIABLE),)
        if parts == (word,):
            words.append(word)
        else:
            left -= max(len(word), sum(map(len, parts)))
            waiting += parts[::-1]
    return words


def _parts(text: str) -> tuple[str, ...]:
    """Return the words of a text: itself if it is one, such as a JSON object."""
    flag, _, value = text.partition("=") if text.startswith("-") else ("", "", "")
    is_setting = value.startswith("{") and not _SPACE.search(flag) and isinstance(_loaded(value), dict)
    if is_setting or text.lstrip().startswith("{") or not _SPACE.search(text):
        return (text,)
    return tuple(_BARE_WORD.findall(text)) if _BARE_JSON.match(text) else _split(text)


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
    whole, dotted, single = dict[str, object](), dict[str, object](), dict[str, object]()
    for key, below, text in _options(words):
        value = _loaded(text)
        if key or below:
            (single if key else dotted)[key or below] = value
        elif isinstance(value, dict):
            whole = value
    served = single.pop("served", "")
    drafter = {"model": served} if isinstance(served, str) and speculator_method(served) else {}
    settings = {**drafter, **(dotted or whole), **single}
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
    if not isinstance(model, str) or model in _NGRAM:
        return "ngram" if isinstance(model, str) else None
    by_name = (name for part, name in _BY_NAME.items() if part in model.lower())
    return speculator_method(model) or next(by_name, None)
