"""Features on disk: a folder a set, under a key that changes with whatever changes the numbers, and with nothing else.

While a set is computed its finished shards wait in a folder beside it, so a pass that was cut off goes on from there.
"""

import contextlib
import json
import shutil
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from redlib import packing, paths
from redlib.backbone import Backbone
from redlib.backbone.packaged import remove_leftovers
from redlib.features import forward
from redlib.features.forward import Point, Shard, settings, shards
from redlib.features.progress import Progress
from redlib.features.states import TokenStates

META = "meta.json"
INDEX = ("places", "offsets", "paths")


class FeatureSet:
    """Pooled features of N texts at some points and, if asked for, their token states at one layer."""

    def __init__(
        self,
        backbone: Backbone,
        texts: Sequence[str],
        points: Iterable[Point],
        states_layer: int | None = None,
        packed: bool = True,
    ) -> None:
        """Nothing is computed yet. ValueError for no text, or nothing to compute, or a layer that does not exist."""
        self.backbone = backbone
        self.texts = list(texts)
        self.points = sorted({self._point(point) for point in points})
        self.packed = packed
        self.states_layer = None if states_layer is None else backbone.layer(states_layer)
        if not self.texts:
            raise ValueError("features of no texts were asked for")
        if not self.points and states_layer is None:
            raise ValueError("neither points nor a states_layer were asked for")
        self.config = {
            "texts": paths.digest(self.texts),
            "weights_id": backbone.weights_id,
            "points": [point.label for point in self.points],
            "states_layer": self.states_layer,
            "dtype": str(backbone.dtype),
            "device": backbone.device.type,
            "threads": torch.get_num_threads(),
            "pass": settings(backbone, packed),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        self.key = paths.digest(self.config)[:32]

    def _point(self, point: Point) -> Point:
        return Point(self.backbone.layer(point.layer), point.pooling)

    @property
    def folder(self) -> Path:
        """Where the set lies in the cache, by its key."""
        return paths.cache() / "features" / self.key

    @property
    def ready(self) -> bool:
        """Whether the set is on disk, whole; ValueError when it is there and damaged."""
        if not self.folder.exists():
            return False
        try:
            arrays = json.loads((self.folder / META).read_text())["arrays"]
            damaged = [name for name, size in arrays.items() if (self.folder / name).stat().st_size != size]
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"the features in {self.folder} are damaged ({error}); delete it and run again") from error
        if damaged:
            raise ValueError(f"the features in {self.folder} are damaged ({damaged[0]}); delete it and run again")
        return True

    def ensure(self, progress: bool = True) -> "FeatureSet":
        """Compute what is not on disk yet (one process does, others wait) and return the set itself."""
        if not self.ready:
            with paths.lock(self.folder):
                if not self.ready:
                    remove_leftovers(self.folder)
                    self._compute(progress)
        return self

    def pooled(self, point: Point) -> np.ndarray:
        """Features (N, d) fp32 at a point of the set, (N, 2d) at two depths, memory-mapped; ValueError for another
        point."""
        if self._point(point) not in self.points:
            held = ", ".join(held.label for held in self.points)
            raise ValueError(f"these features hold no {self._point(point).label}; they hold: {held or 'none'}")
        return self._array(f"pooled-{self._point(point).label}")

    def states(self) -> TokenStates:
        """Token states at `states_layer`; ValueError for a set without them."""
        if self.states_layer is None:
            raise ValueError("these features hold no token states; give a states_layer")
        return TokenStates(*(self._array(name) for name in ("states", *INDEX)))

    def _array(self, name: str) -> np.ndarray:
        if not self.ready:
            raise ValueError(f"the features {self.key} are not computed yet; call ensure() first")
        return np.load(self.folder / f"{name}.npy", mmap_mode="c")

    @cached_property
    def _sorted(self) -> tuple[list[list[int]], np.ndarray]:
        """The distinct texts in packing order, and where each text given lies among them."""
        return packing.sort(self.backbone.encode(self.texts), self.packed)

    @property
    def count(self) -> int:
        """How many shards the set is computed in."""
        return -(-len(self._sorted[0]) // forward.SHARD)

    @property
    def _parts(self) -> Path:
        return self.folder.with_name(f".{self.key}.parts")

    def missing(self) -> list[int]:
        """The shards that are still to be computed; none of a set that is on disk."""
        whole = self.ready
        return [] if whole else [n for n in range(self.count) if not _whole(self._parts, n, self._labels())]

    def compute_shard(self, number: int) -> None:
        """Compute one shard and leave it for `ensure`, which joins them: several workers can share a pass."""
        upto = self._sorted[0][: (number + 1) * forward.SHARD]
        (shard,) = shards(self.backbone, upto, self.points, self.states_layer, self.packed, number)
        _write_part(_part(self._parts, number), shard)

    def _compute(self, progress: bool) -> None:
        begin = perf_counter()
        distinct, places = self._sorted
        parts = self._parts
        finished = _finished(parts, self.count, self._labels())
        tokens = [
            sum(map(len, distinct[start : start + forward.SHARD])) for start in range(0, len(distinct), forward.SHARD)
        ]
        computed = shards(self.backbone, distinct, self.points, self.states_layer, self.packed, finished)
        report = Progress(len(distinct), sum(tokens), f"features of {self.backbone.display}", progress)
        with report, contextlib.closing(computed):
            report.start(min(finished * forward.SHARD, len(distinct)), sum(tokens[:finished]))
            for number, shard in enumerate(computed, start=finished):
                _write_part(_part(parts, number), shard)
                report.add(len(shard.lengths), tokens[number])
        self._assemble(parts, len(tokens), places, perf_counter() - begin)
        shutil.rmtree(parts)

    def _labels(self) -> set[str]:
        states = set() if self.states_layer is None else {"states"}
        return {f"pooled-{point.label}" for point in self.points} | {"paths", "lengths"} | states

    def _assemble(self, parts: Path, count: int, places: np.ndarray, seconds: float) -> None:
        """Join the shards into whole arrays, in the order of the texts given."""
        with paths.atomic_folder(self.folder) as folder:
            for point in self.points:
                whole = np.concatenate([_read(parts, number, f"pooled-{point.label}") for number in range(count)])
                np.save(folder / f"pooled-{point.label}.npy", whole[places])
            if self.states_layer is not None:
                self._assemble_states(folder, parts, count, places)
            meta = {
                "config": self.config,
                "arrays": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
                "seconds": round(seconds, 3),
            }
            paths.write_json(folder / META, meta)

    def _assemble_states(self, folder: Path, parts: Path, count: int, places: np.ndarray) -> None:
        """Token states stay one a node, shard after shard; paths are renumbered to match."""
        ways, lengths, sizes = [], [], []
        for number in range(count):
            ways.append(_read(parts, number, "paths") + sum(sizes))
            lengths.append(_read(parts, number, "lengths"))
            sizes.append(len(_read(parts, number, "states")))
        with (folder / "states.npy").open("wb") as file:
            header = {"descr": "<f2", "fortran_order": False, "shape": (sum(sizes), self.backbone.hidden_size)}
            np.lib.format.write_array_header_1_0(file, header)
            for number in range(count):
                file.write(_read(parts, number, "states").tobytes())
        np.save(folder / "paths.npy", np.concatenate(ways))
        np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))
        np.save(folder / "places.npy", places)


def token_states(backbone: Backbone, texts: Sequence[str], layer: int) -> TokenStates:
    """Token states of N texts at a layer, in their order, without a cache; the same numbers as `FeatureSet.states`."""
    distinct, places = packing.sort(backbone.encode(texts))
    ways, lengths, nodes = [], [], []
    for shard in shards(backbone, distinct, (), layer):
        ways.append(shard.paths + sum(map(len, nodes)))
        lengths.append(shard.lengths)
        nodes.append(shard.states)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return TokenStates(np.concatenate(nodes), places, offsets, np.concatenate(ways))


def _part(parts: Path, number: int) -> Path:
    return parts / f"{number:05d}.safetensors"


def _write_part(path: Path, shard: Shard) -> None:
    arrays = {f"pooled-{point.label}": array for point, array in shard.pooled.items()}
    arrays |= {"paths": shard.paths, "lengths": shard.lengths}
    if shard.states is not None:
        arrays["states"] = shard.states
    with paths.atomic_file(path) as temporary:
        save_file(arrays, temporary)


def _read(parts: Path, number: int, name: str) -> np.ndarray:
    with safe_open(_part(parts, number), "numpy") as file:
        return file.get_tensor(name)


def _finished(parts: Path, count: int, labels: set[str]) -> int:
    """How many shards, from the first on, are on disk and whole; the others will be computed."""
    return next((number for number in range(count) if not _whole(parts, number, labels)), count)


def _whole(parts: Path, number: int, labels: set[str]) -> bool:
    """Whether a shard is on disk and whole."""
    try:
        with safe_open(_part(parts, number), "numpy") as file:
            return set(file.keys()) == labels
    except (OSError, SafetensorError):
        return False
