"""A module file as a repository of the Hugging Face hub: the file, its passport as config.json, and a model card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from torch import nn

from redlib import models, paths
from redlib.modules import card, files
from redlib.modules.experts import Library

CONFIG, CARD = "config.json", "README.md"


class HubModule(ModelHubMixin):
    """What one module file holds: named `parts` and their `passport`, for `save_pretrained`, `push_to_hub` and
    `from_pretrained` (a folder or a repository; `backbone` and wanted passport fields are for `files.load`)."""

    def __init__(self, file: Path, held: Mapping[str, nn.Module], record: Mapping[str, Any], model: Any = None):
        self.file, self.parts, self.passport, self._backbone = Path(file), dict(held), dict(record), model

    @classmethod
    def open(cls, file: Path, backbone: Any = None, **wanted: Any) -> "HubModule":
        """The module in a file; refusals as `files.load`."""
        return cls(file, *files.load(file, backbone, **wanted), backbone)

    def method(self) -> models.Method:
        """The whole method that the file holds."""
        return files.load_method(self.file, self._backbone)[0]

    def as_library(self) -> Library:
        """The library of experts that the file holds."""
        return Library.load(self.file, self._backbone)

    def _save_pretrained(self, save_directory: Path) -> None:
        paths.write_bytes(save_directory / card.FILE, self.file.read_bytes())
        paths.write_json(save_directory / CONFIG, files.read_passport(self.file))
        paths.write_text(save_directory / CARD, str(self.generate_model_card()))

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The card that `card.model_card` makes of the passport."""
        return card.model_card(self.passport)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        backbone: Any = None,
        **wanted: Any,
    ) -> "HubModule":
        folder = Path(model_id)
        if not folder.is_dir():
            folder = Path(
                snapshot_download(
                    model_id,
                    revision=revision,
                    cache_dir=cache_dir,
                    force_download=force_download,
                    local_files_only=local_files_only,
                    token=token,
                    allow_patterns=[card.FILE, CONFIG],
                )
            )
        made = cls.open(folder / card.FILE, backbone, **wanted)
        beside = folder / CONFIG
        if beside.is_file() and json.loads(beside.read_text()) != files.read_passport(made.file):
            raise ValueError(
                f"{CONFIG} in {folder.name!r} was changed: it is not the passport that {card.FILE} carries"
            )
        return made
