"""Read speculation settings from a vLLM command line, as in the spec of a pod.

The flags follow ``vllm/engine/arg_utils.py``, their spellings ``vllm/utils/argparse_utils.py``, and the
methods of draft models ``vllm/config/speculative.py``. Command lines are only read, never executed.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation, speculation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MAX_COMMAND_CHARACTERS: Final = 65_536
"""Maximum characters of a command line and its environment."""
MAX_WORDS: Final = 1024
"""Maximum words and variables: empty words have no characters, but take time."""

MAX_SCRIPT: Final = 16_384
"""Maximum characters of a word or a script with its variables expanded."""

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
_TOKEN: Final = re.compile(
    r"[ \t\r\n]++|#[^\n]*+"  # blanks and comments
    r"|(?P<mark>[;&|()<>]++)"
    r"""|(?P<word>(?:[^ \t\r\n#'"\\;&|()<>]++|\\.|'[^']*+'|"(?:[^"\\]++|\\.)*+")++)""",
    re.DOTALL,
)
_PART: Final = re.compile(r"""\\(.)|'([^']*+)'|"((?:[^"\\]++|\\.)*+)"|([^'"\\]++)""", re.DOTALL)
_ESCAPED: Final = re.compile(r"""\\(["\\])""")
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
    if (
        len(words) + len(environ) > MAX_WORDS
        or sum(map(len, chain(words, environ.values()))) > MAX_COMMAND_CHARACTERS
    ):
        return None
    command = [_expanded(word, environ) for word in words]
    scripts = _first(filter(_is_script, [*command, *environ.values()]))
    command_lines = chain([command], (_words_of(script, environ) for script in scripts))
    return next(filter(None, map(_speculation, command_lines)), None)


def config_speculation(text: str) -> ServedSpeculation:
    """Return the settings in vLLM's ``--speculative-config``, or in a command line with this flag.

    The command line is for a shell, or has one literal word a line.

    Raises:
        ValueError: The text has no speculation settings, or is too long.
    """
    if len(text) > MAX_COMMAND_CHARACTERS:
        raise ValueError(f"has more than {MAX_COMMAND_CHARACTERS} characters")
    readings = (["--speculative-config", text], [text], _flags_of(text), text.splitlines())
    settings = next(filter(None, (pod_speculation(words, {}) for words in readings)), None)
    if settings is not None and settings.problem:
        raise ValueError(f"is not used: {settings.problem}")
    if settings is None:
        raise ValueError('is not vLLM\'s JSON, such as {"method": "ngram", "num_speculative_tokens": 4}')
    return settings


def _flags_of(text: str) -> list[str]:
    """Return flags at the beginning of lines with their values, which may have several lines."""
    flags = re.split(r"\n(?=-)", text)
    return [part for flag in flags for part in flag.split("\n", 1)]


def _expanded(word: str, environ: Mapping[str, str]) -> str:
    """Expand ``$(NAME)`` like Kubernetes: references to unknown variables stay."""
    if len(word) > MAX_SCRIPT:
        return ""
    size = sum(len(environ.get(match[1] or "", "")) for match in _REFERENCE.finditer(word))
    if len(word) + size > MAX_SCRIPT:
        return ""
    return _REFERENCE.sub(lambda match: environ.get(match[1], match[0]) if match[1] else "$", word)


def _is_script(word: str) -> bool:
    """Distinguish a shell script from a flag with its value, which may contain spaces too."""
    return (
        not word.startswith(("-", "{")) and len(word) <= MAX_SCRIPT and bool(_SPECULATION_FLAG.search(word))
    )


def _first(scripts: Iterable[str]) -> Iterator[str]:
    """Yield the first scripts, up to ``MAX_SCRIPT`` characters in total."""
    left = MAX_SCRIPT
    for script in scripts:
        left -= len(script)
        if left < 0:
            return
        yield script


def _words_of(script: str, environ: Mapping[str, str]) -> list[str]:
    """Return the words of a script; none if they are too long with variables expanded."""
    words: list[str] = []
    size = 0
    for word in _split(script):
        parts = _shell_expanded(word, environ)
        size += sum(map(len, parts))
        if size > MAX_SCRIPT:
            return []
        words += parts
    return words


@lru_cache(maxsize=64)
def _split(script: str) -> tuple[str, ...]:
    """Return the words of a shell script; none if its quotes do not match.

    The result is that of ``shlex.shlex`` with ``punctuation_chars``, in an eighth of the time.
    """
    text = script.replace("\\\n", " ")
    words: list[str] = []
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() != end:
            return ()
        end = match.end()
        if match.lastgroup is not None:
            words.append(match[0])
    return tuple(map(_unquoted, words)) if end == len(text) else ()


def _unquoted(word: str) -> str:
    if not ("'" in word or '"' in word or "\\" in word):
        return word
    return "".join(
        escaped or single or plain or _ESCAPED.sub(r"\1", double)
        for escaped, single, double, plain in _PART.findall(word)
    )


def _shell_expanded(word: str, environ: Mapping[str, str]) -> list[str]:
    """Expand a word that is a variable; flags in its value become separate words."""
    match = _SHELL_VARIABLE.fullmatch(word)
    value = environ.get(match[1] or match[2]) if match else None
    if value is None:
        return [word]
    # A too long value is not split: a script may refer to it thousands of times.
    return value.split() if value.startswith("-") and len(value) <= MAX_SCRIPT else [value]


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
    # A rejection method alone is no speculation.
    return None if replace(speculation, rejection_method="") == ServedSpeculation() else speculation


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
        return json.loads(text)
    except (ValueError, RecursionError):
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
