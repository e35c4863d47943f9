"""A model card, generated from a passport: what a module is, what it was trained on, how to load it."""

import json
from collections.abc import Mapping
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from redlib.modules.passport import FIELDS, labels_of

FILE = "module.safetensors"  # its name in a repository
KINDS = {
    "red": "a whole RED: base, shared classifier, experts and router",
    "library": "a whole RED as a library of named experts",
    "experts": "residual experts",
    "router": "a router",
    "classifier": "a shared classifier",
    "base": "a base",
    "top_layers": "tuned top layers of the backbone",
    "decomposer": "a step decomposer",
    "parts": "several trained parts",
}


def model_card(record: Mapping[str, Any]) -> ModelCard:
    """The README of a module's repository. Every number in it comes from the passport."""
    labels = labels_of(record)
    kind = KINDS.get(record["kind"], f"the method `{record['kind']}`")
    licence = record["licence"]
    data = ModelCardData(
        license=licence.split()[0].rstrip(";,").lower(), library_name="redlib", tags=["routed-residual-experts"]
    )
    lines = [
        f"# {record['kind']}, seed {record['seed']}",
        f"This is {kind}, trained on {record['backbone']} for answers {labels.lo} to {labels.hi} in {labels.K} ranges.",
        "## Loading",
        "```python\nfrom redlib import backbone, modules\n\n"
        'held = modules.HubModule.from_pretrained("<repository or folder>", backbone=backbone.load("<name>"))\n'
        "held.parts  # by name\n```",
        "With a backbone, its weights and its behaviour on the probe texts are checked first; another one is refused.",
        "## Parts",
        _table("part", "kind", {name: spec["kind"] for name, spec in record["parts"].items()}),
        "## Checks",
        _checks(record),
        "## Measured",
        _table("metric", "value", record["metrics"]) if record["metrics"] else "Nothing is noted in the passport.",
        "## Passport",
        _table("field", "value", {key: record[key] for key in FIELDS if key != "metrics"}),
        "## Limits",
        "Arithmetic in template-made English is a test bed, not a use: how the module does on other text is not known.",
        f"Licence: {licence}.",
    ]
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(lines) + "\n")


def _checks(record: Mapping[str, Any]) -> str:
    if not record.get("probe"):
        return "The file has no probe batch: weights and passport are sealed, behaviour is not checked."
    texts = len(record["probe"]["texts"])
    said = f"{texts} probe texts travel with the file, with what the backbone and the parts say of them."
    rounding = record.get("rounding")
    return said + (
        f" Keeping parts in bfloat16 moved answers by up to {max(rounding.values()):.1e}." if rounding else ""
    )


def _table(first: str, second: str, rows: Mapping[str, Any]) -> str:
    plain = {key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in rows.items()}
    body = "\n".join(f"| {key} | `{value}` |" for key, value in plain.items())
    return f"| {first} | {second} |\n| --- | --- |\n{body}"
