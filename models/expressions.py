"""Judging text that torch would evaluate as Python while it loads an exported program.

``torch.export.load`` hands shape expressions to ``sympy.sympify``, which evaluates them, and guard expressions to
``exec``. So a file could hold any program there. These checks accept the arithmetic that torch itself writes, and
nothing else.
"""

from __future__ import annotations

import ast
import re

LABEL = re.compile(r"[\w .:@/+\-]*")
"""Text that is harmless wherever torch pastes it: no quotes, brackets, backslashes or line ends."""

_LONGEST = 20_000
_SYMBOL = re.compile(r"[A-Za-z]{1,10}_?\d{0,9}")
_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?|-?inf|nan")
_FUNCTIONS = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Abs|Mod|PythonMod|FloorDiv|"
    r"CeilDiv|CleanDiv|ModularIndexing|Where|LShift|RShift|PowByNatural|FloatPow|FloatTrueDiv|"
    r"IntTrueDiv|IsNonOverlappingAndDenseIndicator|TruncToFloat|TruncToInt|RoundToInt|RoundDecimal|"
    r"ToFloat|CeilToInt|FloorToInt|Identity|BitwiseFn_bitwise_and|BitwiseFn_bitwise_or|"
    r"BitwiseFn_bitwise_xor|OpaqueUnaryFn_sqrt|OpaqueUnaryFn_exp|OpaqueUnaryFn_log|OpaqueUnaryFn_log2|"
    r"OpaqueUnaryFn_sin|OpaqueUnaryFn_cos|OpaqueUnaryFn_tan|OpaqueUnaryFn_tanh|floor|ceiling|sqrt|"
    r"exp|log|Equality|Unequality|Eq|Ne|GreaterThan|LessThan|StrictGreaterThan|StrictLessThan"
    r"|Ge|Le|Gt|Lt|And|Or|Not|Xor|ITE|Piecewise|ExprCondPair|Tuple|max|min|abs"
)
_CONSTANTS = frozenset({"true", "false", "oo", "int_oo", "inf", "nan", "zoo"})
_KEYWORDS = frozenset(
    {"integer", "positive", "negative", "nonnegative", "nonpositive", "nonzero", "zero", "real", "finite", "infinite"}
    | {"precision", "dps", "evaluate", "commutative", "extended_real", "rational"}
)
_SHAPES: tuple[type[ast.AST], ...] = (
    *(ast.Expression, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List),
    *(ast.operator, ast.unaryop, ast.boolop),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_ATTRIBUTES = frozenset({"size", "stride", "storage_offset", "shape", "dim", "numel"})
_MATH = frozenset({"floor", "ceil", "trunc", "sqrt", "pow", "fmod", "isnan", "inf", "nan", "log", "exp", "log2"})


def is_arithmetic(text: str) -> bool:
    """Whether ``text`` is a shape expression as torch writes them: symbols, numbers and named pure functions."""
    return _accepts(text, guard=False)


def is_guard(text: str) -> bool:
    """Whether ``text`` is a condition over the inputs ``L[...]`` that reads sizes and strides and does no more."""
    return _accepts(text, guard=True)


def _accepts(text: str, guard: bool) -> bool:
    if len(text) > _LONGEST or not text.isascii() or not text.isprintable():
        return False
    try:
        tree = ast.parse(text, mode="eval")
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_harmless(node, guard) for node in nodes)


def _harmless(node: ast.AST, guard: bool) -> bool:
    match node:
        case ast.Name(id=name):
            known = bool(_FUNCTIONS.fullmatch(name)) or name in _CONSTANTS or bool(_SYMBOL.fullmatch(name))
            return known or (guard and name in ("L", "math"))
        case ast.Constant(value=value):
            return _harmless_constant(value, guard)
        case ast.Call(func=function, keywords=keywords):
            return _harmless_call(function, guard) and all(word.arg in _KEYWORDS for word in keywords)
        case ast.keyword(value=value):
            return isinstance(value, ast.Constant)
        case ast.Attribute(value=ast.Name(id="math"), attr=name):
            return guard and name in _MATH
        case ast.Attribute(attr=name):
            return guard and name in _ATTRIBUTES
        case ast.Subscript(slice=index):
            return guard and isinstance(index, ast.Constant)
    return isinstance(node, _SHAPES) and not isinstance(node, ast.MatMult)


def _harmless_call(function: ast.expr, guard: bool) -> bool:
    if isinstance(function, ast.Name):
        return bool(_FUNCTIONS.fullmatch(function.id))
    return guard and isinstance(function, ast.Attribute)


def _harmless_constant(value: object, guard: bool) -> bool:
    if isinstance(value, str):
        short = _SYMBOL.fullmatch(value) or _NUMBER.fullmatch(value)
        return bool(LABEL.fullmatch(value)) if guard else bool(short)
    return value is None or isinstance(value, bool | int | float)
