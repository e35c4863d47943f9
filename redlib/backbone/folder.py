"""A local folder of a Llama/Qwen-style decoder: config.json, safetensors weights and a fast tokenizer."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers.utils import logging

from redlib.backbone import identity


def read(path: Path, dtype: torch.dtype, weights_id: str | None = None) -> tuple[Any, Any, str]:
    """(decoder without a language head, tokenizer, weights_id) of a folder; the identity is computed if not given.

    Raises FileNotFoundError for a folder without a model and ValueError for one that is damaged or is no such decoder.
    """
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise FileNotFoundError(f"{path} holds no model: config.json and *.safetensors are needed")
    try:
        with quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
            model, report = transformers.AutoModel.from_pretrained(
                path, dtype=dtype, attn_implementation="sdpa", output_loading_info=True
            )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ValueError(f"the model in {path} cannot be read: {_first_line(error)}") from error
    check(model, tokenizer, report, str(path))
    return model, tokenizer, weights_id or identity.weights_id(identity.stored(path), tokenizer, model.config)


def check(model: Any, tokenizer: Any, report: dict, where: str) -> None:
    """ValueError unless every weight was found and the model is a causal decoder with plain attention layers."""
    missing = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if missing:
        raise ValueError(f"the model in {where} lacks weights: {', '.join(missing[:3])} ({len(missing)} in all)")
    parts = [part for part in ("embed_tokens", "layers", "norm", "rotary_emb") if not hasattr(model, part)]
    if parts:
        raise ValueError(f"the model in {where} is no Llama/Qwen-style decoder: it has no {', '.join(parts)}")
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise ValueError(f"the model in {where} has layers of kind {sorted(kinds)}; only full_attention is supported")
    if not tokenizer.is_fast:
        raise ValueError(f"the model in {where} has no fast tokenizer (tokenizer.json)")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bars from transformers: loading takes about a second, and bars spoil stored notebooks."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
