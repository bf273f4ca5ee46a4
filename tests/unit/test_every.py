"""A check of many items names each item that fails."""

import pytest

from tests.every import every


def test_it_names_each_item_that_fails_and_no_other():
    def check(item):
        assert item != 2
        return [][item - 1] if item == 3 else None

    with pytest.raises(AssertionError) as caught:
        every([1, 2, 3], "item {}".format)(lambda item: check(item) if item > 1 else None)()
    lines = str(caught.value)
    assert "item 2: AssertionError" in lines
    assert "item 3: IndexError" in lines
    assert "item 1" not in lines


def test_nothing_to_check_is_a_failure():
    with pytest.raises(AssertionError, match="nothing to check"):
        every([])(lambda item: None)()
