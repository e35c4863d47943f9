"""Sparse experts: what a layer of them saves by arithmetic, and a benchmark of sparse against dense transformers.

`savings` is the arithmetic. The benchmark: `designs` (which models, with their counts in closed form), `models` (the
modules), `quantised` (dense weights of few bits), `corpus` (texts and tokenizer), `training`, `pretrained` (what such
models answer), `serving` (speed and memory as serving benchmarks define them), `spent` (where the time goes) and
`recommend` (which model at a price, a batch and a memory limit).
"""

from redlib.sparse.savings import COLUMNS, EXAMPLES, sparse_savings, sparse_savings_with_router, view

__all__ = ["COLUMNS", "EXAMPLES", "sparse_savings", "sparse_savings_with_router", "view"]
