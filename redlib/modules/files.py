"""Writing and reading a module file: one safetensors file whose header carries the passport and a seal over everything.

Written at once or not at all. Tensors come back bit for bit.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from redlib import models, paths
from redlib.modules import passport as passports
from redlib.modules import probe as probes
from redlib.modules import specs
from redlib.modules.probe import PREFIX, Answers, Probe

PICKLED = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # torch.save's zip, and plain pickles


def save(
    path: Path,
    parts: Mapping[str, nn.Module],
    passport: Mapping[str, Any],
    method: str | None = None,
    probe: Probe | None = None,
    half: Iterable[str] = (),
    answer: Answers | None = None,
) -> None:
    """Write named parts and their passport atomically. `method`: the method that the parts make up, if one.

    The passport needs FIELDS (ValueError names what is missing); what each part is, is added here. With a `probe` its
    expected features and answers go in too (`answer`: those of the whole, where no method gives them). `half`: parts
    whose weights are kept in bfloat16; how far that moves the answers is measured on the probe and noted as `rounding`.
    """
    odd = [name for name in parts if name.startswith("probe") or "." in name] or sorted(set(half) - set(parts))
    if odd:
        raise ValueError(f"parts have names without dots that do not start with 'probe', also in `half`; got {odd}")
    states = {name: _state(part, name in half) for name, part in parts.items()}
    record = passports.complete(passport) | {
        "format": passports.FORMAT,
        "kind": specs.role(parts, method),
        "method": method,
        "parts": {name: specs.describe(part) for name, part in parts.items()},
        "dtypes": {name: _dtype(state) for name, state in states.items()},
        "probe": None,
    }
    for name, part in parts.items():
        models.check_readout(name, part, passports.labels_of(record))
    tensors = {f"{name}.{key}": value for name, state in states.items() for key, value in state.items()}
    if probe is not None:
        read = {name: specs.reread(part, states[name]) for name, part in parts.items()}
        expected = probes.answers(read, probe, answer(read) if answer else probes.whole(method, record, read))
        tensors |= probe.tensors() | {f"{PREFIX}answers.{name}": value for name, value in expected.items()}
        record["probe"] = {"texts": list(probe.texts), "answers": sorted(expected), "states": probe.states}
        if half:
            copies = {name: deepcopy(part) for name, part in parts.items()}  # a method's parts go into evaluation mode
            exact = probes.answers(copies, probe, answer(copies) if answer else probes.whole(method, record, copies))
            record["rounding"] = {name: probes.drift(expected[name], exact[name]) for name in expected}
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    text = json.dumps(record, sort_keys=True)
    with paths.atomic_file(Path(path)) as temporary:
        save_file(tensors, temporary, metadata={"passport": text, "seal": seal(text, tensors)})


def _state(part: nn.Module, half: bool) -> dict[str, Tensor]:
    """A part's tensors by name. In `half` the bits its weights are bfloat16, but not its buffers, such as means, scales
    and codebooks: they say where things are. Of a State nobody knows which is which."""
    exact = set() if isinstance(part, specs.State) else {name for name, _ in part.named_buffers()}
    tensors = part.state_dict().items()
    return {name: value.bfloat16() if half and name not in exact else value for name, value in tensors}


def _dtype(state: Mapping[str, Tensor]) -> str:
    """Of its weights: bfloat16 if any tensor is."""
    kinds = {str(value.dtype).removeprefix("torch.") for value in state.values()} or {"float32"}
    return "bfloat16" if "bfloat16" in kinds else min(kinds)


def seal(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Hex sha256 over a passport as it is written and tensors of any shape: name, type, shape and bytes of each."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_passport(path: Path) -> dict[str, Any]:
    """The passport of a module file; ValueError when the file is none, was changed after it was written, is pickled or
    of a future format."""
    return _read(Path(path))[0]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        raise FileNotFoundError(f"no module file {path.name!r} in {path.parent}")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            text = header["passport"]
            record = json.loads(text)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        with path.open("rb") as file:
            pickled = file.read(4).startswith(PICKLED)
        if pickled:
            raise ValueError(
                f"{path.name!r} is pickled, which could run code when it is read; modules are safetensors"
            ) from None
        raise ValueError(f"{path.name!r} is not a module of this study (truncated or foreign file): {error}") from None
    passports.check_read(record, path.name)
    if record["format"] != passports.FIRST and header.get("seal") != seal(text, tensors):
        raise ValueError(f"{path.name!r} was changed after it was written: its seal fits other contents")
    return record, tensors


def load(
    path: Path, backbone: Any = None, answer: Answers | None = None, **wanted: Any
) -> tuple[dict[str, nn.Module], dict[str, Any]]:
    """Parts by name, frozen and in evaluation mode, and the passport.

    Refused with a ValueError: what `read_passport` refuses, parts that do not fit their passport or do not answer the
    probe batch as they did; with a `backbone` also other weights than the passport's, or features on the probe batch
    that are not the expected ones; with `wanted` (layer=4, pooling="mean", labels=LabelSpace(), ...) any passport that
    says otherwise. In another dtype features drift: the passport's `drift` says how far. A token base (recipe `source`)
    is rebuilt from the backbone's own top layers, so it needs one. `answer`: as for `save`.
    """
    record, tensors = _read(Path(path))
    passports.check_wanted(record, wanted)
    passports.check_backbone(record, backbone)
    parts = {}
    for name, spec in record["parts"].items():
        state = {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}.")}
        parts[name] = specs.fill(name, specs.build(spec, backbone), state)
        models.check_readout(name, parts[name], passports.labels_of(record))
    probe = Probe.reread(record, tensors)
    if probe is not None:
        seen = {} if backbone is None else probes.check_features(record, probe, backbone)
        whole = answer(parts) if answer else probes.whole(record["method"], record, parts)
        found = probes.answers(parts, probe, whole)
        record["drift"] = seen | {"answers": probes.check_answers(found, _answers(tensors))}
    return parts, record


def load_method(path: Path, backbone: Any = None, **wanted: Any) -> tuple[models.Method, dict[str, Any]]:
    """The saved method, ready to predict, and its passport; refusals as `load`."""
    parts, record = load(path, backbone, **wanted)
    if record["method"] not in models.METHODS | models.PLUS:
        held = f"holds parts ({', '.join(parts)})" if not record["method"] else f"holds a {record['method']}"
        raise ValueError(f"{Path(path).name!r} {held}, not a whole method; use load")
    return models.assemble(record["method"], passports.labels_of(record), parts), record


def load_probe(path: Path) -> tuple[Probe | None, dict[str, Tensor]]:
    """The probe batch of a module file and the answers expected on it; None and {} where it has none."""
    record, tensors = _read(Path(path))
    return Probe.reread(record, tensors), _answers(tensors)


def _answers(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    first = f"{PREFIX}answers."
    return {key[len(first) :]: value for key, value in tensors.items() if key.startswith(first)}
