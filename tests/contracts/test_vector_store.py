"""One contract for every VectorStore: in memory, embedded shard, client in memory, and client over HTTP.

A real Qdrant server is not part of this: the HTTP variant talks to a stand-in.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from qdrant_client import QdrantClient

from facet_dagster.adapters.memory import MemoryVectorStore
from facet_dagster.adapters.qdrant_client_vector_store import QdrantClientVectorStore
from facet_dagster.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore
from facet_dagster.errors import VectorStoreError
from facet_dagster.ports import Point, VectorStore


def _shim() -> ModuleType:
    path = Path(__file__).parents[1] / "fixtures" / "qdrant_shim.py"
    spec = importlib.util.spec_from_file_location("qdrant_shim", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHIM = _shim()


@pytest.fixture(params=["memory", "edge", "client", "http"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    made: VectorStore
    if request.param == "http":
        with SHIM.serving() as shim:
            made = QdrantClientVectorStore(shim.url, "skills")
            yield made
            made.close()
        return
    if request.param == "memory":
        made = MemoryVectorStore()
    elif request.param == "edge":
        made = QdrantEdgeVectorStore(tmp_path / "shard")
    else:
        made = QdrantClientVectorStore(QdrantClient(":memory:"), "skills")
    yield made
    made.close()


def points(count: int = 4) -> list[Point]:
    """Points on a quarter circle: ``p0`` at the first axis, each next one farther away."""
    return [Point(f"p{n}", [1.0, 0.2 * n, 0.0], {"family": "ab"[n % 2], "source": "folder"}) for n in range(count)]


AXIS = [1.0, 0.0, 0.0]


def names(store: VectorStore, limit: int, where: dict[str, str] | None = None) -> list[str]:
    return [hit.id for hit in store.query([AXIS], limit=limit, where=where)[0]]


def test_an_empty_store_answers_with_nothing(store: VectorStore) -> None:
    assert store.ids() == set()
    assert store.query([AXIS, AXIS], limit=3) == [[], []]
    store.delete(["nobody"])


def test_hits_come_best_first_with_cosine_and_payload(store: VectorStore) -> None:
    store.upsert(points())
    [hits] = store.query([AXIS], limit=4)
    assert [hit.id for hit in hits] == ["p0", "p1", "p2", "p3"]
    assert hits[0].score == pytest.approx(1.0, abs=1e-4)
    assert hits[1].score == pytest.approx(1 / 1.04**0.5, abs=1e-4)
    assert dict(hits[1].payload) == {"family": "b", "source": "folder"}


def test_vectors_need_not_be_of_unit_length(store: VectorStore) -> None:
    store.upsert([Point("a", [10.0, 0.0, 0.0])])
    [[hit]] = store.query([[0.5, 0.0, 0.0]], limit=1)
    assert hit.score == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("limit", [0, 1, 3, 50])
def test_limit_bounds_the_hits(store: VectorStore, limit: int) -> None:
    store.upsert(points())
    assert names(store, limit) == ["p0", "p1", "p2", "p3"][:limit]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"family": "a"}, ["p0", "p2"]),
        ({"family": "b"}, ["p1", "p3"]),
        ({"family": "a", "source": "folder"}, ["p0", "p2"]),
        ({"family": "a", "source": "parquet"}, []),
        ({"family": "c"}, []),
        ({}, ["p0", "p1", "p2", "p3"]),
    ],
)
def test_where_keeps_points_whose_payload_equals(
    store: VectorStore, where: dict[str, str], expected: list[str]
) -> None:
    store.upsert(points())
    assert names(store, 10, where) == expected


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_ties_are_broken_by_id_also_at_the_cut(store: VectorStore, limit: int) -> None:
    order = ["t7", "t1", "t9", "t3", "t5", "t0", "t8", "t2", "t6", "t4"]
    store.upsert([Point(ident, [0.3, 0.4, 0.5]) for ident in order])
    assert names(store, limit) == sorted(order)[:limit]


def test_ties_of_one_query_leave_the_other_answers_of_its_batch_alone(store: VectorStore) -> None:
    store.upsert([Point(f"t{n}", [0.3, 0.4, 0.5]) for n in range(9)] + points())
    found = store.query([[0.3, 0.4, 0.5], AXIS, [0.3, 0.4, 0.5]], limit=2)
    assert [[hit.id for hit in hits] for hits in found] == [["t0", "t1"], ["p0", "p1"], ["t0", "t1"]]


def test_each_query_of_a_batch_gets_its_own_answer(store: VectorStore) -> None:
    store.upsert([Point("x", [1.0, 0.0, 0.0]), Point("y", [0.0, 1.0, 0.0])])
    found = store.query([[0.0, 1.0, 0.0], AXIS], limit=1)
    assert [[hit.id for hit in hits] for hits in found] == [["y"], ["x"]]


def test_no_queries_give_no_answers(store: VectorStore) -> None:
    store.upsert(points())
    assert store.query([], limit=3) == []


def test_upserting_again_replaces(store: VectorStore) -> None:
    store.upsert(points())
    store.upsert([Point("p0", [0.0, 0.0, 1.0], {"family": "z"})])
    assert names(store, 1) == ["p1"]
    assert names(store, 5, {"family": "z"}) == ["p0"]
    assert len(store.ids()) == 4


def test_of_two_points_with_one_id_the_later_counts(store: VectorStore) -> None:
    store.upsert([Point("a", [0.0, 1.0, 0.0]), Point("a", AXIS)])
    [[hit]] = store.query([AXIS], limit=5)
    assert hit.score == pytest.approx(1.0, abs=1e-4)


def test_nothing_to_upsert_is_no_error(store: VectorStore) -> None:
    store.upsert([])
    assert store.ids() == set()


def test_deleted_points_are_gone_and_unknown_ids_do_no_harm(store: VectorStore) -> None:
    store.upsert(points())
    store.delete(["p0", "nobody"])
    assert store.ids() == {"p1", "p2", "p3"}
    assert names(store, 1) == ["p1"]


@pytest.mark.parametrize("ident", ["folder-0a1b", "a/b c", "潮汐", "42", "x" * 300])
def test_any_text_is_an_id(store: VectorStore, ident: str) -> None:
    store.upsert([Point(ident, AXIS)])
    assert store.ids() == {ident}
    assert names(store, 1) == [ident]


def test_more_points_than_one_page_are_all_listed(store: VectorStore) -> None:
    store.upsert([Point(f"p{n}", [1.0, n / 1000, 0.0]) for n in range(1_203)])
    assert store.ids() == {f"p{n}" for n in range(1_203)}


def test_a_vector_of_another_length_is_refused(store: VectorStore) -> None:
    store.upsert(points())
    with pytest.raises(VectorStoreError):
        store.query([[1.0, 0.0]], limit=1)


@pytest.mark.parametrize(
    "use",
    [lambda s: s.ids(), lambda s: s.query([AXIS], limit=1), lambda s: s.upsert(points()), lambda s: s.delete(["a"])],
)
def test_a_closed_store_says_so(store: VectorStore, use: Callable[[VectorStore], object]) -> None:
    store.upsert(points())
    store.close()
    store.close()
    with pytest.raises(VectorStoreError, match="closed"):
        use(store)


def test_the_shard_is_there_after_closing(tmp_path: Path) -> None:
    first = QdrantEdgeVectorStore(tmp_path / "shard")
    first.upsert(points())
    first.close()
    again = QdrantEdgeVectorStore(tmp_path / "shard")
    assert names(again, 2) == ["p0", "p1"]
    again.close()


def test_a_held_shard_is_refused_before_it_is_touched_and_the_holder_is_named(tmp_path: Path) -> None:
    holder = QdrantEdgeVectorStore(tmp_path / "shard")
    holder.upsert(points())
    with pytest.raises(VectorStoreError, match=f"held by process {os.getpid()}") as caught:
        QdrantEdgeVectorStore(tmp_path / "shard", wait_seconds=0.1)
    assert caught.value.transient
    holder.upsert([Point("late", AXIS)])
    holder.close()
    again = QdrantEdgeVectorStore(tmp_path / "shard")
    assert again.ids() == {"p0", "p1", "p2", "p3", "late"}
    again.close()


def test_what_was_upserted_survives_a_killed_process(tmp_path: Path) -> None:
    program = f"""
        import os, signal
        from pathlib import Path
        from facet_dagster.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore
        from facet_dagster.ports import Point
        store = QdrantEdgeVectorStore(Path({str(tmp_path / "shard")!r}))
        store.upsert([Point(f"p{{n}}", [1.0, n / 700, 0.0], {{"family": "a"}}) for n in range(700)])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = QdrantEdgeVectorStore(tmp_path / "shard")
    assert len(store.ids()) == 700
    assert names(store, 2, {"family": "a"}) == ["p0", "p1"]
    store.close()


@pytest.mark.parametrize("kind", ["junk", "emptied", "segments gone"])
def test_a_damaged_shard_is_set_aside_and_can_be_filled_again(tmp_path: Path, kind: str) -> None:
    store = QdrantEdgeVectorStore(tmp_path / "shard")
    store.upsert(points())
    store.close()
    for path in [path for path in (tmp_path / "shard").rglob("*") if path.is_file()]:
        if kind != "segments gone":
            path.write_bytes(b"junk" if kind == "junk" else b"")
        elif "segments" in path.parts:
            path.unlink()
    again = QdrantEdgeVectorStore(tmp_path / "shard", wait_seconds=0.1)
    again.upsert(points())
    assert names(again, 2) == ["p0", "p1"]
    assert again.ids() == {"p0", "p1", "p2", "p3"}
    again.close()
    later = QdrantEdgeVectorStore(tmp_path / "shard", wait_seconds=0.1)
    assert len(later.ids()) == 4
    later.close()


def test_a_shard_that_ended_its_last_process_is_looked_at_by_a_child_first(tmp_path: Path) -> None:
    store = QdrantEdgeVectorStore(tmp_path / "shard")
    store.upsert(points(600))
    store.close()
    assert not (tmp_path / "shard.holder").exists()
    (tmp_path / "shard.holder").write_text("process 1")
    for file in (tmp_path / "shard" / "segments").rglob("*.mmap"):
        os.truncate(file, 64)
    again = QdrantEdgeVectorStore(tmp_path / "shard", wait_seconds=0.1)
    assert again.ids() == set()
    assert (tmp_path / "shard.damaged").is_dir()
    again.close()


def test_an_unreachable_server_is_transient() -> None:
    store = QdrantClientVectorStore("http://127.0.0.1:9", "skills", seconds=2)
    with pytest.raises(VectorStoreError, match="Cannot reach") as caught:
        store.ids()
    assert caught.value.transient
    store.close()


@pytest.mark.parametrize(("status", "transient"), [(500, True), (503, True), (403, False), (400, False)])
def test_a_servers_refusal_is_transient_only_where_it_may_pass(status: int, transient: bool) -> None:
    with SHIM.serving() as shim:
        store = QdrantClientVectorStore(shim.url, "skills")
        store.upsert(points())
        shim.fail_with = status
        with pytest.raises(VectorStoreError) as caught:
            store.query([AXIS], limit=1)
        assert caught.value.transient is transient
        store.close()


def test_a_second_client_finds_the_collection_of_the_first() -> None:
    with SHIM.serving() as shim:
        first, second = (QdrantClientVectorStore(shim.url, "skills") for _ in range(2))
        first.upsert(points())
        second.upsert([Point("late", AXIS)])
        assert first.ids() == second.ids() == {"p0", "p1", "p2", "p3", "late"}
        first.close()
        second.close()
