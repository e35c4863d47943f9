"""Modules on the hub: they come back with their checks, and the card says what the passport says."""

import pytest
import torch
from huggingface_hub import HfApi
from passports import OtherBackbone
from test_models import LABELS

from redlib import modules
from redlib.models import assemble


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder in the place of the hub: the two calls that would go over the network."""
    folder = tmp_path / "hub"

    def create(self, repo_id, **_):
        return type("Repository", (), {"repo_id": repo_id})

    def upload(self, repo_id, folder_path, **_):
        (folder / repo_id).mkdir(parents=True)
        for file in folder_path.iterdir():
            (folder / repo_id / file.name).write_bytes(file.read_bytes())
        return repo_id

    monkeypatch.setattr(HfApi, "create_repo", create)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    return folder


def test_a_module_goes_to_the_hub_and_comes_back_with_its_checks(hub, saved, bone, trained):
    modules.HubModule.open(saved, bone).push_to_hub("someone/red")
    there = hub / "someone" / "red"
    assert sorted(path.name for path in there.iterdir()) == ["README.md", "config.json", "module.safetensors"]
    again = modules.HubModule.from_pretrained(there, backbone=bone, pooling="mean")
    x = torch.randn(5, bone.hidden_size)
    with torch.no_grad():
        assert torch.equal(again.method()(x).logits, assemble("red", LABELS, trained[0])(x).logits)
        assert torch.allclose(again.as_library()(x).logits, again.method()(x).logits, atol=1e-5)
    for changed in ({"backbone": OtherBackbone()}, {"pooling": "last"}):
        with pytest.raises(ValueError, match="the parts were trained"):
            modules.HubModule.from_pretrained(there, **changed)


def test_a_part_alone_goes_to_a_folder_and_an_edited_passport_is_refused(trained, tmp_path):
    parts, passport, _ = trained
    modules.save(tmp_path / "router.safetensors", {"router": parts["router"]}, passport)
    modules.HubModule.open(tmp_path / "router.safetensors").save_pretrained(tmp_path / "router")
    again = modules.HubModule.from_pretrained(tmp_path / "router")
    assert torch.equal(again.parts["router"].last.weight, parts["router"].last.weight)
    config = tmp_path / "router" / "config.json"
    config.write_text(config.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(ValueError, match=r"config.json in 'router' was changed"):
        modules.HubModule.from_pretrained(tmp_path / "router")


def test_the_card_says_what_the_passport_says(saved, bone):
    card = modules.model_card(modules.load(saved, bone)[1])
    assert card.data.license == "mit"
    text = str(card)
    for said in (
        "a whole RED",
        "2 to 13 in 3 ranges",
        bone.weights_id,
        "| red_value_accuracy | `0.5` |",
        "3 probe texts",
    ):
        assert said in text
