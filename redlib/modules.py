"""Trained parts on disk: one safetensors file whose header carries a passport.

The passport says which backbone weights, recipe, label space, split and seed the parts belong to; loading against
another backbone is refused. Tensors come back bit for bit.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from redlib import models, paths
from redlib.expressions import LabelSpace

FORMAT = "redlib-module/1"
REQUIRED = ("weights_id", "backbone", "recipe", "layer", "pooling", "labels", "split", "seed")
_BANKS = {
    kind.__name__: kind for kind in (models.LinearBank, models.MLPBank, models.ResidualExperts, models.FourierBank)
}


def save(path: Path, parts: dict[str, nn.Module], passport: dict[str, Any], method: str | None = None) -> None:
    """Write named parts and their passport atomically. `method`: the method that the parts make up, if one.

    The passport needs weights_id, backbone, recipe, layer, pooling, labels, split and seed (ValueError names what is
    missing); what each part is, is added here.
    """
    missing = [key for key in REQUIRED if key not in passport]
    if missing:
        raise ValueError(f"a passport needs {', '.join(REQUIRED)}; missing: {', '.join(missing)}")
    record = dict(passport, format=FORMAT, method=method, parts={name: _describe(part) for name, part in parts.items()})
    if isinstance(record["labels"], LabelSpace):
        record["labels"] = asdict(record["labels"])
    tensors = {
        f"{name}.{key}": value.detach().cpu().contiguous().clone()
        for name, part in parts.items()
        for key, value in part.state_dict().items()
    }
    with paths.atomic_file(Path(path)) as temporary:
        save_file(tensors, temporary, metadata={"passport": json.dumps(record, sort_keys=True)})


def read_passport(path: Path) -> dict[str, Any]:
    """The passport of a module file; ValueError when the file is no module of ours or of a future format."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no module file {path.name!r} in {path.parent}")
    try:
        with safe_open(path, "pt") as file:
            record = json.loads((file.metadata() or {})["passport"])
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name!r} is not a module of this study (truncated or foreign file): {error}") from None
    if record.get("format") != FORMAT:
        raise ValueError(f"{path.name!r} has format {record.get('format')!r}; this version reads {FORMAT!r}")
    return record


def load(path: Path, backbone: Any = None) -> tuple[dict[str, nn.Module], dict[str, Any]]:
    """Parts by name and the passport. With a backbone its weights_id must be the passport's (ValueError otherwise).

    A token base (recipe `source`) is rebuilt from the backbone's own top layers, so it needs one.
    """
    passport = read_passport(path)
    check_backbone(passport, backbone)
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    parts = {}
    for name, spec in passport["parts"].items():
        state = {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}.")}
        parts[name] = _build(spec, backbone)
        _check_keys(name, parts[name], state)
        parts[name].load_state_dict(state)
        parts[name].eval().requires_grad_(False)
    return parts, passport


def load_method(path: Path, backbone: Any = None) -> tuple[models.Method, dict[str, Any]]:
    """The saved method, ready to predict, and its passport."""
    parts, passport = load(path, backbone)
    if not passport["method"]:
        raise ValueError(f"{Path(path).name!r} holds parts ({', '.join(parts)}), not a whole method; use load")
    return models.assemble(passport["method"], LabelSpace(**passport["labels"]), parts), passport


def check_backbone(passport: dict[str, Any], backbone: Any) -> None:
    """ValueError when the backbone is not the one that the parts were trained on."""
    if backbone is not None and backbone.weights_id != passport["weights_id"]:
        raise ValueError(
            f"the parts were trained on {passport['backbone']} (weights {passport['weights_id'][:12]}), "
            f"but the backbone given is {backbone.display} (weights {backbone.weights_id[:12]})"
        )


def _describe(part: nn.Module) -> dict[str, Any]:
    kind = type(part).__name__
    if kind in _BANKS:
        return {"kind": kind, "members": next(part.parameters()).shape[0], **part.shape}
    if isinstance(part, models.PooledBase):
        return {"kind": kind, "members": part.mean.shape[0], **part.shape}
    if isinstance(part, models.TokenBase):
        return {"kind": kind, "layers": len(part.top.layers)}
    if isinstance(part, nn.Identity):
        return {"kind": kind}
    raise ValueError(f"no way to save a part of type {kind}; valid: {', '.join([*_BANKS, 'PooledBase', 'TokenBase'])}")


def _build(spec: dict[str, Any], backbone: Any) -> nn.Module:
    shape = {key: value for key, value in spec.items() if key not in ("kind", "members")}
    if "labels" in shape:
        shape["labels"] = LabelSpace(**shape["labels"])
    if spec["kind"] in _BANKS:
        return _BANKS[spec["kind"]]([0] * spec["members"], **shape)
    if spec["kind"] == "PooledBase":
        empty = torch.zeros(spec["members"], 1, spec["d"])
        return models.PooledBase(empty, empty.clone())
    if spec["kind"] == "TokenBase":
        if backbone is None:
            raise ValueError("these parts tune layers of the backbone; pass the backbone to load them")
        return models.TokenBase(backbone.top(spec["layers"]))
    return nn.Identity()


def _check_keys(name: str, part: nn.Module, state: dict[str, torch.Tensor]) -> None:
    wanted = {key: tuple(value.shape) for key, value in part.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in state.items()}
    if wanted != given:
        odd = sorted(key for key in wanted.keys() | given.keys() if wanted.get(key) != given.get(key))
        raise ValueError(f"part {name!r} does not match its passport at {', '.join(odd[:3])}")
