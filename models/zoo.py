"""The reference models: small architectures of the project's own, each with something that a converter gets wrong.

This is the registry only, free of torch, so that tests can be collected from it; the networks are in ``zoo_*.py``.
Every factory is seeded, gives eval mode with calibrated statistics, and has outputs that vary with the input.

To add a model, write its factory and add one :class:`Reference` below.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """One reference model and how it is called.

    Attributes:
        name: key in :data:`ZOO`.
        factory: ``pkg.mod:function``, which takes no argument and gives the module.
        inputs: as on the command line, such as ``ids=int64[N,T]{0..99}``, in the order of the module's arguments.
        dims: as on the command line, such as ``N=1..4..8`` (smallest, usual, largest).
        traits: what is special about it, for a test that wants some models only.
    """

    name: str
    factory: str
    inputs: tuple[str, ...]
    dims: tuple[str, ...]
    traits: frozenset[str]


_BATCH = "N=1..4..8"


def _reference(name: str, home: str, inputs: str, dims: str = _BATCH, traits: str = "") -> Reference:
    return Reference(
        name=name,
        factory=f"convert.models.zoo_{home}:{name}",
        inputs=tuple(inputs.split()),
        dims=tuple(dims.split()),
        traits=frozenset(traits.split()),
    )


_IMAGE = "image=float32[N,3,32,32]"

ZOO: dict[str, Reference] = {
    reference.name: reference
    for reference in (
        _reference("mlp", "mixed", "x=float32[N,24]"),
        _reference(
            "multi_io",
            "mixed",
            "left=float32[N,12] right=float32[N,20]",
            _BATCH,
            "multi-input multi-output nested-output none-output",
        ),
        _reference(
            "masked_pool",
            "mixed",
            "items=float32[N,S,16] keep=bool[N,S]",
            "N=1..4..8 S=2..9..20",
            "multi-input bool attention",
        ),
        _reference("mobilenet", "vision", _IMAGE, traits="convolution"),
        _reference("resnet", "vision", _IMAGE, traits="convolution"),
        _reference("convnext", "vision", _IMAGE, traits="convolution permute"),
        _reference("prelu_groupnorm", "dense", "image=float32[N,6,24,24]", traits="convolution"),
        _reference("unet", "dense", _IMAGE, traits="convolution dense-output"),
        _reference(
            "segment",
            "dense",
            "image=float32[N,3,H,W]",
            "N=1..2..4 H=17..32..48 W=19..40..56",
            "convolution dense-output dynamic-size resize",
        ),
        _reference(
            "detection", "dense", "image=float32[N,3,64,64]", "N=1..2..4", "convolution multi-output dict-output"
        ),
        _reference("vit", "attention", _IMAGE, traits="attention"),
        _reference(
            "text_encoder",
            "attention",
            "ids=int64[N,T]{0..99} mask=int64[N,T]{0..1}",
            "N=1..4..8 T=2..12..24",
            "attention multi-input int64 dynamic-time",
        ),
        _reference(
            "decoder",
            "attention",
            "ids=int64[N,T]{0..99}",
            "N=1..2..4 T=2..12..24",
            "attention int64 dynamic-time dense-output",
        ),
        _reference("lstm", "sequence", "x=float32[N,T,12]", "N=1..4..8 T=2..10..20", "recurrent dynamic-time"),
        _reference(
            "bilstm", "sequence", "x=float32[N,T,12]", "N=1..4..8 T=2..10..20", "recurrent dynamic-time dense-output"
        ),
        _reference(
            "gru", "sequence", "x=float32[N,T,12]", "N=1..4..8 T=2..10..20", "recurrent dynamic-time multi-output"
        ),
        _reference("audio", "sequence", "mel=float32[N,16,T]", "N=1..4..8 T=16..40..64", "convolution dynamic-time"),
        _reference(
            "causal",
            "sequence",
            "x=float32[N,8,T]",
            "N=1..4..8 T=2..20..32",
            "convolution dynamic-time dense-output",
        ),
        _reference("video", "frames", "clip=float32[N,3,8,20,20]", "N=1..2..4", "convolution three-dimensional"),
        _reference(
            "super_resolution",
            "frames",
            "image=float32[N,1,H,W]",
            "N=1..2..4 H=8..20..32 W=8..24..40",
            "convolution dense-output dynamic-size resize",
        ),
        _reference("mobilenet_v3", "frames", _IMAGE, traits="convolution"),
        _reference("ranker", "sets", "items=float32[N,12,10]", traits="multi-output dict-output bool-output choice"),
        _reference("relations", "sets", "x=float32[N,6,8]", traits="einsum"),
        _reference(
            "recommender",
            "sets",
            "user=int64[N]{0..49} items=int64[N,5]{0..79}",
            traits="multi-input multi-output int64",
        ),
    )
}
