"""Modules with something about them: custom operators, quantisation, parametrisations, wrappers, hooks."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor as T
from torch import nn

from helpers.semantic_table import enter, semantic


@torch.library.custom_op("semantic::double_it", mutates_args=())  # type: ignore[untyped-decorator]
def double_it(x: T) -> T:
    return x * 2


@double_it.register_fake  # type: ignore[untyped-decorator]
def _shape_of_double(x: T) -> T:
    return torch.empty_like(x)


@semantic("x=float32[N,4]", expect="semantic.double_it")
def custom_operator(x: T) -> T:
    return double_it(x) + 1


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: T) -> T:
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: T) -> T:
        return grad


@semantic("x=float32[N,4]")
def autograd_function(x: T) -> T:
    return _Cube.apply(x)


def _small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def _dynamic_quantised() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.backends.quantized.engine = torch.backends.quantized.supported_engines[-1]
        return torch.ao.quantization.quantize_dynamic(_small().eval(), {nn.Linear}, dtype=torch.qint8)


def _static_quantised() -> nn.Module:
    from torch.ao import quantization as q

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.backends.quantized.engine = torch.backends.quantized.supported_engines[-1]
        net = nn.Sequential(q.QuantStub(), nn.Conv2d(1, 2, 3), nn.ReLU(), q.DeQuantStub()).eval()
        net.qconfig = q.get_default_qconfig(torch.backends.quantized.engine)
        prepared = q.prepare(net)
        prepared(torch.randn(2, 1, 6, 6))
        return q.convert(prepared)


def _fake_quantised() -> nn.Module:
    class Fake(nn.Module):
        def forward(self, x: T) -> T:
            return torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)

    return Fake()


quantised_dynamic = enter(
    "quantised_dynamic", _dynamic_quantised, __name__, "x=float32[N,4]", expect="parts that torch has quantised"
)
quantised_static = enter(
    "quantised_static",
    _static_quantised,
    __name__,
    "x=float32[N,1,6,6]",
    expect="parts that torch has quantised",
    slow=True,
)
fake_quantised = enter("fake_quantised", _fake_quantised, __name__, "x=float32[N,6]")


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(1000, 64), nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: T) -> T:
        return self.head(self.embedding(ids))


tied = enter("tied", _Tied, __name__, "ids=int64[N,T]{0..999}", dims=("T=2..4..8",))


def _weight_norm() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 8)), nn.ReLU())


def _old_weight_norm() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.utils.weight_norm(nn.Conv1d(4, 8, 3)), nn.ReLU())


def _spectral_norm() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8)), nn.ReLU())


def _old_spectral_norm() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 8)), nn.ReLU())


weight_norm = enter("weight_norm", _weight_norm, __name__, "x=float32[N,4]")
old_weight_norm = enter("old_weight_norm", _old_weight_norm, __name__, "x=float32[N,4,9]", slow=True)
spectral_norm = enter("spectral_norm", _spectral_norm, __name__, "x=float32[N,4]", slow=True)
old_spectral_norm = enter("old_spectral_norm", _old_spectral_norm, __name__, "x=float32[N,4]", slow=True)


def _compiled() -> nn.Module:
    return torch.compile(_small())


def _parallel() -> nn.Module:
    return nn.DataParallel(_small())


def _lazy() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.LazyLinear(8), nn.ReLU())


def _meta() -> nn.Module:
    with torch.device("meta"):
        return _small()


compiled = enter("compiled", _compiled, __name__, "x=float32[N,4]")
parallel = enter("parallel", _parallel, __name__, "x=float32[N,4]", slow=True)
lazy = enter("lazy", _lazy, __name__, "x=float32[N,4]", expect="has no values yet")
meta = enter("meta", _meta, __name__, "x=float32[N,4]", expect="has no values yet")


def _hooked() -> nn.Module:
    net = _small()
    net[0].register_forward_hook(lambda module, args, result: result * 2)
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return net


hooked = enter("hooked", _hooked, __name__, "x=float32[N,4]")


class _Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _small()

    def forward(self, x: T) -> T:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(x).float()


autocast = enter("autocast", _Autocast, __name__, "x=float32[N,4]", expect="Could not find an implementation for Gemm")


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, 5, batch_first=True, num_layers=2)

    def forward(self, x: T) -> Any:
        return self.rnn(x)


plain_rnn = enter("plain_rnn", _Recurrent, __name__, "x=float32[N,T,4]", dims=("T=2..6..12",), slow=True)


class _ScriptedBranch(nn.Module):
    def forward(self, x: T) -> T:
        if bool(x.sum() > 1e4):  # noqa: SIM108  (TorchScript keeps this as a branch)
            y = x * 2
        else:
            y = x - 1
        return y


def _script() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(_ScriptedBranch())


scripted_branch = enter("scripted_branch", _script, __name__, "x=float32[2,4]")


class _ScriptedLoop(nn.Module):
    def forward(self, x: T, n: T) -> T:
        for _ in range(int(n)):
            x = x * 1.5 + 1
        return x


def _script_loop() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(_ScriptedLoop())


scripted_loop = enter("scripted_loop", _script_loop, __name__, "x=float32[2,4]", "n=int64[]{0..5}")


class _HalfScripted(nn.Module):
    """A scripted part with a branch, inside a plain module."""

    def __init__(self) -> None:
        super().__init__()
        self.part = _script()

    def forward(self, x: T) -> T:
        return self.part(x * 2)


half_scripted = enter(
    "half_scripted",
    _HalfScripted,
    __name__,
    "x=float32[2,4]",
    expect="control flow depends on the values of its inputs",
)


def _wraps_graph_module() -> nn.Module:
    return torch.fx.symbolic_trace(_small())


fx_module = enter("fx_module", _wraps_graph_module, __name__, "x=float32[N,4]", slow=True)
