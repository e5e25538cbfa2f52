"""What all reference models share: seeding that disturbs nobody, real statistics, and outputs with real spread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_SEED = 20
_BATCHES = 12
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_NORMS = (*_BATCH_NORMS, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)

Draw = Callable[[], tuple[Tensor, ...]]


def finish(build: Callable[[], nn.Module], draw: Draw, heads: tuple[str, ...] = ()) -> nn.Module:
    """Build a reference model and make it fit for comparison.

    Affine parameters of norms are made random (ones and zeros would hide a lost one), batch norms see random batches in
    train mode, and the output layers are scaled to mean 0 and deviation 1 over those batches, so that neither a bias
    nor a tiny scale hides an error. One thread, since sums in another order would give other weights in the next
    process.

    Args:
        build: makes the module from torch's global generator, whose state is put back afterwards.
        draw: makes one batch of inputs from that generator, distributed as the inputs of the checks are.
        heads: paths of the Linear, Conv1d or Conv2d layers that give the outputs.

    Returns:
        The module in eval mode.
    """
    with torch.random.fork_rng(devices=[]), _one_thread(), torch.no_grad():
        torch.manual_seed(_SEED)
        net = build()
        _vary_norms(net)
        batches = [draw() for _ in range(_BATCHES)]
        _calibrate(net, batches)
        for head in heads:
            _standardise(net, net.get_submodule(head), batches)
    return net


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _vary_norms(net: nn.Module) -> None:
    for module in net.modules():
        if isinstance(module, _NORMS) and module.weight is not None:
            module.weight.uniform_(0.7, 1.4)
            module.bias.uniform_(-0.3, 0.3)


def _calibrate(net: nn.Module, batches: list[tuple[Tensor, ...]]) -> None:
    norms = [m for m in net.modules() if isinstance(m, _BATCH_NORMS)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # the plain mean over all batches
    net.train()
    for batch in batches:
        net(*batch)
    net.eval()
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum


def _standardise(net: nn.Module, head: Any, batches: list[tuple[Tensor, ...]]) -> None:
    """Rescale ``head`` so that each of its channels has mean 0 and deviation 1 over ``batches``."""
    channel = -1 if isinstance(head, nn.Linear) else 1
    seen: list[Tensor] = []
    hook = head.register_forward_hook(lambda module, args, out: seen.append(out.movedim(channel, -1).flatten(0, -2)))
    for batch in batches:
        net(*batch)
    hook.remove()
    values = torch.cat(seen)
    deviation = values.std(0)
    head.bias.copy_((head.bias - values.mean(0)) / deviation)
    head.weight.div_(deviation.reshape(-1, *[1] * (head.weight.dim() - 1)))


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A 2-D convolution without bias that keeps the size (divided by ``stride``)."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
