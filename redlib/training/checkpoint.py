"""The state of a training that may be cut off, in one file: written whole or not at all, read without running code."""

import logging
import pickle
from pathlib import Path
from typing import Any

import torch

from redlib import paths

LOG = logging.getLogger("redlib.training")


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the file by the state: tensors and plain data; `state["of"]` says of which training."""
    with paths.atomic_file(path) as temporary:
        torch.save(state, temporary)


def load(path: Path, of: dict[str, Any]) -> dict[str, Any] | None:
    """The state in the file, tensors in memory; None, with a warning, where it is damaged or of another training."""
    if not path.is_file():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        LOG.warning("%s: %s cannot be read (%s), begun again", of["name"], path.name, type(error).__name__)
        return None
    if state.get("of") != of:
        LOG.warning("%s: %s is of another training, begun again", of["name"], path.name)
        return None
    return state
