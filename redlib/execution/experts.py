"""A trained method as an executor of any single step: the backbone reads the step's one canonical text."""

from dataclasses import dataclass

import torch

from redlib import features
from redlib.backbone import Backbone
from redlib.datasets.steps import canonical
from redlib.execution.solution import Said
from redlib.expressions import OPERATORS, LabelSpace
from redlib.models import Method, range_probabilities


@dataclass(frozen=True, eq=False)
class Experts:
    """`method` on pooled features at `point`; `names` says what each of its K experts is for.

    Unlike a step table it answers steps of any numbers; which of them its experts know, the domain says.
    """

    method: Method
    backbone: Backbone
    point: features.Point
    labels: LabelSpace
    names: tuple[str, ...]

    @torch.no_grad()
    def __call__(self, a: int, operator: str, b: int) -> Said:
        read = features.compute(self.backbone, [canonical((a, operator, b))], [self.point])[self.point]  # (1, d)
        output = self.method(torch.from_numpy(read), torch.tensor([OPERATORS.index(operator)]))
        probability, best = torch.softmax(output.logits[0], -1).max(-1)
        of_range = range_probabilities(output.logits, self.labels)[0]
        weights = {} if output.alpha is None else dict(zip(self.names, output.alpha[0].tolist(), strict=True))
        return Said(self.labels.lo + int(best), float(probability), self.labels.names[int(of_range.argmax())], weights)
