"""Documents quote benchmarks that exist, and each has a smoke run."""

import re

from benchmarks import __main__ as everything
from tests.paths import CHECKOUT


def test_each_benchmark_that_a_document_quotes_is_among_them():
    texts = [path.read_text() for path in (*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"))]
    quoted = set(re.findall(r"-m benchmarks\.([a-z_]+)", " ".join(texts)))
    assert set() < quoted <= set(everything.NAMES)
