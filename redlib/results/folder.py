"""The tables of a folder by name, each read when it is first asked for."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import pandas as pd

from redlib.evaluation import COLUMNS
from redlib.results.tidy import load


class Folder(Mapping[str, pd.DataFrame]):
    """The result tables in `path`, by name; a folder that is not there has none. KeyError for a table it lacks.

    A file that a reader has to trust is validated when it is read: ValueError as from `read`.
    """

    def __init__(self, path: Path):
        self.path, self._read = Path(path), {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self:
            raise KeyError(f"no table {name!r} in {self.path.name}; present: {', '.join(self) or 'none'}")
        if name not in self._read:
            self._read[name] = load(self.path, name)
        return self._read[name]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(file.stem for file in sorted(self.path.glob("[!.]*.csv")) if _is_tidy(file))


def _is_tidy(file: Path) -> bool:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().startswith(",".join(COLUMNS))
