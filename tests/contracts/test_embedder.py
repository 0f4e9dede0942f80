"""One contract for every Embedder, with the real weights, offline."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from facet_dagster.adapters import sentence_transformers_embedder as adapter
from facet_dagster.adapters.memory import HashEmbedder
from facet_dagster.adapters.sentence_transformers_embedder import SentenceTransformersEmbedder
from facet_dagster.errors import EmbedderError
from facet_dagster.ports import Embedder

TEXTS = ["Read a CSV file of tide levels.", "Cut a video into scenes.", "a", "", "潮汐表", "word " * 2_000]


@pytest.fixture(scope="module", params=["hash", "float32", "bfloat16"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return HashEmbedder() if request.param == "hash" else SentenceTransformersEmbedder(request.param)


def test_rows_are_float32_of_norm_one(embedder: Embedder) -> None:
    texts = [text for text in TEXTS if text.strip(" 潮汐表")]
    rows = embedder.encode(texts)
    assert rows.dtype == np.float32
    assert rows.shape[0] == len(texts)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)


def test_nothing_gives_an_empty_array_of_the_same_width(embedder: Embedder) -> None:
    assert embedder.encode([]).shape == (0, embedder.encode(["a"]).shape[1])


def test_the_same_text_gives_the_same_vector(embedder: Embedder) -> None:
    assert np.array_equal(embedder.encode(TEXTS[:2]), embedder.encode(TEXTS[:2]))


def test_a_text_hardly_depends_on_its_batch(embedder: Embedder) -> None:
    alone = embedder.encode(TEXTS[:1])[0]
    among = embedder.encode(TEXTS)[0]
    assert float(alone @ among) > 0.999


def test_rows_keep_the_order_of_the_texts(embedder: Embedder) -> None:
    forward, backward = embedder.encode(TEXTS[:3]), embedder.encode(TEXTS[:3][::-1])
    assert float(np.min(np.sum(forward * backward[::-1], axis=1))) > 0.999


def test_related_texts_are_nearer_than_others() -> None:
    rows = SentenceTransformersEmbedder().encode(
        ["merge two spreadsheets", "join tables of a workbook", "trim a song with ffmpeg"]
    )
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1


def test_both_number_formats_rank_alike() -> None:
    exact, fast = (SentenceTransformersEmbedder(dtype).encode(TEXTS) for dtype in ("float32", "bfloat16"))
    assert float(np.min(np.sum(exact * fast, axis=1))) > 0.99


def test_the_name_tells_model_and_format() -> None:
    names = {SentenceTransformersEmbedder(dtype).name for dtype in ("float32", "bfloat16")}
    assert len(names) == 2
    assert all("all-MiniLM-L6-v2" in name for name in names)
    assert SentenceTransformersEmbedder("auto").name in names


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(EmbedderError, match="float16"):
        SentenceTransformersEmbedder("float16")


def test_missing_weights_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="make setup"):
        SentenceTransformersEmbedder(folder=tmp_path).encode(["a"])


def test_changed_weights_are_never_loaded(tmp_path: Path) -> None:
    shutil.copytree(adapter._package_folder(), tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(EmbedderError, match="damaged or changed"):
        SentenceTransformersEmbedder(folder=tmp_path / "model").encode(["a"])


def test_a_broken_configuration_is_an_embedder_error(tmp_path: Path) -> None:
    shutil.copytree(adapter._package_folder(), tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(EmbedderError, match="cannot be loaded"):
        SentenceTransformersEmbedder(folder=tmp_path / "model").encode(["a"])
