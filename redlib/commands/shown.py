"""How commands show durations and sizes, and the profile option that they share."""

import argparse
from pathlib import Path

from redlib import config


def add_profile(command: argparse.ArgumentParser, default: str) -> None:
    """The option --profile."""
    names = ", ".join(config.PROFILES)
    command.add_argument(
        "--profile", default=default, help=f"{names}, or auto: $REDLIB_PROFILE, else smoke ({default})"
    )


def duration(seconds: float) -> str:
    """`1 min 30 s`."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def size(count: float) -> str:
    """`3 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return path if path.exists() else existing(path.parent)
