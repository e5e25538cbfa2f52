"""LSTM, GRU and RNN for TVM, whose ONNX front end lacks them: a kernel that walks over time, of any length and batch.

The operators are those of ONNX (https://onnx.ai/onnx/operators/onnx__LSTM.html and the pages of GRU and RNN). What does
not depend on the step before, ``X W^T + b``, is one matrix product over the whole sequence; the kernel does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convert.errors import StageError

#: Blocks of rows in W and R, in ONNX's order: input, output, forget, cell; update, reset, hidden; the one there is.
GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
_USUAL: Mapping[str, tuple[str, ...]] = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}


@dataclass(frozen=True)
class Cell:
    """What one direction of a layer computes.

    Attributes:
        kind: ``LSTM``, ``GRU`` or ``RNN``.
        hidden: size of the state.
        reverse: from the last step to the first.
        relu: an RNN with Relu in place of Tanh.
        linear_before_reset: a GRU that multiplies by R before it applies the reset gate, as torch does.
    """

    kind: str
    hidden: int
    reverse: bool
    relu: bool = False
    linear_before_reset: bool = False


def cells(kind: str, attributes: Mapping[str, Any]) -> tuple[Cell, ...]:
    """One cell per direction of an ONNX node.

    Raises:
        StageError: the node has a setting that no exporter of torch writes.
    """
    direction = attributes.get("direction", b"forward").decode()
    directions = 2 if direction == "bidirectional" else 1
    usual = _USUAL[kind]
    names = tuple(name.decode() for name in attributes.get("activations", ())) or usual * directions
    relu = kind == "RNN" and set(names) == {"Relu"}
    odd = [name for name in ("clip", "activation_alpha", "activation_beta") if name in attributes]
    odd += [name for name in ("layout", "input_forget") if attributes.get(name, 0)]
    odd += [] if relu or names == usual * directions else ["activations"]
    if odd:
        raise StageError(f"{kind} with {', '.join(odd)} is not known here; the settings of torch's layers are")
    before = bool(attributes.get("linear_before_reset", 0))
    backwards = (False, True) if directions == 2 else (direction == "reverse",)
    return tuple(Cell(kind, int(attributes["hidden_size"]), one, relu, before) for one in backwards)


def kernel(
    cell: Cell, products: Any, recurrent: Any, bias: Any, states: Sequence[Any], lengths: Any | None
) -> list[Any]:
    """The walk over time as a tensor expression.

    Args:
        cell: what is computed.
        products: ``X W^T + b`` of all gates, ``[T, N, gates * hidden]``.
        recurrent: R transposed, ``[hidden, gates * hidden]``.
        bias: what is added to ``R h`` of a GRU's hidden gate, ``[hidden]``.
        states: the first hidden state ``[N, hidden]``, and of an LSTM the first cell state.
        lengths: steps of each sequence, int32 ``[N]``; None where all are whole.

    Returns:
        All hidden states ``[T, N, hidden]``, the last one ``[N, hidden]``, of an LSTM the last cell state too, and
        working memory that means nothing.
    """
    from tvm import te

    steps, batch, wide = products.shape
    dtype = products.dtype
    state = (batch, cell.hidden)
    shapes = [(steps, batch, cell.hidden), *(state for _ in states), (wide,), (cell.hidden,)]
    given = [products, recurrent, bias, *states, *([] if lengths is None else [lengths])]

    def write(inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        return _write(cell, inputs, outputs, (steps, batch), lengths is not None)

    made = te.extern(shapes, given, write, name=cell.kind.lower(), dtype=[dtype] * len(shapes))
    return list(made)


def _write(cell: Cell, inputs: Sequence[Any], outputs: Sequence[Any], sizes: tuple[Any, Any], cut: bool) -> Any:
    from tvm.script.ir_builder import IRBuilder
    from tvm.script.ir_builder import tirx as T  # noqa: N812  (as everywhere in TVM)

    steps, batch = sizes
    size = cell.hidden
    states = 2 if cell.kind == "LSTM" else 1
    with IRBuilder() as builder:
        products, recurrent, bias, *rest = (T.buffer_proxy(one) for one in inputs)
        every, *last, work, kept = (T.buffer_proxy(one) for one in outputs)
        walk = _Walk(T, cell, products, recurrent, bias, last, work, kept)
        with T.seq_scope():
            with T.serial(0, batch * size) as i, T.seq_scope():
                for target, source in zip(last, rest[:states], strict=True):
                    target[i] = source[i]
            with T.serial(0, steps) as s, T.serial(0, batch) as b:
                if not cut:
                    walk.step(every, (steps - 1 - s if cell.reverse else s) * batch + b, b)
                else:
                    length = T.cast(rest[states][b], "int64")
                    with T.If(s < length):
                        with T.Then():
                            walk.step(every, (length - 1 - s if cell.reverse else s) * batch + b, b)
                        with T.Else(), T.serial(0, size) as j:
                            every[(s * batch + b) * size + j] = T.float32(0)
        return builder.get()


@dataclass(frozen=True)
class _Walk:
    """Writes the code of one step of one sequence. Buffers are flat."""

    T: Any
    cell: Cell
    products: Any
    recurrent: Any
    bias: Any
    states: Sequence[Any]
    work: Any
    kept: Any

    @property
    def wide(self) -> int:
        """Rows of all gates."""
        return GATES[self.cell.kind] * self.cell.hidden

    def step(self, every: Any, row: Any, sequence: Any) -> None:
        """``row`` of the products in, the same row of ``every`` out; the state of ``sequence`` goes on."""
        size = self.cell.hidden
        start = sequence * size
        finish = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.cell.kind]
        with self.T.seq_scope():
            self._gates(row * self.wide, start)
            with self.T.serial(0, size) as j, self.T.seq_scope():
                finish(row * self.wide, j, start + j)
                every[row * size + j] = self.states[0][start + j]

    def _gates(self, row: Any, start: Any) -> None:
        """``work`` = products + R h; the hidden gate of a GRU holds bias + R h alone, or R (reset h)."""
        size, gru = self.cell.hidden, self.cell.kind == "GRU"
        apart = gru and self.cell.linear_before_reset
        late = gru and not self.cell.linear_before_reset
        with self.T.serial(0, 2 * size if apart else self.wide) as g:
            self.work[g] = self.products[row + g]
        if apart:
            with self.T.serial(0, size) as j:
                self.work[2 * size + j] = self.bias[j]
        self._multiply(self.states[0], start, 0, 2 * size if late else self.wide)
        if late:
            with self.T.serial(0, size) as j:
                self.kept[j] = self.T.sigmoid(self.work[size + j]) * self.states[0][start + j]
            self._multiply(self.kept, 0, 2 * size, self.wide)

    def _multiply(self, vector: Any, start: Any, low: int, high: int) -> None:
        with self.T.serial(0, self.cell.hidden) as k, self.T.serial(0, high - low) as g:
            at = low + g
            self.work[at] = self.work[at] + vector[start + k] * self.recurrent[k * self.wide + at]

    def _lstm(self, row: Any, j: Any, at: Any) -> None:
        del row
        size, sigmoid, tanh = self.cell.hidden, self.T.sigmoid, self.T.tanh
        state, memory = self.states
        new = sigmoid(self.work[j]) * tanh(self.work[3 * size + j])
        memory[at] = sigmoid(self.work[2 * size + j]) * memory[at] + new
        state[at] = sigmoid(self.work[size + j]) * tanh(memory[at])

    def _gru(self, row: Any, j: Any, at: Any) -> None:
        size, sigmoid, state = self.cell.hidden, self.T.sigmoid, self.states[0]
        hidden = self.work[2 * size + j]
        if self.cell.linear_before_reset:
            hidden = self.products[row + 2 * size + j] + sigmoid(self.work[size + j]) * hidden
        update = sigmoid(self.work[j])
        state[at] = (self.T.float32(1) - update) * self.T.tanh(hidden) + update * state[at]

    def _rnn(self, row: Any, j: Any, at: Any) -> None:
        del row
        value, state = self.work[j], self.states[0]
        state[at] = self.T.max(value, self.T.float32(0)) if self.cell.relu else self.T.tanh(value)
