"""Reference models on images of further kinds: moving ones, larger ones, and gates from the whole image."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_common import conv, finish


class Video(nn.Module):
    """3-D convolutions with uneven kernels and strides. ``[N, 3, 8, 20, 20]`` to ``[N, 6]``."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(3, 12, 3, padding=1, bias=False),
            nn.BatchNorm3d(12),
            nn.ReLU(),
            nn.MaxPool3d((1, 2, 2)),
            nn.Conv3d(12, 24, (3, 3, 1), stride=(2, 2, 1), padding=(1, 1, 0), bias=False),
            nn.BatchNorm3d(24),
            nn.SiLU(),
            nn.Conv3d(24, 24, 1),
        )
        self.head = nn.Linear(24 * 4, 6)

    def forward(self, clip: Tensor) -> Tensor:
        """Give logits ``[N, 6]``; what is left of the time is kept, the mean is taken over each frame."""
        y: Tensor = self.head(self.body(clip).mean(dim=(3, 4)).flatten(1))
        return y


class SuperResolution(nn.Module):
    """An image of any size, twice as large: convolutions, pixel shuffle, a nearest-neighbour skip."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 24, 5, padding=2), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.LeakyReLU(0.2)
        )
        self.head = nn.Conv2d(24, 4, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """``[N, 1, H, W]`` to ``[N, 1, 2H, 2W]``."""
        fine = nn.functional.pixel_shuffle(self.head(self.body(image)), 2)
        return fine + nn.functional.interpolate(image, scale_factor=2.0, mode="nearest")


class SqueezeExcite(nn.Module):
    """Scale each channel by what the whole image says of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """``[N, channels, h, w]`` stays so."""
        y = torch.relu(self.squeeze(nn.functional.adaptive_avg_pool2d(x, 1)))
        return x * nn.functional.hardsigmoid(self.excite(y))


class MobileNetV3(nn.Module):
    """Depthwise convolutions with squeeze-and-excite and hard swish. ``[N, 3, 32, 32]`` to ``[N, 10]``."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), nn.BatchNorm2d(16), nn.Hardswish(inplace=True))
        self.deep = nn.Sequential(
            conv(16, 48, 1),
            nn.BatchNorm2d(48),
            nn.Hardswish(inplace=True),
            conv(48, 48, 5, 2, groups=48),
            nn.BatchNorm2d(48),
            SqueezeExcite(48),
            nn.Hardswish(inplace=True),
            conv(48, 24, 1),
            nn.BatchNorm2d(24),
        )
        self.wide = nn.Sequential(nn.Linear(24, 64), nn.Hardswish(), nn.Dropout(0.2))
        self.head = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Give logits ``[N, 10]``."""
        y = nn.functional.adaptive_avg_pool2d(self.deep(self.stem(image)), 1)
        logits: Tensor = self.head(self.wide(y.flatten(1)))
        return logits


def video() -> nn.Module:
    """Make the network for video."""
    return finish(Video, lambda: (torch.randn(8, 3, 8, 20, 20),), heads=("head",))


def super_resolution() -> nn.Module:
    """Make the network that enlarges images."""
    return finish(SuperResolution, lambda: (torch.randn(8, 1, 20, 24),), heads=("head",))


def mobilenet_v3() -> nn.Module:
    """Make the network with squeeze-and-excite."""
    return finish(MobileNetV3, lambda: (torch.randn(16, 3, 32, 32),), heads=("head",))
