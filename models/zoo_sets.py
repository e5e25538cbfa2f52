"""Reference models that choose and relate: the best few of many, products by einsum, users and items."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_common import finish

_USERS, _ITEMS = 50, 80


class Ranker(nn.Module):
    """The best five of twelve candidates: their scores, places and features, and which of all beat the mean."""

    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(10, 24), nn.Tanh())
        self.score = nn.Linear(24, 1)
        self.head = nn.Linear(24, 4)
        # Candidates that are alike (all zero, say) would be a tie, which every runtime breaks in its own way.
        self.register_buffer("bias", torch.linspace(-0.6, 0.7, 12)[torch.randperm(12)])

    def forward(self, items: Tensor) -> dict[str, Tensor]:
        """``items`` ``[N, 12, 10]``; ``best`` ``[N, 5]``, ``place`` int64, ``kept`` ``[N, 5, 4]``, ``above`` bool."""
        features = self.embed(items)
        scores = self.score(features).squeeze(-1) + self.bias
        best, place = torch.topk(scores, 5, dim=-1)
        chosen = torch.gather(features, 1, place.unsqueeze(-1).expand(-1, -1, 24))
        kept = torch.where((best > 0.5).unsqueeze(-1), self.head(chosen), chosen[..., :4] - 1.0)
        return {"best": best, "place": place, "kept": kept, "above": scores > scores.mean(dim=-1, keepdim=True)}


class Relations(nn.Module):
    """Products of several axes by einsum: a bilinear form per relation, then a sum over pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 12), nn.Linear(8, 12)
        self.form = nn.Parameter(torch.randn(5, 12, 12) * 0.15)
        self.head = nn.Linear(5 * 12, 7)

    def forward(self, x: Tensor) -> Tensor:
        """``[N, 6, 8]`` to ``[N, 7]``."""
        a, b = torch.tanh(self.left(x)), torch.tanh(self.right(x))
        pairs = torch.einsum("nid,rde,nje->nrij", a, self.form, b)
        weights = torch.softmax(pairs, dim=-1)
        mixed = torch.einsum("nrij,njd->nrd", weights, b) + torch.einsum("nrij->nr", pairs).unsqueeze(-1) * 0.1
        y: Tensor = self.head(mixed.flatten(1))
        return y


class Recommender(nn.Module):
    """Two tables: one user and the last five items. ``user`` int64 ``[N]``, ``items`` int64 ``[N, 5]``."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(_USERS, 16), nn.Embedding(_ITEMS, 16, padding_idx=0)
        self.mix = nn.Sequential(nn.Linear(48, 32), nn.Mish())
        self.head = nn.Linear(32, 3)

    def forward(self, user: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Give ratings ``[N, 3]`` and the likeness of the user to each item, ``[N, 5]``."""
        who, what = self.user(user), self.item(items)
        share = (items != 0).to(what.dtype)
        mean = what.sum(dim=1) / share.sum(dim=1, keepdim=True).clamp(min=1.0)
        joined = torch.cat([who, mean, who * mean], dim=-1)
        near = nn.functional.cosine_similarity(who.unsqueeze(1), what, dim=-1)
        return self.head(self.mix(joined)), near


def ranker() -> nn.Module:
    """Make the ranking network."""
    return finish(Ranker, lambda: (torch.randn(32, 12, 10),), heads=("score", "head"))


def relations() -> nn.Module:
    """Make the network of einsums."""
    return finish(Relations, lambda: (torch.randn(32, 6, 8),), heads=("head",))


def recommender() -> nn.Module:
    """Make the recommender."""
    return finish(
        Recommender,
        lambda: (torch.randint(0, _USERS, (32,)), torch.randint(0, _ITEMS, (32, 5))),
        heads=("head",),
    )
