"""A small byte-level GPT: the reference workload's model, about half a million parameters.

Pre-norm transformer blocks with a ReLU feed-forward, tied output embedding, and embeddings of the few
previous bytes added to the input, without which a model this small learns far more slowly.
"""
import math

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 256
INITIAL_DEVIATION = 0.02
MASKED = -1e9


class Block(nn.Module):
    """Causal self-attention and feed-forward, each behind a layer norm and a residual connection."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        mask = torch.triu(torch.full((context, context), MASKED), 1)
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, x):
        batch, length, width = x.shape
        head_width = width // self.heads
        qkv = self.qkv(x).view(batch, length, 3, self.heads, head_width).permute(2, 0, 3, 1, 4)
        q, k, v = (part.reshape(batch * self.heads, length, head_width) for part in qkv)
        scores = torch.baddbmm(self.mask[:length, :length], q, k.transpose(1, 2),
                               alpha=1 / math.sqrt(head_width))
        mixed = torch.bmm(scores.softmax(-1), v).view(batch, self.heads, length, head_width)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm_attention(x))
        return x + self.contract(functional.relu(self.expand(self.norm_feed(x))))


class Gpt(nn.Module):
    def __init__(self, width=128, layers=2, heads=4, context=128, previous=3):
        super().__init__()
        self.context = context
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(context, width)
        self.previous = nn.ModuleList(nn.Embedding(VOCABULARY, width) for _ in range(previous))
        self.blocks = nn.ModuleList(Block(width, heads, context) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.initialise(layers)

    def initialise(self, layers):
        """Normal matrices, smaller where they end a residual branch; zero biases."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                ends_branch = name.endswith(("projection.weight", "contract.weight"))
                scale = math.sqrt(2 * layers) if ends_branch else 1
                nn.init.normal_(parameter, 0, INITIAL_DEVIATION / scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        """Mean cross entropy in nats a byte."""
        length = tokens.shape[1]
        x = self.token(tokens) + self.position.weight[:length]
        for distance, embedding in enumerate(self.previous, start=1):
            x = x + functional.pad(embedding(tokens[:, :length - distance]), (0, 0, distance, 0))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.token.weight.t()
        return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))
