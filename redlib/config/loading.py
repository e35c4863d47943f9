"""A profile by name, with dotted fields replaced."""

import json
import os
from typing import Any

from pydantic import ValidationError

from redlib.config.profiles import PROFILES
from redlib.config.sections import Config, Profile

RANDOM = "tiny"  # the backbone of random weights: no profile is evidence on it


def load(profile: str = "auto", overrides: dict[str, Any] | None = None) -> Profile:
    """The named profile with dotted fields replaced, e.g. `load("laptop", {"task1.rows": 8000})`.

    `auto` reads $REDLIB_PROFILE and falls back to `smoke`. On the tiny backbone no profile is evidence. Raises
    ValueError for an unknown profile or field and for a value of the wrong type, naming the valid choices.
    """
    name = os.environ.get("REDLIB_PROFILE") or "smoke" if profile == "auto" else profile
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}; valid profiles: {', '.join(PROFILES)} (or auto)")
    if not isinstance(overrides, dict | None):
        raise ValueError(f"overrides must be a dict of dotted fields, got {type(overrides).__name__}")
    tree = PROFILES[name].model_dump()
    for dotted, value in (overrides or {}).items():
        _replace(tree, PROFILES[name], str(dotted), value)
    tree["evidence"] &= tree["backbone"]["name"] != RANDOM
    try:
        return Profile.model_validate_json(_to_json(tree))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"invalid value {first['input']!r} for field {where!r}: {first['msg']}") from None


def _to_json(tree: dict) -> str:
    try:
        return json.dumps(tree)
    except TypeError as error:
        raise ValueError(f"an override is not plain data: {error}") from None


def _replace(tree: dict, model: Any, dotted: str, value: Any) -> None:
    """Set one dotted field of the dumped profile; `model` is the profile that says which fields are sections."""
    parent: dict = {}
    node: Any = tree
    for part in dotted.split("."):
        if not isinstance(node, dict) or part not in node:
            valid = ", ".join(sorted(node)) if isinstance(node, dict) else "none (it is a plain value)"
            raise ValueError(f"unknown field {dotted!r} (no {part!r}); valid fields there: {valid}")
        parent, node = node, node[part]
        model = model[part] if isinstance(model, dict) else getattr(model, part)
    if dotted in ("name", "reads", "evidence"):
        raise ValueError(f"field {dotted!r} of a profile cannot be overridden; choose another profile")
    if isinstance(model, Config):
        raise ValueError(f"field {dotted!r} is a section; override its fields: {', '.join(sorted(node))}")
    parent[part] = value
