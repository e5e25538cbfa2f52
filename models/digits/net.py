"""The network of the digits classifier and the factory that loads its shipped weights."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_name("weights.pt")


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Inverted(nn.Module):
    """Residual block: widen, filter every channel on its own, narrow. ``[N, C, H, W]`` stays ``[N, C, H, W]``."""

    def __init__(self, channels: int, wide: int) -> None:
        super().__init__()
        self.widen = _conv_norm(channels, wide, 1)
        self.filter = _conv_norm(wide, wide, 3, groups=wide)
        self.narrow = _conv_norm(wide, channels, 1)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to ``x`` float32 ``[N, C, H, W]``; same shape out."""
        return x + self.narrow(self.act(self.filter(self.act(self.widen(x)))))


class DigitsNet(nn.Module):
    """Classifies 8x8 digits: convolutions, depthwise residual blocks, global pooling, one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv_norm(1, 24, 3), nn.ReLU())
        self.fine = Inverted(24, 72)
        self.down = nn.Sequential(_conv_norm(24, 48, 3, stride=2), nn.ReLU())
        self.coarse = Inverted(48, 144)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(48, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Map ``image`` float32 ``[N, 1, 8, 8]`` in -1..1 to logits float32 ``[N, 10]``."""
        features: Tensor = self.coarse(self.down(self.fine(self.stem(image))))
        logits: Tensor = self.head(self.pool(features).flatten(1))
        return logits


def digits() -> DigitsNet:
    """Give the trained network in eval mode, with the weights that lie beside this file."""
    net = DigitsNet()
    net.load_state_dict(torch.load(WEIGHTS, map_location="cpu", weights_only=True))
    net.eval()
    return net
