"""The frozen language model: loaded by name, cut at any layer, identified by its weights.

`load("smollm2-135m")`, `load("qwen3-0.6b")`, `load("tiny")` or `load("path/to/a/folder")` give a `Backbone`.
"""

from pathlib import Path

import torch

from redlib.backbone import folder, hub, packaged, tiny
from redlib.backbone.boundary import Backbone, Top

NAMES = ("smollm2-135m", "qwen3-0.6b", "tiny")
DTYPES = ("float32", "bfloat16", "float16")

__all__ = ["NAMES", "Backbone", "Top", "load", "present", "recorded_id"]


def load(
    name_or_path: str | Path,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    top_layers: int = 2,
) -> Backbone:
    """The backbone of that name, or of a local folder of a Llama/Qwen-style decoder; frozen, in evaluation mode.

    `device` defaults to CUDA where there is one, `dtype` to float32. `top_layers` sets `Backbone.boundary`. Raises
    ValueError for an unknown name, dtype or a damaged copy, FileNotFoundError for a folder without a model,
    ConnectionError when something has to be downloaded and cannot be.
    """
    dtype = _dtype(dtype)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    name = str(name_or_path)
    if name == "tiny":
        model, tokenizer, weights_id = tiny.build()
        display, evidence = "tiny (random weights)", False
    elif name == "smollm2-135m":
        model, tokenizer, weights_id = packaged.read(dtype)
        display, evidence = packaged.DISPLAY, True
    else:
        path = hub.snapshot(hub.QWEN) if name == "qwen3-0.6b" else _existing(name)
        model, tokenizer, weights_id = folder.read(path, dtype)
        display, evidence = hub.QWEN.partition("/")[2] if name == "qwen3-0.6b" else path.name, True
    model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    return Backbone(model, tokenizer, name, display, weights_id, top_layers, evidence)


def present(name_or_path: str | Path) -> bool:
    """Whether loading this backbone needs no download; a path is left for `load` to judge."""
    name = str(name_or_path)
    if name == "smollm2-135m":
        return packaged.location().exists()
    return name != "qwen3-0.6b" or hub.cached(hub.QWEN)


def recorded_id(name_or_path: str | Path) -> str | None:
    """`Backbone.weights_id` of a backbone that is `present`, as its copy on disk says it; None where only opening it
    (seconds of imports) tells."""
    known = {"tiny": tiny.weights_id, "smollm2-135m": packaged.weights_id}
    return known[str(name_or_path)]() if str(name_or_path) in known else None


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    name = str(dtype or "float32").removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}; valid dtypes: {', '.join(DTYPES)}")
    return getattr(torch, name)


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_dir():
        raise ValueError(f"unknown backbone {name!r}; valid names: {', '.join(NAMES)}, or the path of a local folder")
    return path.resolve()
