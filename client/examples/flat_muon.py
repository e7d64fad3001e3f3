"""Muon for a transformer's hidden matrices, AdamW for the rest, over one flat buffer.

Muon steps along the momentum made (nearly) orthogonal: momentum = U S V' becomes U V', by five Newton-Schulz iterations
(Jordan et al. 2024, the quintic with coefficients 3.4445, -4.7750, 2.0315). The step is scaled by 0.2 sqrt(max(rows, columns)), so that its elements are
as large as AdamW's and both share one learning rate (Liu et al. 2025). A step costs about 2 G multiplications for
this model, as much as its forward and backward pass on eight sequences.
"""
import math

import torch

from flat_adamw import FlatAdamW

ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
UPDATE_DEVIATION = 0.2  # of AdamW's steps, about


def orthogonal(matrix):
    """The nearest matrix with singular values of about one (0.7 to 1.2)."""
    wide = matrix.shape[0] <= matrix.shape[1]
    x = matrix if wide else matrix.t()
    x = x / (x.norm() + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.t()
        x = a * x + torch.addmm(gram, gram, gram, beta=b, alpha=c) @ x
    return x if wide else x.t()


class FlatMuon(FlatAdamW):
    """The hidden matrices lie behind all that AdamW steps."""

    def __init__(self, model, learning_rate, momentum=0.95, **options):
        hidden = [parameter for parameter in model.blocks.parameters() if parameter.dim() == 2]
        chosen = {id(parameter) for parameter in hidden}
        others = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
        super().__init__(others + hidden, learning_rate, **options)
        self.hidden, self.momentum = hidden, momentum
        self.adamw_elements = sum(parameter.numel() for parameter in others)
        self.momenta = [torch.zeros_like(parameter) for parameter in hidden]

    def update(self, learning_rate):
        super().update(learning_rate)
        for parameter, momentum in zip(self.hidden, self.momenta):
            momentum.mul_(self.momentum).add_(parameter.grad)
            nesterov = parameter.grad.add(momentum, alpha=self.momentum)
            scale = UPDATE_DEVIATION * math.sqrt(max(parameter.shape))
            parameter.data.add_(orthogonal(nesterov), alpha=-learning_rate * scale)
