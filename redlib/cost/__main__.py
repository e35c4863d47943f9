"""`python -m redlib.cost`: counted memory beside measured memory, at the true shapes of a backbone."""

import argparse

from redlib.cost.measured import STEPS, measured_peak
from redlib.cost.memory import inference_memory, training_memory
from redlib.cost.shapes import SHAPES, configuration


def main() -> None:
    """Print both counts and both measurements of one backbone."""
    parser = argparse.ArgumentParser(prog="python -m redlib.cost", description=__doc__)
    parser.add_argument("--backbone", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--batch", type=int, default=16, help="texts at a time (16, the source's)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of every text (64)")
    parser.add_argument("--classes", type=int, default=99, help="answers of the classifier (99)")
    args = parser.parse_args()
    for name in ("batch", "tokens", "classes"):
        if getattr(args, name) < 1:
            parser.exit(2, f"{parser.prog}: --{name} must be at least 1, got {getattr(args, name)}\n")
    config, sizes = configuration(args.backbone), (args.batch, args.tokens)
    counts = {"training": training_memory(config, *sizes, args.classes), "inference": inference_memory(config, *sizes)}
    print(f"{args.backbone}, batch {args.batch}, {args.tokens} tokens, 32-bit numbers; GB are 1e9 bytes")
    for step in STEPS:
        try:
            seen = measured_peak(args.backbone, step, *sizes, args.classes)
        except RuntimeError as error:  # such as more than the machine has
            parser.exit(2, f"{parser.prog}: {error}; counted are {counts[step].peak / 1e9:.2f} GB\n")
        grown = (seen["peak"] - seen["before"]) / 1e9
        print(f"{step}: counted peak {counts[step].peak / 1e9:.2f} GB; measured {grown:.2f} GB", end=" ")
        print(f"on top of {seen['before'] / 1e9:.2f} GB of the process before")


if __name__ == "__main__":
    main()
