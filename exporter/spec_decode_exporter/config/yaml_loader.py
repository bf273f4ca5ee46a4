"""PyYAML's loader with limits of nodes, depth and text length, checked while the document is read.

The loader is the one in Python, not libyaml's: it lets other threads run, and its memory has a limit.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES: Final = 50_000
"""Keys and values of a document that is kept as a whole: about 13 MB."""
MAX_LIST_NODES: Final = 300_000
"""Keys and values of a list that is read item by item: about 6 s of work beside the event loop."""
MAX_ITEM_NODES: Final = 15_000
"""Keys and values of one item of such a list, and of all items with anchors, which are kept."""
MAX_TEXT: Final = 64 * 1024
"""Characters of one text."""
MAX_DIRECTIVES: Final = 10
"""Lines that begin with ``%``."""
_MAX_DEPTH: Final = 100
"""Levels of mappings and lists: twice the limit of a configuration."""


class BoundError(yaml.MarkedYAMLError):
    """The document exceeds a limit, which ``problem`` names."""


class NotAListError(Exception):
    """The document is not a list."""


class BoundedLoader(yaml.BaseLoader):
    """Compose texts, lists and mappings; raise ``BoundError`` as soon as a limit is exceeded.

    Nodes with an anchor have the attribute ``anchored``.
    """

    def __init__(self, data: bytes) -> None:
        self._nodes = self._depth = self._directives = 0
        self._max_nodes = MAX_NODES
        self._text_begin: int | None = None
        self._mark: yaml.Mark | None = None
        # A stream is decoded in parts, a text in one call that holds the GIL.
        super().__init__(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline=""))

    def items(self) -> Iterator[yaml.Node]:
        """Yield each item of the document's list, and keep only those with anchors.

        Raises:
            NotAListError: The document is not a list.
            yaml.YAMLError: It is not one document of YAML, or exceeds a limit.
        """
        self._event()  # the beginning of the stream
        if self.check_event(yaml.StreamEndEvent):
            return
        document = self._event()
        if not self.check_event(yaml.SequenceStartEvent):
            raise NotAListError
        self._event()
        total = anchored = 0
        while not self.check_event(yaml.SequenceEndEvent):
            self._nodes, anchors = 0, len(self.anchors)
            self._max_nodes = min(MAX_ITEM_NODES, MAX_LIST_NODES - total)
            node = self.compose_node(None, None)
            if node is not None:
                yield node
            total += self._nodes
            anchored += self._nodes if len(self.anchors) > anchors else 0
            if anchored > MAX_ITEM_NODES:
                raise self._beyond(f"has more than {MAX_ITEM_NODES} values in items with anchors")
        for _ in ("the end of the list", "the end of the document"):
            self._event()
        if not self.check_event(yaml.StreamEndEvent):
            raise yaml.composer.ComposerError(
                "expected a single document in the stream", document.start_mark, None, self.get_mark()
            )

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401  as PyYAML
        """Compose a node within the limits."""
        self._nodes += 1
        self._depth += 1
        if self._nodes > self._max_nodes:
            raise self._beyond(f"has more than {self._max_nodes} values")
        if self._depth > _MAX_DEPTH:
            raise self._beyond("is nested too deeply")
        is_alias = self.check_event(yaml.AliasEvent)
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        has_anchor = event.anchor is not None and not is_alias
        node = super().compose_node(parent, index)
        if has_anchor:
            node.anchored = True  # type: ignore[union-attr]
        self._depth -= 1
        return node

    def get_mark(self) -> yaml.Mark:
        """Return the position of the next character: one object for all nodes of a line, to save memory."""
        if self._mark is None or self._mark.line != self.line:
            self._mark = super().get_mark()
        return self._mark

    def update(self, length: int) -> None:
        """Read more of the stream, at least every 4,096 characters."""
        begin = self.index if self._text_begin is None else self._text_begin
        if length > MAX_TEXT or self.index - begin > MAX_TEXT:
            raise self._beyond(f"has a text of more than {MAX_TEXT} characters")
        super().update(length)

    def fetch_directive(self) -> None:
        """Read a line that begins with ``%``."""
        self._directives += 1
        if self._directives > MAX_DIRECTIVES:
            raise self._beyond(f"has more than {MAX_DIRECTIVES} directives")
        super().fetch_directive()

    def scan_plain(self) -> yaml.ScalarToken:
        """Read a text without quotes."""
        with self._text():
            return super().scan_plain()

    def scan_flow_scalar(self, style: str) -> yaml.ScalarToken:
        """Read a text in quotes."""
        with self._text():
            return super().scan_flow_scalar(style)

    def scan_block_scalar(self, style: str) -> yaml.ScalarToken:
        """Read a text in lines of its own."""
        with self._text():
            return super().scan_block_scalar(style)

    def _event(self) -> Any:  # noqa: ANN401  PyYAML has no types for its events
        return self.get_event()  # type: ignore[no-untyped-call]

    @contextmanager
    def _text(self) -> Iterator[None]:
        self._text_begin = self.index
        yield
        self._text_begin = None

    def _beyond(self, problem: str) -> BoundError:
        return BoundError(problem=problem, problem_mark=self.get_mark())
