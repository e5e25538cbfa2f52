"""A task on which post-training quantization visibly loses: a narrow depthwise network with outlier channels.

The images are the hundred digits that the repository ships, moved and under strong noise; those to train on and those
to test on are different draws. After training in float, a few channels of every ReLU get 40 times as large and the
weights that read them as much smaller. That leaves the float network as it is, as batch norm does in real networks of
depthwise layers, and it makes one scale per tensor a bad fit: most channels have to do with a few of the 256 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

DIGITS = Path(__file__).resolve().parent.parent / "models" / "digits"
DRAWS, NOISE = 40, 0.6
OUTLIER, SHARE = 40.0, 0.25
FLOAT_EPOCHS, QAT_EPOCHS, BATCH = 15, 10, 50
FLOAT_RATE, QAT_RATE = 1e-2, 3e-4


def data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images ``[4000, 1, 8, 8]`` in -1..1 and labels, then as many to test on; always the same."""
    images = torch.from_numpy(np.load(DIGITS / "samples.npz")["image"])
    labels = torch.from_numpy(np.load(DIGITS / "labels.npz")["label"]).repeat(DRAWS)
    random = torch.Generator().manual_seed(0)
    return _varied(images, random), labels, _varied(images, random), labels


def _varied(images: Tensor, random: torch.Generator) -> Tensor:
    """Every image :data:`DRAWS` times: moved by up to a pixel, with noise; what comes in is background (-1)."""
    images = images.repeat(DRAWS, 1, 1, 1)
    padded = nn.functional.pad(images, (1, 1, 1, 1), value=-1.0)
    corner = torch.randint(0, 3, (len(images), 2), generator=random)
    rows, columns = corner[:, :1] + torch.arange(8), corner[:, 1:] + torch.arange(8)
    moved = padded[torch.arange(len(images))[:, None, None], 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)
    return (moved + NOISE * torch.randn(moved.shape, generator=random)).clamp(-1, 1)


def _conv(inputs: int, outputs: int, kernel: int, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]


class Narrow(nn.Module):
    """Depthwise and pointwise convolutions with ``width`` channels; logits ``[N, 10]`` for ``[N, 1, 8, 8]``."""

    def __init__(self, width: int = 16) -> None:
        """Make it with random weights."""
        super().__init__()
        parts = _conv(1, width, 3)
        for _ in range(3):
            parts += [*_conv(width, width, 3, groups=width), *_conv(width, width, 1)]
        self.body = nn.Sequential(*parts)
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Classify ``image``."""
        logits: Tensor = self.head(self.body(image).mean((2, 3)))
        return logits


def fit(module: nn.Module, images: Tensor, labels: Tensor, epochs: int, rate: float) -> None:
    """Train ``module`` in place."""
    module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    steps = epochs * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(images[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    module.eval()


@torch.no_grad()
def spread(net: Narrow) -> None:
    """Make a share of the channels of every layer :data:`OUTLIER` times as large, and what reads them smaller."""
    layers = [(net.body[i], net.body[i + 1]) for i in range(0, len(net.body), 3)]
    for index, (_, norm) in enumerate(layers):
        factor = torch.where(torch.rand(norm.num_features) < SHARE, OUTLIER, 1.0)
        factor[0] = OUTLIER
        norm.weight *= factor
        norm.bias *= factor
        reader = layers[index + 1][0].weight if index + 1 < len(layers) else net.head.weight
        depthwise = reader.dim() == 4 and reader.shape[1] == 1
        reader /= factor.reshape((-1, 1, 1, 1) if depthwise else (1, -1, *[1] * (reader.dim() - 2)))


def trained(seed: int, images: Tensor, labels: Tensor) -> Narrow:
    """The float network of one seed."""
    torch.manual_seed(seed)
    net = Narrow()
    fit(net, images, labels, FLOAT_EPOCHS, FLOAT_RATE)
    spread(net)
    return net


def accuracy(run: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> float:
    """Share of right answers in percent."""
    with torch.no_grad():
        return 100 * float((run(images).argmax(1) == labels).double().mean())
