"""Embedding models: a text becomes a row of numbers, and texts that mean the same get rows that point the same way.

A model comes from an installed package or from a folder. Nothing is fetched, whatever a model's own library would do.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput
from trails.files import as_path

_PACKAGE: Final = "wordllama"
"""The package whose weights are taken where no folder is named: MIT, 256 numbers a text, trained on English above all."""
_WEIGHTS: Final = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
_ONNX: Final = ("model.onnx", "onnx/model.onnx")
_TOKENS: Final = 256
"""Tokens of a piece of text that a sentence transformer reads."""
_BATCH: Final = 32
_MISSING: Final = "search by meaning needs the package `{}`, which is not installed: pip install 'trails[semantic]'"

Encode = Callable[[Sequence[str]], Any]
"""Gives an array of numbers with a row for each text."""


class Embedder(NamedTuple):
    """A model that is loaded."""

    name: str
    path: str | None
    """The folder that it was loaded from; None for the model of a package."""
    digest: str
    """SHA-256 of its weights and its tokenizer: another model has another one."""
    encode: Encode

    @property
    def dimensions(self) -> int:
        """Return how many numbers a text gets."""
        return int(self.encode(["a"]).shape[1])

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of each text, a byte a number: only where it points to is kept, not how long it is."""
        if not texts:
            return []
        import numpy as np  # noqa: PLC0415 - of an extra

        numbers = np.asarray(self.encode(texts), np.float32)
        greatest = np.abs(numbers).max(axis=1, keepdims=True)
        scaled = np.rint(numbers * (127 / np.where(greatest > 0, greatest, 1)))
        return [row.tobytes() for row in scaled.astype(np.int8)]


def load(folder: str | os.PathLike[str] | None = None) -> Embedder:
    """Load the model in a folder, or without one that of the package `wordllama`.

    A folder holds `tokenizer.json` and either `model.safetensors`, as model2vec writes it, or `model.onnx`, a sentence
    transformer in ONNX (also in a folder `onnx`, as the Hugging Face hub lays it out).

    Raises `InvalidInput` where the folder holds no such model, or a package is missing.
    """
    if folder is None:
        return _of_package()
    path = as_path(folder, "the folder of an embedding model").resolve()
    weights = next((path / name for name in (*_ONNX, "model.safetensors") if (path / name).is_file()), None)
    tokenizer = path / "tokenizer.json"
    if weights is None or not tokenizer.is_file():
        raise InvalidInput(
            f"{path} holds no embedding model: model.safetensors (model2vec) or model.onnx, with tokenizer.json "
            "(`trails guide branches` says where to get one); none is ever fetched"
        )
    return _load(path, weights, tokenizer, weights.stat().st_mtime_ns, tokenizer.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _of_package() -> Embedder:
    """Load the weights that the package carries: its own code, which could fetch others, is not run."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise InvalidInput(f"{_MISSING.format(_PACKAGE)}, or name the folder of another model")
    weights, tokenizer = (Path(spec.origin).parent / name for name in _WEIGHTS)
    try:
        from model2vec import StaticModel  # noqa: PLC0415 - of an extra
        from safetensors.numpy import load_file  # noqa: PLC0415 - comes with it
        from tokenizers import Tokenizer  # noqa: PLC0415 - comes with it
    except ImportError as error:
        raise InvalidInput(_MISSING.format("model2vec")) from error
    (numbers,) = load_file(weights).values()
    model = StaticModel(numbers.astype("float32"), Tokenizer.from_file(str(tokenizer)), normalize=True, max_length=None)
    return Embedder(f"{_PACKAGE} {version(_PACKAGE)}", None, _digest(weights, tokenizer), _static(model))


@lru_cache(maxsize=4)
def _load(path: Path, weights: Path, tokenizer: Path, *_times: int) -> Embedder:
    try:
        encode = _sentences(path, weights, tokenizer) if weights.suffix == ".onnx" else _of_folder(path)
    except ImportError as error:
        raise InvalidInput(_MISSING.format(error.name)) from error
    except Exception as error:  # each library has its own for a file that it cannot read
        raise InvalidInput(f"the embedding model in {path} cannot be read: {f'{error}'[:200]}") from error
    return Embedder(path.name, str(path), _digest(weights, tokenizer), encode)


def _digest(*files: Path) -> str:
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            whole.update(hashlib.file_digest(opened, "sha256").digest())
    return whole.hexdigest()


def _of_folder(path: Path) -> Encode:
    from model2vec import StaticModel  # noqa: PLC0415 - of an extra

    return _static(StaticModel.from_pretrained(path))  # a folder that is there is read, and nothing else


def _static(model: Any) -> Encode:
    return lambda texts: model.encode(list(texts), use_multiprocessing=False)


def _sentences(path: Path, weights: Path, tokenizer: Path) -> Encode:
    """Return what runs a sentence transformer: the mean of its tokens, or the first one if its folder says so."""
    import numpy as np  # noqa: PLC0415 - of an extra
    import onnxruntime  # noqa: PLC0415 - of an extra
    from tokenizers import Tokenizer  # noqa: PLC0415 - of an extra

    tokens = Tokenizer.from_file(str(tokenizer))
    tokens.enable_truncation(_TOKENS)
    tokens.enable_padding()
    session = onnxruntime.InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    names = {each.name for each in session.get_inputs()}
    pooling = path / "1_Pooling" / "config.json"
    takes_first = pooling.is_file() and json.loads(pooling.read_text("utf-8")).get("pooling_mode_cls_token") is True

    def of_batch(texts: Sequence[str]) -> Any:
        encoded = tokens.encode_batch(list(texts))
        fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        given = {name: np.array([getattr(each, of) for each in encoded], np.int64) for name, of in fields.items()}
        found = session.run(None, {name: values for name, values in given.items() if name in names})[0]
        if found.ndim == 2:  # one row a text: it pools by itself
            return found
        if takes_first:
            return found[:, 0]
        mask = given["attention_mask"][..., None]
        return (found * mask).sum(axis=1) / mask.sum(axis=1)

    def encode(texts: Sequence[str]) -> Any:
        by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # a batch is as long as its longest text
        batches = [by_length[at : at + _BATCH] for at in range(0, len(by_length), _BATCH)]
        found = np.concatenate([of_batch([texts[at] for at in batch]) for batch in batches])
        return found[np.argsort(by_length)]

    return encode
