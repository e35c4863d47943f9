"""The usual ways to train on a frozen model: the Hugging Face Trainer on top of it, and peft's LoRA with X-LoRA."""

import copy
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from redlib import paths
from redlib.backbone import Backbone
from redlib.bench.measuring import Taken

EXTRA = "benchmark {name} needs peft, which is not installed; it is in the extra `bench`: pip install -e '.[bench]'"
LORA = {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "v_proj"]}  # peft's own choice of modules for Llama


def require_peft(name: str) -> Any:
    """The package peft; RuntimeError naming the extra that it is in where it is missing."""
    try:
        import peft
    except ImportError as error:
        raise RuntimeError(EXTRA.format(name=name)) from error
    return peft


MEANS = ("mean", "mean_skip_first")  # poolings that peers have


# ---- what is trained ---------------------------------------------------------------------------------------------


class Online(nn.Module):
    """Frozen layers, mean over tokens, and a part that is trained: token ids (B, T) and mask to a loss. ValueError for
    a pooling that is no mean at one depth."""

    def __init__(self, layers: nn.Module, part: nn.Module, pooling: str):
        super().__init__()
        if pooling not in MEANS:
            raise ValueError(f"peers pool by {' or '.join(MEANS)}; got pooling {pooling!r}")
        self.layers, self.part, self.skip_first = layers.requires_grad_(False), part, pooling == MEANS[1]

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            states = self.layers(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
            mask = attention_mask[..., None].to(states)
            if self.skip_first:
                mask[:, 0] = 0
            pooled = (states * mask).sum(1) / mask.sum(1).clamp_min(1)
        logits = self.part(pooled)[0]
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def lower(backbone: Backbone, layers: int) -> nn.Module:
    """The first layers of a backbone as a model of their own, without the final norm."""
    short = type(backbone.model)(_config(backbone, layers))
    _fill(short, backbone)
    short.norm = nn.Identity()
    return short


def classifier(backbone: Backbone, layers: int, classes: int) -> nn.Module:
    """transformers' classifier of sequences on the first layers of a backbone, frozen."""
    config = _config(backbone, layers)
    config.num_labels, config.use_cache = classes, False
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    _fill(model.model, backbone)
    return model.requires_grad_(False)


def _config(backbone: Backbone, layers: int) -> Any:
    config = copy.deepcopy(backbone.model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    return config


def _fill(model: nn.Module, backbone: Backbone) -> None:
    there = set(model.state_dict())
    model.load_state_dict({name: value for name, value in backbone.model.state_dict().items() if name in there})


def lora(name: str, backbone: Backbone, layers: int, classes: int) -> nn.Module:
    """One LoRA expert on a frozen classifier."""
    peft = require_peft(name)
    return peft.get_peft_model(classifier(backbone, layers, classes), peft.LoraConfig(**LORA))


def xlora(name: str, backbone: Backbone, layers: int, classes: int, experts: int, hidden: int) -> nn.Module:
    """peft's X-LoRA: so many LoRA experts, frozen, under a router of two layers that is trained on the answer."""
    peft = require_peft(name)
    with tempfile.TemporaryDirectory() as scratch, paths.atomic_folder(Path(scratch) / "expert") as folder:
        lora(name, backbone, layers, classes).save_pretrained(folder)
        config = peft.XLoraConfig(
            hidden_size=backbone.hidden_size,
            adapters={str(k): str(folder) for k in range(experts)},
            xlora_depth=2 if hidden else 1,
            xlora_size=hidden,
        )
        return peft.get_peft_model(classifier(backbone, layers, classes), config)


# ---- how it is trained -------------------------------------------------------------------------------------------


class Clock(transformers.TrainerCallback):
    """Seconds from the end of the warm-up to the end of the last step, on the wall and of this process."""

    def __init__(self, warm_up: int) -> None:
        self.warm_up = warm_up

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Note the time; the clock starts with the last step of the warm-up."""
        now = perf_counter(), process_time()
        if state.global_step == self.warm_up:
            self.begin = now
        self.end = now


def train_steps(
    model: nn.Module,
    backbone: Backbone,
    ids: Sequence[Sequence[int]],
    y: Sequence[int],
    loop: Any,
    steps: int,
    warm_up: int,
) -> Taken:
    """Time `steps` steps of the Trainer on rows of token ids, after `warm_up` more, with a loop's batch and AdamW."""
    clock = Clock(warm_up)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = transformers.TrainingArguments(
            output_dir=scratch,
            per_device_train_batch_size=loop.batch,
            max_steps=warm_up + steps,
            learning_rate=loop.lr,
            weight_decay=loop.weight_decay,
            lr_scheduler_type="constant",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=backbone.device.type == "cuda",
            use_cpu=backbone.device.type == "cpu",
        )
        rows = [{"input_ids": list(text), "labels": int(target)} for text, target in zip(ids, y, strict=True)]
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=partial(_collate, backbone.tokenizer),
            callbacks=[clock],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    wall, cpu = (end - begin for begin, end in zip(clock.begin, clock.end, strict=True))
    return Taken(steps, wall, cpu)


def _collate(tokenizer: Any, rows: list[dict]) -> dict[str, Tensor]:
    batch = tokenizer.pad({"input_ids": [row["input_ids"] for row in rows]}, return_tensors="pt")
    return {**batch, "labels": torch.tensor([row["labels"] for row in rows])}
