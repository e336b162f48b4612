"""Tokenizer: text to token ids and back, with the names that DeepInfer's users know from Hugging Face."""

from __future__ import annotations

import json
import os
from typing import Iterable, Optional, Union

from . import _core

BEGIN = "<｜begin▁of▁sentence｜>"
END = "<｜end▁of▁sentence｜>"
PAD = "<｜▁pad▁｜>"


class Tokenizer:
    def __init__(self, core: "_core.Tokenizer", name_or_path: str) -> None:
        self._core = core
        self.name_or_path = name_or_path
        config = os.path.join(name_or_path, "config.json")
        ids: dict[str, Optional[int]] = {"bos": self._added(BEGIN), "eos": self._added(END), "pad": self._added(PAD)}
        if os.path.isfile(config):
            with open(config, encoding="utf-8") as file:
                stated = json.load(file)
            for name in ids:
                if isinstance(stated.get(f"{name}_token_id"), int):
                    ids[name] = stated[f"{name}_token_id"]
        self.bos_token_id, self.eos_token_id, self.pad_token_id = ids["bos"], ids["eos"], ids["pad"]

    @classmethod
    def from_file(cls, folder: str) -> "Tokenizer":
        """The tokenizer of a model's folder, without its model."""
        return cls(_core.load_tokenizer(os.path.join(folder, "tokenizer.json")), folder)

    def _added(self, spelling: str) -> Optional[int]:
        token = self._core.id(spelling.encode())
        return token if token is not None and self._core.is_added(token) else None

    def encode(self, text: str, add_special_tokens: bool = True, *, allow_special: bool = False) -> list[int]:
        """add_special_tokens puts one begin-of-sentence token in front, unless there is one already.  Spellings of
        control tokens inside `text` are text, unless allow_special."""
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}; allowed: a string")
        ids = self._core.encode(text.encode("utf-8", "surrogatepass"), allow_special)
        if add_special_tokens and self.bos_token_id is not None and ids[:1] != [self.bos_token_id]:
            ids.insert(0, self.bos_token_id)
        return ids

    def decode(self, token_ids: Union[int, Iterable[int]], skip_special_tokens: bool = False) -> str:
        ids = [token_ids] if isinstance(token_ids, int) else [int(i) for i in token_ids]
        if skip_special_tokens:
            ids = [i for i in ids if not self._core.is_special(i)]
        return self._core.decode(ids)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for, which need not be whole characters."""
        return self._core.token_bytes(token_id)

    def convert_tokens_to_ids(self, token: str) -> Optional[int]:
        return self._core.id(token.encode("utf-8", "surrogatepass"))

    @property
    def vocab_size(self) -> int:
        return self._core.vocabulary

    def __len__(self) -> int:
        return self._core.vocabulary
