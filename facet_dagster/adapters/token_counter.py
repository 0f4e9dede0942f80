"""``TokenCounter`` by a tokenizer's file, or by an estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from facet_dagster.domain.ids import digest
from facet_dagster.errors import ConfigError

ESTIMATE = "characters/4"


class TokenizersTokenCounter:
    """By the ``tokenizer.json`` at ``path``; without one a token is four characters. Raises ConfigError."""

    def __init__(self, path: Path | None) -> None:
        self._tokenizer: Any = None
        self.name = ESTIMATE
        if path is None:
            return
        from tokenizers import Tokenizer  # a second to import

        try:
            data = path.read_bytes()
            self._tokenizer = Tokenizer.from_str(data.decode())
        except Exception as error:
            raise ConfigError(f"FACET_TOKENIZER {path} is no tokenizer.json that can be read: {error}") from error
        self.name = f"{path.name} {digest(data)[:12]}"

    def count(self, text: str) -> int:
        if self._tokenizer is None:
            return -(-len(text) // 4)
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
