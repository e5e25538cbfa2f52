"""Reference models that classify images: inverted residuals, plain residuals, channels-last blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_common import conv, finish


def _images() -> tuple[Tensor, ...]:
    return (torch.randn(16, 3, 32, 32),)


class Classifier(nn.Module):
    """A body that gives ``[N, C, h, w]``, global pooling, a linear head."""

    def __init__(self, body: nn.Module, channels: int, classes: int = 10) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        """``[N, 3, H, W]`` to logits ``[N, classes]``."""
        y: Tensor = self.head(self.body(image).mean(dim=(2, 3)))
        return y


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow without activation; a skip where the shape stays."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = inputs * 4
        self.skip = stride == 1 and inputs == outputs
        self.block = nn.Sequential(
            conv(inputs, wide, 1),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            conv(wide, wide, 3, stride, groups=wide),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            conv(wide, outputs, 1),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """``[N, inputs, h, w]`` to ``[N, outputs, h / stride, w / stride]``."""
        y: Tensor = self.block(x)
        return x + y if self.skip else y


class Basic(nn.Module):
    """Two convolutions and a skip, which is projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            conv(inputs, outputs, 3, stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            conv(outputs, outputs),
            nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        project = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        self.skip = nn.Identity() if same else project

    def forward(self, x: Tensor) -> Tensor:
        """``[N, inputs, h, w]`` to ``[N, outputs, h / stride, w / stride]``."""
        return torch.relu(self.block(x) + self.skip(x))


class ConvNextBlock(nn.Module):
    """Depthwise 7x7, then a layer norm and a perceptron with the channels last, scaled and added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.spread = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.widen = nn.Linear(channels, 4 * channels)
        self.narrow = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.empty(channels).uniform_(0.3, 0.9))

    def forward(self, x: Tensor) -> Tensor:
        """``[N, channels, h, w]`` stays so."""
        y = self.norm(self.spread(x).permute(0, 2, 3, 1))
        y = self.gamma * self.narrow(nn.functional.gelu(self.widen(y)))
        return x + y.permute(0, 3, 1, 2)


class NormFirst(nn.Module):
    """Layer norm over the channels of ``[N, C, h, w]``, written out, as ConvNeXt does before it shrinks the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels).uniform_(0.7, 1.4))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-0.3, 0.3))

    def forward(self, x: Tensor) -> Tensor:
        """``[N, C, h, w]`` stays so."""
        centred = x - x.mean(1, keepdim=True)
        scaled = centred / torch.sqrt((centred * centred).mean(1, keepdim=True) + 1e-6)
        return self.weight[:, None, None] * scaled + self.bias[:, None, None]


def _mobilenet() -> nn.Module:
    body = nn.Sequential(
        conv(3, 16, 3, 2),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        InvertedResidual(16, 16, 1),
        InvertedResidual(16, 24, 2),
        InvertedResidual(24, 24, 1),
        InvertedResidual(24, 32, 2),
        conv(32, 96, 1),
        nn.BatchNorm2d(96),
        nn.ReLU6(),
    )
    return Classifier(body, 96)


def _resnet() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Basic(16, 16, 1),
        Basic(16, 32, 2),
        Basic(32, 64, 2),
    )
    return Classifier(body, 64)


def _convnext() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(3, 24, 4, 4),
        NormFirst(24),
        ConvNextBlock(24),
        ConvNextBlock(24),
        NormFirst(24),
        nn.Conv2d(24, 48, 2, 2),
        ConvNextBlock(48),
    )
    return Classifier(body, 48)


def mobilenet() -> nn.Module:
    """Make the network of inverted residuals."""
    return finish(_mobilenet, _images, heads=("head",))


def resnet() -> nn.Module:
    """Make the residual network."""
    return finish(_resnet, _images, heads=("head",))


def convnext() -> nn.Module:
    """Make the network with channels-last blocks."""
    return finish(_convnext, _images, heads=("head",))
