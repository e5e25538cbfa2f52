"""Reference models with many outputs per image: a U-Net, a resizing segmenter, a detector, and a mix of odd layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_common import conv, finish


def _double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        conv(inputs, outputs),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        conv(outputs, outputs),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Two levels down by max pooling, two up by transposed convolutions. ``[N, 3, 32, 32]`` to ``[N, 2, 32, 32]``."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = _double(3, 16), _double(16, 32), _double(32, 48)
        self.up_two = nn.ConvTranspose2d(48, 32, 2, stride=2)
        self.up_one = nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1)
        self.join_two, self.join_one = _double(64, 32), _double(32, 16)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Give logits of every pixel, ``[N, 2, 32, 32]``."""
        one = self.one(image)
        two = self.two(nn.functional.max_pool2d(one, 2))
        deep = self.three(nn.functional.max_pool2d(two, 2))
        two = self.join_two(torch.cat([self.up_two(deep), two], dim=1))
        one = self.join_one(torch.cat([self.up_one(two), one], dim=1))
        y: Tensor = self.head(one)
        return y


class Segment(nn.Module):
    """Strided and dilated convolutions, then bilinear resizing to the input's own size, whatever that is."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(conv(3, 16, 3, 2), nn.BatchNorm2d(16), nn.Hardswish())
        self.wide = nn.Sequential(
            nn.Conv2d(16, 24, 3, padding=2, dilation=2), nn.LeakyReLU(0.1), conv(24, 24, 3, 2), nn.ReLU()
        )
        self.head = nn.Conv2d(24, 3, 1)

    def forward(self, image: Tensor) -> Tensor:
        """``[N, 3, H, W]`` to ``[N, 3, H, W]``."""
        y = self.head(self.wide(self.down(image)))
        return nn.functional.interpolate(y, size=image.shape[-2:], mode="bilinear", align_corners=False)


class Detection(nn.Module):
    """Two scales, each with boxes relative to its grid of cells, joined. ``[N, 3, 64, 64]`` to 80 cells."""

    cells: Tensor
    strides: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), nn.BatchNorm2d(16), nn.SiLU(), nn.MaxPool2d(2))
        self.fine = nn.Sequential(conv(16, 32, 3, 2), nn.BatchNorm2d(32), nn.SiLU())
        self.coarse = nn.Sequential(conv(32, 48, 3, 2), nn.BatchNorm2d(48), nn.SiLU())
        self.lateral = nn.Conv2d(48, 32, 1)
        self.head_fine = nn.Conv2d(32, 9, 1)
        self.head_coarse = nn.Conv2d(48, 9, 1)
        self.register_buffer("cells", torch.cat([_cells(8), _cells(4)]))
        self.register_buffer("strides", torch.tensor([8.0] * 64 + [16.0] * 16)[:, None])

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Give ``boxes`` ``[N, 80, 4]`` of pixels, ``objectness`` ``[N, 80]``, ``scores`` ``[N, 80, 4]``."""
        fine = self.fine(self.stem(image))
        coarse = self.coarse(fine)
        fine = fine + nn.functional.interpolate(self.lateral(coarse), scale_factor=2.0, mode="nearest")
        levels = [self.head_fine(fine), self.head_coarse(coarse)]
        flat = torch.cat([level.flatten(2).transpose(1, 2) for level in levels], dim=1)
        where, size, objectness, scores = flat.split([2, 2, 1, 4], dim=-1)
        centre = (where.sigmoid() * 4 - 2 + self.cells) * self.strides
        extent = (size.sigmoid() * 2) ** 2 * self.strides
        return {
            "boxes": torch.cat([centre, extent], dim=-1),
            "objectness": objectness.squeeze(-1).sigmoid(),
            "scores": scores.softmax(dim=-1),
        }


def _cells(size: int) -> Tensor:
    """Centres of the cells of a ``size`` x ``size`` grid around its middle, ``[size * size, 2]`` as (x, y)."""
    steps = torch.arange(size, dtype=torch.float32) - (size - 1) / 2
    rows, columns = torch.meshgrid(steps, steps, indexing="ij")
    return torch.stack([columns.flatten(), rows.flatten()], dim=1)


class PreluGroupNorm(nn.Module):
    """Layers that converters treat as rare: group and instance norms, PReLU, odd padding, average pooling, shuffle."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(6, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.PReLU(24))
        self.two = nn.Sequential(
            nn.ZeroPad2d((0, 1, 2, 0)),
            nn.Conv2d(24, 32, (3, 2), stride=2, groups=2),
            nn.InstanceNorm2d(32, affine=True),
        )
        self.three = nn.Sequential(nn.PReLU(), nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.ReflectionPad2d(1))
        self.four = nn.Sequential(nn.Conv2d(32, 32, 3), nn.GroupNorm(32, 32), nn.Hardsigmoid(), nn.PixelShuffle(2))
        self.head = nn.Linear(8 * 12 * 12, 6)
        for module in self.modules():
            if isinstance(module, nn.PReLU):
                nn.init.uniform_(module.weight, -0.4, 0.6)

    def forward(self, image: Tensor) -> Tensor:
        """``[N, 6, 24, 24]`` to ``[N, 6]``."""
        y = self.four(self.three(self.two(self.one(image))))
        logits: Tensor = self.head(y.flatten(1))
        return logits


def unet() -> nn.Module:
    """Make the U-Net."""
    return finish(UNet, lambda: (torch.randn(8, 3, 32, 32),), heads=("head",))


def segment() -> nn.Module:
    """Make the network that takes any image size."""
    return finish(Segment, lambda: (torch.randn(8, 3, 32, 40),), heads=("head",))


def detection() -> nn.Module:
    """Make the detector."""
    return finish(Detection, lambda: (torch.randn(8, 3, 64, 64),), heads=("head_fine", "head_coarse"))


def prelu_groupnorm() -> nn.Module:
    """Make the mix of rare layers."""
    return finish(PreluGroupNorm, lambda: (torch.randn(16, 6, 24, 24),), heads=("head",))
