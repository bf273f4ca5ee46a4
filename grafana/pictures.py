"""Marks in the pictures of the dashboards: a hash of what each shows, to tell when it is out of date."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"Dashboard\0"
_PANEL = ("type", "title", "gridPos", "fieldConfig", "options", "transformations", "collapsed")
_QUERY = ("expr", "legendFormat", "format", "instant")
_MARK = ("expr", "iconColor")
_CHOICE = ("name", "label", "type", "definition", "allValue")


def picture_of(uid: str) -> str:
    """Return the file name of a dashboard's picture."""
    return f"dashboard-{uid.removeprefix('spec-decode-')}.png"


def fingerprint(board: Mapping[str, Any]) -> str:
    """Return a SHA-256, in hex, of the parts of a dashboard's JSON that its picture is drawn from.

    These are titles, kinds, places and looks of panels, their queries and transformations, the marks and the
    variables. Left out is what no picture shows: descriptions, uid, tags, ids, versions, refresh, and the
    panels of collapsed rows. A new description is no reason to draw for 20 minutes.
    """
    shown = {
        "title": board["title"],
        "marks": [_only(mark, _MARK) for mark in board["annotations"]["list"]],
        "choices": [_only(choice, _CHOICE) for choice in board["templating"]["list"]],
        "panels": [
            {**_only(panel, _PANEL), "queries": [_only(query, _QUERY) for query in panel.get("targets", ())]}
            for panel in board["panels"]
        ],
    }
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _only(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def stamped(png: bytes, mark: str) -> bytes:
    """Return the picture with a mark in a text chunk, instead of one that it had.

    Raises:
        ValueError: It is no PNG.
    """
    chunks = [chunk for chunk in _chunks(png) if not _is_mark(chunk)]
    body = b"tEXt" + _KEYWORD + mark.encode("latin-1")
    mine = (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    # The header must be the first.
    return b"".join((_SIGNATURE, chunks[0], mine, *chunks[1:]))


def stamp_of(png: bytes) -> str | None:
    """Return the mark of a picture, None without one.

    Raises:
        ValueError: It is no PNG.
    """
    marks = (chunk[8 + len(_KEYWORD) : -4].decode("latin-1") for chunk in _chunks(png) if _is_mark(chunk))
    return next(marks, None)


def _is_mark(chunk: bytes) -> bool:
    return chunk[4:].startswith(b"tEXt" + _KEYWORD)


def _chunks(png: bytes) -> Iterator[bytes]:
    """Split a PNG: length, kind, data and checksum of each chunk."""
    if not png.startswith(_SIGNATURE):
        raise ValueError("not a PNG: its first 8 bytes are not the signature of one")
    at = len(_SIGNATURE)
    while at < len(png):
        end = at + 12 + int.from_bytes(png[at : at + 4], "big")
        if end > len(png):
            raise ValueError(f"not a whole PNG: a chunk at byte {at} ends behind the file")
        yield png[at:end]
        at = end
