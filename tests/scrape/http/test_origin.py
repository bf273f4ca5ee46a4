"""Origin and request target of a URL."""

from __future__ import annotations

import pytest

from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.http.origin import split


@pytest.mark.parametrize(
    "url",
    ["ftp://secret/", "secret", "http:///secret", "http://[::secret", "http://h:secret/", "http://h:99999/secret",
     "http://se cret/", "http://se<cret/", "http://s\u00e9cret/", "http://se%2fcret/", "http://[secret]/"],
)  # fmt: skip
def test_an_invalid_url_is_rejected_without_repeating_it(url):
    with pytest.raises(PollError) as caught:
        split(url)
    assert "cret" not in str(caught.value)
