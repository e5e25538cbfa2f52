"""The networks of `make bench`: well-known shapes with drawn weights, each called with one input of batch 1.

Weights are drawn with a fixed seed, and batch norms have the statistics of drawn inputs, so that values keep their size
through the layers as they do in a trained network. Latency does not depend on what the weights are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_vision import Classifier

#: Name in the tables -> factory in this file and the input.
NETS = {
    "MobileNetV2-224": ("mobilenet_v2", "x=float32[1,3,224,224]"),
    "ResNet-18": ("resnet18", "x=float32[1,3,224,224]"),
    "EfficientNet-Lite0": ("efficientnet_lite0", "x=float32[1,3,224,224]"),
    "transformer encoder": ("transformer", "x=float32[1,64,256]"),
    "LSTM": ("lstm", "x=float32[1,64,128]"),
}


def mobilenet_v2() -> nn.Module:
    """Sandler et al. 2018, *MobileNetV2: Inverted Residuals and Linear Bottlenecks*, table 2."""
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    torch.manual_seed(0)
    layers: list[nn.Module] = [_conv(3, 32, 3, 2)]
    inputs = 32
    for wider, outputs, count, stride in table:
        for index in range(count):
            layers.append(Inverted(inputs, outputs, wider, 3, stride if index == 0 else 1))
            inputs = outputs
    return _settled(Classifier(nn.Sequential(*layers, _conv(inputs, 1280, 1)), 1280, classes=1000))


def efficientnet_lite0() -> nn.Module:
    """EfficientNet-B0 of Tan and Le 2019 without squeeze-and-excite, with ReLU6, as TensorFlow publishes it."""
    table = (
        (3, 1, 1, 16, 1),
        (3, 2, 6, 24, 2),
        (5, 2, 6, 40, 2),
        (3, 2, 6, 80, 3),
        (5, 1, 6, 112, 3),
        (5, 2, 6, 192, 4),
        (3, 1, 6, 320, 1),
    )
    torch.manual_seed(0)
    layers: list[nn.Module] = [_conv(3, 32, 3, 2)]
    inputs = 32
    for size, stride, wider, outputs, count in table:
        for index in range(count):
            layers.append(Inverted(inputs, outputs, wider, size, stride if index == 0 else 1))
            inputs = outputs
    return _settled(Classifier(nn.Sequential(*layers, _conv(inputs, 1280, 1)), 1280, classes=1000))


def resnet18() -> nn.Module:
    """He et al. 2016, *Deep Residual Learning for Image Recognition*, table 1."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [_conv(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Basic(inputs, outputs, stride), Basic(outputs, outputs, 1)]
        inputs = outputs
    return _settled(Classifier(nn.Sequential(*layers), 512, classes=1000))


def transformer() -> nn.Module:
    """Four encoder layers of width 256 with 4 heads; ``[1, 64, 256]`` to the same."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()


def lstm() -> nn.Module:
    """Two layers of width 256 over 64 steps; ``[1, 64, 128]`` to ``[1, 10]``."""
    torch.manual_seed(0)
    return Recurrent().eval()


class Recurrent(nn.Module):
    """An LSTM whose last state is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(128, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        """``[N, T, 128]`` to ``[N, 10]``."""
        states, _ = self.lstm(x)
        y: Tensor = self.head(states[:, -1])
        return y


class Inverted(nn.Module):
    """Widen, filter each channel, narrow without activation; a skip where the shape stays."""

    def __init__(self, inputs: int, outputs: int, wider: int, size: int, stride: int) -> None:
        super().__init__()
        wide = inputs * wider
        self.skip = stride == 1 and inputs == outputs
        widen = [_conv(inputs, wide, 1)] if wider > 1 else []
        narrow = [nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.block = nn.Sequential(*widen, _conv(wide, wide, size, stride, groups=wide), *narrow)

    def forward(self, x: Tensor) -> Tensor:
        """``[N, inputs, h, w]`` to ``[N, outputs, h / stride, w / stride]``."""
        y: Tensor = self.block(x)
        return x + y if self.skip else y


class Basic(nn.Module):
    """Two convolutions and a skip, which is projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _conv(inputs, outputs, 3, stride, act=nn.ReLU)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """``[N, inputs, h, w]`` to ``[N, outputs, h / stride, w / stride]``."""
        return torch.relu(self.second(self.first(x)) + self.skip(x))


def _conv(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, act: type[nn.Module] = nn.ReLU6
) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), act())


def _settled(net: nn.Module) -> nn.Module:
    """With the statistics of a few drawn batches in its batch norms."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # a plain mean over the batches
    net.train()
    with torch.no_grad():
        for _ in range(2):
            net(torch.randn(8, 3, 224, 224))
    return net.eval()
