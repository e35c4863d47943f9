"""What makes two backbones the same: one sha256 over weights, tokenizer and the configuration that shapes them.

Only what the numbers depend on is hashed, not file layout or library versions, so that a copy converted on another
machine has the same identity.
"""

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FIELDS = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "hidden_act",
)

Entry = tuple[str, str, list[int], Any]  # name, dtype as safetensors writes it, shape, raw bytes


def weights_id(tensors: Iterable[Entry], tokenizer: Any, config: Any) -> str:
    """Hex sha256 over tensors (in name order), the fast tokenizer and the transformers configuration."""
    digest = hashlib.sha256()
    for name, dtype, shape, data in tensors:
        digest.update(json.dumps([name, dtype, shape]).encode())
        digest.update(data)
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    parts = {
        "vocabulary": sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1]),
        "merges": backend["model"].get("merges"),
        "normalizer": _canonical(backend["normalizer"]),
        "pre_tokenizer": _canonical(backend["pre_tokenizer"]),
        "config": {name: getattr(config, name) for name in FIELDS},
        "numbers": {
            "rms_norm_eps": f"{config.rms_norm_eps:.6g}",
            "rope": {key: str(value) for key, value in config.rope_parameters.items()},
        },
    }
    digest.update(json.dumps(parts, sort_keys=True).encode())
    return digest.hexdigest()


def _canonical(step: Any) -> Any:
    """A tokenizer's step as every version of transformers would write it: a sequence of nothing is no step, and
    `trim_offsets` moves the spans that are reported, never the tokens."""
    if isinstance(step, list):
        return [_canonical(part) for part in step]
    if not isinstance(step, dict):
        return step
    if step.get("type") == "Sequence" and not any(value for key, value in step.items() if key != "type"):
        return None
    return {key: True if key == "trim_offsets" else _canonical(value) for key, value in step.items()}


def stored(folder: Path) -> Iterator[Entry]:
    """The tensors of all safetensors files of a folder, in name order, as raw bytes."""
    entries = []
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as handle:
            data = memoryview(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ))
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(bytes(data[8:start])).items():
            if name != "__metadata__":
                low, high = (start + offset for offset in entry["data_offsets"])
                entries.append((name, entry["dtype"], entry["shape"], data[low:high]))
    yield from sorted(entries, key=lambda entry: entry[0])
