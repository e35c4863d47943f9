"""The profiles: smoke, laptop, full, paper and record."""

from redlib.config.profiles.full import FULL
from redlib.config.profiles.laptop import LAPTOP
from redlib.config.profiles.smoke import SMOKE
from redlib.config.sections import Ablations, BackboneConfig

PAPER = FULL.model_copy(
    update={
        "name": "paper",
        "backbone": BackboneConfig(name="qwen3-0.6b"),
        "ablations": Ablations(ranks=(512, 256, 128, 64, 32, 16, 8, 4, 2, 1)),
        "chosen": FULL.chosen.model_copy(update={"rank": 512}),
        "source": FULL.source.model_copy(update={"rank": 512}),
    }
)
RECORD = FULL.model_copy(update={"name": "record", "reads": "full"})

PROFILES = {p.name: p for p in (SMOKE, LAPTOP, FULL, PAPER, RECORD)}
