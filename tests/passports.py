"""What a saved module needs in a test: a passport, texts to probe it with, and a backbone that is not its own."""

from test_models import LABELS

PASSPORT = {
    "weights_id": "w" * 64,
    "backbone": "toy",
    "recipe": "chosen",
    "layer": 2,
    "pooling": "mean",
    "labels": LABELS,
    "split": "structure",
    "seed": 0,
    "tokenizer": "t" * 64,
    "dtype": "float32",
    "data": {"fingerprint": "f" * 64, "rows": 100},
    "training": {"rank": 4},
    "metrics": {"red_value_accuracy": 0.5},
    "versions": {"torch": "2"},
    "licence": "MIT",
}
TEXTS = ["What is 47 plus 38?", "Add 2 and 3.", "Tell me the sum of 20 and 21."]


class OtherBackbone:
    weights_id = "x" * 64
    display = "another model"
