"""VectorStore: one collection of a Qdrant server."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from facet_dagster.adapters.qdrant_common import ID_KEY, SCROLL, batches, hit_of, nearest, payload_of, point_id
from facet_dagster.errors import VectorStoreError
from facet_dagster.ports import Hit, Point

Result = TypeVar("Result")


class QdrantClientVectorStore:
    """``server`` is the URL of a server, or a client; the collection is made at the first ``upsert``.

    Never give it a client with a local folder: that loads everything into memory and scans it in Python.
    """

    def __init__(
        self, server: str | QdrantClient, collection: str, *, api_key: str | None = None, seconds: int = 30
    ) -> None:
        self._name = collection
        self._where = server if isinstance(server, str) else "the given client"
        self._client = (
            QdrantClient(url=server, api_key=api_key, timeout=seconds, check_compatibility=False)
            if isinstance(server, str)
            else server
        )
        self._guard = threading.Lock()
        self._exists = False
        self._open = True

    def upsert(self, points: Sequence[Point]) -> None:
        for batch in batches(points):
            self._ensure(len(batch[0].vector))
            rows = [models.PointStruct(id=point_id(p.id), vector=list(p.vector), payload=payload_of(p)) for p in batch]
            self._call("write to", partial(self._client.upsert, self._name, rows, wait=True))

    def query(
        self, vectors: Sequence[Sequence[float]], *, limit: int, where: Mapping[str, str] | None = None
    ) -> list[list[Hit]]:
        if limit < 1 or not vectors or not self._is_there():
            return [[] for _ in vectors]
        conditions: list[models.Condition] = [
            models.FieldCondition(key=key, match=models.MatchValue(value=value)) for key, value in (where or {}).items()
        ]

        def fetch(some: Sequence[Sequence[float]], size: int) -> list[list[Hit]]:
            requests = [
                models.QueryRequest(
                    query=list(vector), filter=models.Filter(must=conditions), limit=size, with_payload=True
                )
                for vector in some
            ]
            found = self._call("search", lambda: self._client.query_batch_points(self._name, requests))
            return [[hit_of(point.score, point.payload) for point in reply.points] for reply in found]

        return nearest(fetch, vectors, limit)

    def ids(self) -> set[str]:
        found: set[str] = set()
        offset: models.ExtendedPointId | None = None
        while self._is_there():
            records, offset = self._call(
                "read",
                partial(self._client.scroll, self._name, limit=SCROLL, offset=offset, with_payload=[ID_KEY]),
            )
            found.update(str((record.payload or {})[ID_KEY]) for record in records)
            if offset is None:
                break
        return found

    def delete(self, ids: Sequence[str]) -> None:
        if ids and self._is_there():
            chosen = models.PointIdsList(points=[point_id(ident) for ident in ids])
            self._call("delete from", lambda: self._client.delete(self._name, chosen, wait=True))

    def is_there(self) -> bool:
        """Whether the server has the collection. Raises VectorStoreError when it does not answer."""
        return self._is_there()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._client.close()

    def _is_there(self) -> bool:
        if not self._exists:
            self._exists = self._call("reach", lambda: self._client.collection_exists(self._name))
        self._check()
        return self._exists

    def _ensure(self, size: int) -> None:
        with self._guard:
            if self._is_there():
                return
            params = models.VectorParams(size=size, distance=models.Distance.COSINE)
            self._call("create", lambda: self._client.create_collection(self._name, vectors_config=params))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an in-memory client has no indexes, and says so
                self._call(
                    "index",
                    lambda: self._client.create_payload_index(self._name, "family", models.PayloadSchemaType.KEYWORD),
                )
            self._exists = True

    def _call(self, what: str, action: Callable[[], Result]) -> Result:
        self._check()
        try:
            return action()
        except UnexpectedResponse as error:
            busy = (error.status_code or 0) >= 500 or error.status_code == 429
            raise self._error(what, error, transient=busy) from error
        except (ResponseHandlingException, httpx.HTTPError, OSError) as error:
            raise self._error(what, error, transient=True) from error
        except (ApiException, ValueError, KeyError) as error:
            raise self._error(what, error, transient=False) from error

    def _error(self, what: str, error: Exception, *, transient: bool) -> VectorStoreError:
        return VectorStoreError(
            f"Cannot {what} the collection {self._name} of {self._where}: {str(error)[:500]}", transient=transient
        )

    def _check(self) -> None:
        if not self._open:
            raise VectorStoreError("The vector store is closed")
