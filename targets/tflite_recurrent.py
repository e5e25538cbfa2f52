"""Keep recurrent layers whole through litert-torch, which would unroll them.

Each layer and direction becomes one composite operator, which :mod:`convert.targets.tflite_loop` turns into a loop in
the file. What the composite says it computes is a stand-in with the right shapes, and is never run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from convert.errors import StageError

#: What the names of the composites begin with.
PREFIX = "convert.recurrent."
#: Gates of a cell, in torch's order: input, forget, candidate, output; reset, update, candidate.
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def keep_recurrent_layers() -> None:
    """Tell litert-torch, in this process, to write LSTM, GRU and RNN as composites."""
    import torch
    from litert_torch.fx_infra import decomp

    for cell in GATES:
        decomp.add_pre_convert_decomp(getattr(torch.ops.aten, cell).input, _layers(cell))


def _layers(cell: str) -> Callable[..., Any]:
    """Torch's ``aten.<cell>.input`` on composites; same arguments and results as that operator."""

    def layers(
        x: Any, hx: Any, params: Sequence[Any], has_biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> tuple[Any, ...]:  # fmt: skip
        import torch

        del dropout, num_layers
        states = list(hx) if cell == "lstm" else [hx]
        if train or (cell == "lstm" and states[0].shape != states[1].shape):
            raise StageError("a recurrent layer in training mode or with a projection cannot be kept whole")
        size = 4 if has_biases else 2
        groups = [params[at : at + size] for at in range(0, len(params), size)]
        directions = 2 if bidirectional else 1
        y, lasts = x.transpose(0, 1) if batch_first else x, []
        for first in range(0, len(groups), directions):
            found = [
                _direction(cell, y, [state[at] for state in states], groups[at], at > first)
                for at in range(first, first + directions)
            ]
            y = torch.cat([sequence for sequence, *_ in found], dim=-1) if bidirectional else found[0][0]
            lasts += [rest for _, *rest in found]
        finals = [torch.stack(values) for values in zip(*lasts, strict=True)]
        return (y.transpose(0, 1) if batch_first else y, *finals)

    return layers


def _direction(cell: str, x: Any, states: Sequence[Any], weights: Sequence[Any], backwards: bool) -> tuple[Any, ...]:
    """One layer in one direction. ``x`` ``[T, N, I]`` and states ``[N, H]``; gives ``[T, N, H]`` and last states."""
    import torch
    from litert_torch.backend.composite import StableHLOCompositeBuilder

    w_ih, w_hh, *biases = weights
    b_ih, b_hh = biases or (None, w_hh.new_zeros(w_hh.shape[0]))
    gates = torch.nn.functional.linear(x.flip(0) if backwards else x, w_ih, b_ih)
    hidden, extra = w_hh.shape[1], len(states) - 1
    builder = StableHLOCompositeBuilder(PREFIX + cell)
    start = gates.new_zeros((gates.shape[0] + extra, gates.shape[1], hidden))
    gates, start, w_hh, b_hh, *states = builder.mark_inputs(gates, start, w_hh, b_hh, *states)
    mixed = torch.nn.functional.linear(states[0], w_hh, b_hh)[:, :hidden]
    # The result needs every input, and there is one result only: litert-torch drops inputs that are not needed, and
    # crashes where the first of several results is not. So an LSTM's last memory is one more row.
    results = builder.mark_outputs(start + gates[:1, :, :hidden] + mixed + sum(states))
    y, memory = (results[:-1], [results[-1]]) if extra else (results, [])
    return (y.flip(0) if backwards else y, y[-1], *memory)
