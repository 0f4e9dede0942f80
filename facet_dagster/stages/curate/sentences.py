"""Vectors of written descriptions: embedded once for an embedder, however often skills are compared with them."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from facet_dagster.ports import Embedder, Vectors

_KNOWN: WeakKeyDictionary[Embedder, dict[tuple[str, ...], Vectors]] = WeakKeyDictionary()


def sentence_vectors(texts: tuple[str, ...], embedder: Embedder) -> Vectors:
    """One row for each text. Raises EmbedderError."""
    known = _KNOWN.setdefault(embedder, {})
    if texts not in known:
        known[texts] = embedder.encode(texts)
    return known[texts]
