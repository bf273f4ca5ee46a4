"""Keys of the configuration: their number, and their readers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import spec_decode_exporter
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.source import models_in
from spec_decode_exporter.config.types import Section
from spec_decode_exporter.web.security import WebSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel


MAX_KEYS: Final = 97
"""Limit of the keys of a configuration: before adding one, ask whether a constant of config/policy.py would do; raise it with a reason.

97: `speculative.adaptive`, which no metric shows and which makes acceptance rates wrong; `speculative.draft_memory`,
which no server reports, for the return on it.
"""
MAX_WEB_KEYS: Final = 9
PACKAGE: Final = Path(spec_decode_exporter.__file__).parent
READ_IN_CONFIG: Final = frozenset({"acceptance_ratio", "salt_file", "namespaces", "all_namespaces"})
"""Keys whose sections give other attributes for them: rates, the key of the hash, ``watched``."""


def keys(section: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield class and name of each key below a section that holds a value, once."""
    seen, waiting = {section}, [section]
    for one in waiting:
        for name, field in one.model_fields.items():
            below = [model for model in models_in(field.annotation) if issubclass(model, Section)]
            if not below:
                yield one.__name__, name
            waiting += [model for model in below if model not in seen]
            seen |= set(below)


@pytest.mark.parametrize(("section", "most"), [(Config, MAX_KEYS), (WebSettings, MAX_WEB_KEYS)])
def test_a_configuration_has_a_limited_number_of_keys(section, most):
    found = list(keys(section))
    assert len(found) <= most, (
        f"{len(found)} keys, {most} at most: would a constant do? Raise the limit only with a reason"
    )


def test_every_key_is_read_outside_the_configuration():
    paths = (path for path in PACKAGE.rglob("*.py") if PACKAGE / "config" not in path.parents)
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    code = re.sub(r'"""(?s:.*?)"""', "", text)
    read = set(re.findall(r"(?<=[\w\])])\.(\w+)\b(?! = )", code)) | READ_IN_CONFIG
    unread = [f"{section}.{name}" for section, name in keys(Config) if name not in read]
    assert unread == [], f"nothing reads {', '.join(unread)}: use the key, or remove it from config/"
