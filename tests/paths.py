"""Where the checkout and the data of the tests are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]
DATA: Final = CHECKOUT / "tests" / "data"
