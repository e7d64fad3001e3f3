"""AdamW over one flat buffer that all of a model's parameters and gradients are views of.

A small model spends most of an optimizer step in per-tensor overhead; here it is a handful of operations
over one vector. It is an ordinary torch.optim.Optimizer to everybody else. After construction the
parameters must be changed in place only.
"""
import math

import torch

EPSILON = 1e-8


class FlatAdamW(torch.optim.Optimizer):
    """`reduced` is the flat gradient and behind it, in `status`, what else is averaged with it."""

    STATUS_ELEMENTS = 2

    def __init__(self, parameters, learning_rate, betas=(0.9, 0.99), weight_decay=0.1, clip=1.0):
        parameters = list(parameters)
        super().__init__(parameters, {"lr": learning_rate})
        self.betas, self.clip, self.step_count = betas, clip, 0
        elements = sum(parameter.numel() for parameter in parameters)
        self.adamw_elements = elements
        self.flat = torch.empty(elements)
        self.reduced = torch.zeros(elements + self.STATUS_ELEMENTS)
        self.gradient, self.status = self.reduced[:elements], self.reduced[elements:]
        self.decay = torch.zeros(elements)
        self.first_moment = torch.zeros(elements)
        self.second_moment = torch.zeros(elements)
        offset = 0
        for parameter in parameters:
            own = slice(offset, offset + parameter.numel())
            self.flat[own] = parameter.data.view(-1)
            parameter.data = self.flat[own].view(parameter.shape)
            parameter.grad = self.gradient[own].view(parameter.shape)
            if parameter.dim() == 2:  # biases and norms are not decayed
                self.decay[own] = weight_decay
            offset = own.stop

    def zero_grad(self, set_to_none=False):
        self.reduced.zero_()

    @torch.no_grad()
    def step(self, closure=None):
        learning_rate = self.param_groups[0]["lr"]
        norm = self.gradient.norm().item()
        if norm > self.clip:
            self.gradient.mul_(self.clip / norm)
        self.step_count += 1
        self.flat.addcmul_(self.flat, self.decay, value=-learning_rate)
        self.update(learning_rate)

    def update(self, learning_rate):
        """Steps the first `adamw_elements` of `flat`."""
        beta1, beta2 = self.betas
        own = slice(0, self.adamw_elements)
        gradient, first, second = self.gradient[own], self.first_moment[own], self.second_moment[own]
        first.mul_(beta1).add_(gradient, alpha=1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        deviation = second.sqrt().div_(math.sqrt(1 - beta2**self.step_count))
        self.flat[own].addcdiv_(first, deviation.add_(EPSILON), value=-learning_rate / (1 - beta1**self.step_count))


class Schedule:
    """Linear warm-up, then a cosine down to a tenth of the peak at the last step."""

    WARM_UP_STEPS = 50
    FINAL_SHARE = 0.1

    def __init__(self, peak, steps):
        self.peak, self.steps = peak, steps

    def at(self, step):
        warm_up = min(1, (step + 1) / self.WARM_UP_STEPS)
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.peak * warm_up * (self.FINAL_SHARE + (1 - self.FINAL_SHARE) * cosine)
