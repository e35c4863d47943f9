"""What tests of sweeps share: a small profile, a file, a few runs, and the smallest executor."""

from concurrent.futures import Future

from redlib.study.ablations import Run

SMALL = {"ablations.rows": 250, "ablations.seeds": 1}
FILE = """
profile = "smoke"
[overrides]
"ablations.rows" = 250
[[runs]]
split = "text"
[grid]
rank = [1, 2]
seeds = [1]
"""
RUNS = [Run(split="text", top=k, mixing=mixing) for k in (1, 2) for mixing in ("states", "logits")]


class Inline:
    """The smallest executor: a call is made when it is submitted, one after another."""

    def submit(self, call, *arguments):
        future = Future()
        try:
            future.set_result(call(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


def quiet(line):
    pass
