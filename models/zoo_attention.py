"""Reference models with attention: a vision transformer, a text encoder with a mask, a causal decoder with RoPE."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_common import finish

_WORDS = 100
_WIDTH = 48
_HEADS = 4
_LONGEST = 64


def _split_heads(x: Tensor) -> Tensor:
    """``[N, T, width]`` to ``[N, heads, T, width / heads]``."""
    batch, length, width = x.shape
    return x.reshape(batch, length, _HEADS, width // _HEADS).transpose(1, 2)


def _join_heads(x: Tensor) -> Tensor:
    """``[N, heads, T, part]`` to ``[N, T, heads * part]``."""
    return x.transpose(1, 2).flatten(2)


class Block(nn.Module):
    """Norm, attention, norm, perceptron. The attention is written out; ``bias`` is added to its scores."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_one, self.norm_two = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.qkv = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.out = nn.Linear(_WIDTH, _WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(_WIDTH, 2 * _WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * _WIDTH, _WIDTH)
        )

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """``x`` ``[N, T, width]`` stays so; ``bias`` broadcasts to ``[N, heads, T, T]``."""
        q, k, v = (_split_heads(part) for part in self.qkv(self.norm_one(x)).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) * (_WIDTH // _HEADS) ** -0.5
        scores = scores if bias is None else scores + bias
        x = x + self.out(_join_heads(scores.softmax(dim=-1) @ v))
        y: Tensor = x + self.mlp(self.norm_two(x))
        return y


class Vit(nn.Module):
    """Patches, a class token, learnt positions, three blocks. ``image`` ``[N, 3, 32, 32]`` to ``[N, 10]``."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, _WIDTH, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, _WIDTH))
        self.place = nn.Parameter(torch.randn(1, 17, _WIDTH) * 0.3)
        self.blocks = nn.ModuleList([Block(), Block(), Block()])
        self.norm = nn.LayerNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Give logits ``[N, 10]`` from the class token."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.place
        for block in self.blocks:
            x = block(x)
        y: Tensor = self.head(self.norm(x[:, 0]))
        return y


class TextEncoder(nn.Module):
    """Word and position embeddings, two blocks, mean over the words that ``mask`` keeps; ``[N, T]`` to ``[N, 8]``."""

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(_WORDS, _WIDTH)
        self.place = nn.Embedding(_LONGEST, _WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(_WIDTH, 8)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``ids`` int64 in 0..99 and ``mask`` int64 in 0..1, both ``[N, T]`` with T up to 64; float32 ``[N, 8]``."""
        x = self.word(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        keep = mask.to(x.dtype)
        bias = (1.0 - keep)[:, None, None, :] * -1e4
        for block in self.blocks:
            x = block(x, bias)
        total = (x * keep.unsqueeze(-1)).sum(dim=1)
        y: Tensor = self.head(total / keep.sum(dim=1, keepdim=True).clamp(min=1.0))
        return y


class RmsNorm(nn.Module):
    """Division by the root mean square of the last axis."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(_WIDTH).uniform_(0.7, 1.4))

    def forward(self, x: Tensor) -> Tensor:
        """``[..., width]`` stays so."""
        return self.weight * (x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6))


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions on ``x`` ``[N, heads, T, part]``; ``cosine`` and ``sine`` are ``[T, part]``."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


class DecoderBlock(nn.Module):
    """RMS norm, causal attention with rotary positions, RMS norm, gated perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_one, self.norm_two = RmsNorm(), RmsNorm()
        self.qkv = nn.Linear(_WIDTH, 3 * _WIDTH, bias=False)
        self.out = nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.gate = nn.Linear(_WIDTH, 2 * _WIDTH, bias=False)
        self.up = nn.Linear(_WIDTH, 2 * _WIDTH, bias=False)
        self.down = nn.Linear(2 * _WIDTH, _WIDTH, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """``x`` ``[N, T, width]`` stays so."""
        q, k, v = (_split_heads(part) for part in self.qkv(self.norm_one(x)).chunk(3, dim=-1))
        q, k = _rotate(q, cosine, sine), _rotate(k, cosine, sine)
        x = x + self.out(_join_heads(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)))
        y = self.norm_two(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """A causal language model with the output tied to the embedding. ``ids`` ``[N, T]`` to ``[N, T, 100]``."""

    rates: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(_WORDS, _WIDTH)
        self.blocks = nn.ModuleList([DecoderBlock(), DecoderBlock()])
        self.norm = RmsNorm()
        part = _WIDTH // _HEADS
        self.register_buffer("rates", 100.0 ** (-torch.arange(0, part, 2) / part), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """``ids`` int64 in 0..99, ``[N, T]``; logits of the next word, float32 ``[N, T, 100]``."""
        x = self.word(ids)
        places = torch.arange(ids.shape[1], device=ids.device).to(x.dtype)
        angles = torch.outer(places, self.rates.to(x.dtype))
        angles = torch.cat([angles, angles], dim=-1)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin())
        return self.norm(x) @ self.word.weight.t() * _WIDTH**-0.5


def vit() -> nn.Module:
    """Make the vision transformer."""
    return finish(Vit, lambda: (torch.randn(16, 3, 32, 32),), heads=("head",))


def text_encoder() -> nn.Module:
    """Make the text encoder."""
    return finish(
        TextEncoder, lambda: (torch.randint(0, _WORDS, (32, 12)), torch.randint(0, 2, (32, 12))), heads=("head",)
    )


def decoder() -> nn.Module:
    """Make the causal decoder."""
    return finish(Decoder, lambda: (torch.randint(0, _WORDS, (8, 12)),))
