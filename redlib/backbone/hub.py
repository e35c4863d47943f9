"""A model of the Hugging Face hub, as a local folder."""

from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError

QWEN = "Qwen/Qwen3-0.6B"
FILES = ["*.json", "*.safetensors", "merges.txt"]


def snapshot(repository: str) -> Path:
    """The folder of a hub repository, downloaded on first use; ConnectionError when the hub cannot be reached."""
    try:
        return Path(huggingface_hub.snapshot_download(repository, allow_patterns=FILES))
    except (OSError, HfHubHTTPError) as error:
        raise ConnectionError(
            f"{repository} is not in the local cache and the Hugging Face hub cannot be reached "
            f"({type(error).__name__}); give the path of a local folder that holds the model instead"
        ) from error


def cached(repository: str) -> bool:
    """Whether the repository's files are in the local cache; asks nobody."""
    try:
        huggingface_hub.snapshot_download(repository, allow_patterns=FILES, local_files_only=True)
    except (OSError, HfHubHTTPError):
        return False
    return True
