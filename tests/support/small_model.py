"""A model of a few words for tests of search by meaning: words of one row mean the same, and all others mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

MEANINGS: Final = (
    ("car", "automobile", "vehicle"),
    ("bread", "loaf"),
    ("doctor", "physician"),
    ("secret", "password"),
)


def make_model(folder: Path, *, seed: int = 1, dimensions: int = 64) -> Path:
    """Write the model into a new folder, as model2vec keeps one; another seed gives another model. Return the folder."""
    rows = np.random.default_rng(seed).normal(size=(len(MEANINGS), dimensions)).astype(np.float32)
    words = {"[UNK]": 0}
    vectors = [np.zeros(dimensions, np.float32)]
    for row, meaning in zip(rows, MEANINGS, strict=True):
        for word in meaning:
            words[word] = len(vectors)
            vectors.append(row)
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))  # noqa: S106 - no password
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    StaticModel(np.stack(vectors), tokenizer).save_pretrained(folder)
    return folder
