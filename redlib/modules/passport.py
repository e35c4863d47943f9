"""The passport of a module file: what it has to say, what it may be asked to agree with, and when it is refused."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from redlib import paths
from redlib.expressions import LabelSpace

FIRST, FORMAT = "redlib-module/1", "redlib-module/2"  # what can be read; the last one is written
FIRST_FIELDS = ("weights_id", "backbone", "recipe", "layer", "pooling", "labels", "split", "seed")
FIELDS = (*FIRST_FIELDS, "tokenizer", "dtype", "data", "training", "metrics", "versions", "licence")
READS = ("weights_id", "layer", "pooling")  # what two parts that work together must have in common


def complete(about: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a passport as plain data; ValueError names the fields that it lacks."""
    missing = [key for key in FIELDS if key not in about]
    if missing:
        raise ValueError(f"a passport needs {', '.join(FIELDS)}; missing: {', '.join(missing)}")
    labels = about["labels"]
    return {**about, "labels": asdict(labels) if isinstance(labels, LabelSpace) else dict(labels)}


def check_read(record: Mapping[str, Any], name: str) -> None:
    """ValueError for a passport of a format of the future, or one without a field that its format has."""
    known = {FIRST: FIRST_FIELDS, FORMAT: FIELDS}
    said = record.get("format")
    if said not in known:
        raise ValueError(f"{name!r} has format {said!r}; this version reads {', '.join(map(repr, known))}")
    missing = [key for key in (*known[said], "method", "parts") if key not in record]
    if missing:
        raise ValueError(f"the passport of {name!r} lacks {', '.join(missing)}")


def tokenizer_id(backbone: Any) -> str:
    """Hex sha256 of a backbone's vocabulary; another version of the tokenizer's library does not change it."""
    return paths.digest(sorted(backbone.tokenizer.get_vocab().items(), key=lambda pair: pair[1]))


def labels_of(record: Mapping[str, Any]) -> LabelSpace:
    """The label space of a passport."""
    labels = record["labels"]
    return labels if isinstance(labels, LabelSpace) else LabelSpace(**labels)


def check_backbone(record: Mapping[str, Any], backbone: Any) -> None:
    """ValueError when the backbone is not the one that the parts were trained on."""
    if backbone is not None and backbone.weights_id != record["weights_id"]:
        raise ValueError(
            f"the parts were trained on {record['backbone']} (weights {record['weights_id'][:12]}), "
            f"but the backbone given is {backbone.display} (weights {backbone.weights_id[:12]})"
        )


def check_wanted(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """ValueError for the first field that is not as wanted (layer=4, labels=LabelSpace(), ...), or that no passport
    has."""
    for key, value in wanted.items():
        if key not in FIELDS:
            raise ValueError(f"no passport has a field {key!r}; valid fields: {', '.join(FIELDS)}")
        said = labels_of(record) if key == "labels" else record.get(key)
        if said != value:
            raise ValueError(f"the parts were trained for {key} {_said(said)}, and {key} {_said(value)} is wanted")


def check_together(own: Mapping[str, Any], other: Mapping[str, Any], labels: LabelSpace) -> None:
    """ValueError when an expert with the passport `other` reads another state than a RED with `own` that answers
    `labels`, or was trained for values that this RED cannot say."""
    for key in READS:
        if own[key] != other[key]:
            raise ValueError(
                f"the expert was trained on {_read(other)}, but this RED reads {_read(own)}: another {_WORDS[key]}"
            )
    theirs = labels_of(other)
    if theirs.lo < labels.lo or theirs.hi > labels.hi:
        raise ValueError(
            f"the expert was trained for the values {theirs.lo}..{theirs.hi}, but this RED answers "
            f"{labels.lo}..{labels.hi}; widen its label space first"
        )


_WORDS = {"weights_id": "backbone", "layer": "layer", "pooling": "pooling"}


def _read(record: Mapping[str, Any]) -> str:
    return (
        f"the states of {record['backbone']} (weights {record['weights_id'][:12]}) at layer {record['layer']}, "
        f"pooled by {record['pooling']}"
    )


def _said(value: Any) -> str:
    if isinstance(value, LabelSpace):
        return f"{value.lo}..{value.hi} in {value.K} ranges"
    return repr(value)
