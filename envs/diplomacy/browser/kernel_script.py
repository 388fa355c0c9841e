"""Translate Warp kernels and the functions they call to JavaScript, expression by expression.

The page that plays Diplomacy without a server therefore shares the simulator's rules. Only the constructs in those
kernels are supported; anything else raises `UntranslatableError` with its line. Types decide the operators:

    int          a number              float    a number, rounded to float32 after each operation
    uint32       a number, `>>> 0`     uint64   a BigInt, cut to 64 bits
    vectors      Float32Array, new for each result; arrays of them are lists
    arrays       nested: `units[game, province]` is `units[game][province]`
    structs      objects; `and` and `or` do not evaluate the second side where the first decides, as in Python

Integer division truncates, as in C; divisors and dividends here are not negative.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import warp as wp

INT, FLOAT, BOOL, U32, U64, VECTOR, PAIR, NOTHING = "int", "float", "bool", "u32", "u64", "vector", "pair", "nothing"
SMALL = {wp.uint8: "{} & 255", wp.int8: "{} << 24 >> 24", wp.int16: "{} << 16 >> 16", wp.int32: "{} | 0"}
HELPERS = Path(__file__).with_name("kernel_helpers.js")
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
COMPARISONS = {
    ast.Eq: "===", ast.NotEq: "!==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


class UntranslatableError(Exception):
    """Something in a kernel that has no translation; the message has the function, the line and the expression."""


class Code(NamedTuple):
    """An expression in JavaScript and its type: a name above, ("array", item, dimensions) or ("struct", Warp's)."""

    text: str
    kind: Any


def script_of(kernels: Sequence[Any]) -> str:
    """Return functions named like `kernels`, and all functions they call; the last argument is the thread, `tid`."""
    functions: dict[str, Any] = {}
    waiting, parts = list(kernels), list[str]()
    while waiting:
        function = waiting.pop()
        name = function.func.__name__
        if functions.setdefault(name, function.func) is not function.func:
            raise UntranslatableError(f"{name}: is the name of two functions")
        if function.func is functions.get(name) and f"function {name}(" not in "".join(parts):
            translated = _Function(function)
            parts.append(translated.text)
            waiting += translated.calls
    return HELPERS.read_text(encoding="utf-8") + "\n".join(parts)


def kind_of(annotation: Any) -> Any:
    """Return the type of a Warp annotation."""
    if hasattr(annotation, "ndim"):
        return ("array", kind_of(annotation.dtype), annotation.ndim)
    if isinstance(getattr(annotation, "vars", None), dict):
        return ("struct", annotation)
    plain = {float: FLOAT, wp.float32: FLOAT, bool: BOOL, wp.bool: BOOL, wp.uint32: U32, wp.uint64: U64}
    if annotation in plain:
        return plain[annotation]
    if annotation is int or annotation in SMALL:
        return INT
    if annotation is None:
        return NOTHING
    return PAIR if annotation is wp.vec2i else VECTOR


class _Function:
    """One function, translated; `calls` are the Warp functions that it calls."""

    def __init__(self, function: Any) -> None:
        self.known = function.func.__globals__
        tree = ast.parse(textwrap.dedent(inspect.getsource(function.func))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self.name, self.calls = tree.name, list[Any]()
        self.kinds: dict[str, Any] = {arg.arg: kind_of(self._value(arg.annotation)) for arg in tree.args.args}
        arguments = [*self.kinds, *(["tid"] if isinstance(function, wp.Kernel) else [])]
        body = "".join(self._statement(statement) for statement in tree.body)
        inner = [name for name in self.kinds if name not in arguments]
        head = f"let {', '.join(inner)};\n" if inner else ""
        self.text = f"function {tree.name}({', '.join(arguments)}) {{\n{head}{body}}}\n"

    # ---- statements

    def _statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Expr(value=ast.Constant()):
                return ""
            case ast.Expr(value=value):
                return f"{self._code(value).text};\n"
            case ast.Return(value=value):
                return f"return {self._code(value).text};\n" if value else "return;\n"
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                return self._assign(target, ast.BinOp(left=target, op=op, right=value))
            case ast.If(test=test, body=body, orelse=other):
                otherwise = f" else {{\n{self._block(other)}}}" if other else ""
                return f"if ({self._code(test).text}) {{\n{self._block(body)}}}{otherwise}\n"
            case ast.While(test=test, body=body):
                return f"while ({self._code(test).text}) {{\n{self._block(body)}}}\n"
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=args), body=body):
                first, last = (["0"] if len(args) == 1 else []) + [self._code(arg).text for arg in args]
                name = f"{name}{node.lineno}" if name == "_" else name
                self.kinds[name] = INT
                end = f"end{node.lineno}"
                head = f"for (let {end} = {last}, begin{node.lineno} = {name} = {first}; {name} < {end}; {name}++)"
                return f"{head} {{\n{self._block(body)}}}\n"
        raise self._refusal(node)

    def _block(self, nodes: Sequence[ast.stmt]) -> str:
        return "".join(self._statement(node) for node in nodes)

    def _assign(self, target: ast.expr, value: ast.expr) -> str:
        if isinstance(target, ast.Tuple):
            if isinstance(value, ast.Tuple):
                values = [self._code(element) for element in value.elts]
            else:  # game, province = wp.tid()
                values = [Code(f"tid[{number}]", INT) for number in range(len(target.elts))]
            names = [name.id for name in target.elts if isinstance(name, ast.Name)]
            self.kinds |= {name: code.kind for name, code in zip(names, values, strict=True) if name not in self.kinds}
            return f"[{', '.join(names)}] = [{', '.join(code.text for code in values)}];\n"
        code = self._code(value)
        if isinstance(target, ast.Name):
            self.kinds.setdefault(target.id, code.kind)
            return f"{target.id} = {code.text};\n"
        return f"{self._code(target).text} = {code.text};\n"

    # ---- expressions

    def _code(self, node: ast.expr) -> Code:
        match node:
            case ast.Constant(value=value):
                return self._constant(value, node)
            case ast.Name(id=name) if name in self.kinds:
                return Code(name, self.kinds[name])
            case ast.Name() | ast.Attribute(value=ast.Name(id="codes")):
                return self._constant(self._value(node), node)
            case ast.Attribute(value=value, attr=field):
                owner = self._code(value)
                return Code(f"{owner.text}.{field}", kind_of(owner.kind[1].vars[field].type))
            case ast.Subscript(value=ast.Attribute(value=value, attr="shape")):
                return Code(f"{self._code(value).text}.length", INT)
            case ast.Subscript(value=value, slice=index):
                return self._item(self._code(value), index)
            case ast.BoolOp(op=op, values=values):
                sign = " && " if isinstance(op, ast.And) else " || "
                return Code(f"({sign.join(self._code(operand).text for operand in values)})", BOOL)
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self._code(operand), node)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._either(test, body, other)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return Code(f"({self._code(left).text} {COMPARISONS[type(op)]} {self._code(right).text})", BOOL)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(self._code(left), OPERATORS[type(op)], self._code(right))
            case ast.Call(func=function, args=args):
                return self._call(node, function, args)
        raise self._refusal(node)

    def _constant(self, value: Any, node: ast.expr) -> Code:
        if isinstance(value, bool):
            return Code("true" if value else "false", BOOL)
        if isinstance(value, int | np.integer):
            return Code(f"({int(value)})" if value < 0 else str(int(value)), INT)
        if isinstance(value, float):
            return Code(repr(value), FLOAT)
        if isinstance(value, wp.uint32):
            return Code(str(value.value), U32)
        if hasattr(value, "_length_"):
            return Code(f"Float32Array.of({', '.join(repr(float(number)) for number in value)})", VECTOR)
        raise self._refusal(node)

    def _item(self, owner: Code, index: ast.expr) -> Code:
        places = [self._code(part).text for part in (index.elts if isinstance(index, ast.Tuple) else [index])]
        text = owner.text + "".join(f"[{index}]" for index in places)
        if owner.kind in (VECTOR, PAIR):
            return Code(text, FLOAT if owner.kind == VECTOR else INT)
        _, item, dimensions = owner.kind
        remaining = dimensions - len(places)
        return Code(text, ("array", item, remaining) if remaining else item)

    def _unary(self, op: ast.unaryop, value: Code, node: ast.expr) -> Code:
        match op, value.kind:
            case ast.Not(), _:
                return Code(f"!{value.text}", BOOL)
            case ast.USub(), _:
                return Code(f"(-{value.text})", value.kind)
            case ast.Invert(), "u64":
                return Code(f"cut(~{value.text})", U64)
            case ast.Invert(), "u32":
                return Code(f"(~{value.text} >>> 0)", U32)
        raise self._refusal(node)

    def _either(self, test: ast.expr, body: ast.expr, otherwise: ast.expr) -> Code:
        first, second = self._code(body), self._code(otherwise)
        return Code(f"({self._code(test).text} ? {first.text} : {second.text})", first.kind)

    def _binary(self, first: Code, sign: str, second: Code) -> Code:
        kinds = {first.kind, second.kind}
        plain = f"({first.text} {sign} {second.text})"
        if PAIR in kinds:
            return Code(f"{first.text}.map((x, i) => x {sign} {second.text}[i])", PAIR)
        if VECTOR in kinds:
            vector, other = (first, second) if first.kind == VECTOR else (second, first)
            return Code(f"each({vector.text}, {other.text}, OPERATIONS[{sign!r}])", VECTOR)
        if FLOAT in kinds:
            return Code(f"round{plain}", FLOAT)
        if U64 in kinds:
            return Code(plain if sign in "&|^>>" else f"cut{plain}", U64)
        if U32 in kinds:
            if sign == ">>":
                return Code(f"({first.text} >>> {second.text})", U32)
            return Code(f"(Math.imul({first.text}, {second.text}) >>> 0)" if sign == "*" else f"({plain} >>> 0)", U32)
        return Code(f"Math.trunc({first.text} / {second.text})" if sign == "//" else plain, INT)

    # ---- calls

    def _call(self, node: ast.Call, function: ast.expr, args: list[ast.expr]) -> Code:
        built_in = isinstance(function, ast.Attribute) and ast.unparse(function.value) == "wp"
        called: Any = None if built_in else self._value(function)
        if isinstance(function, ast.Attribute) and built_in:
            called = getattr(wp, function.attr, None)
        if not built_in and isinstance(getattr(called, "vars", None), dict):
            return self._struct(called)
        if isinstance(function, ast.Attribute):
            match function.attr:
                case "tid":
                    return Code("tid", INT)
                case "zeros":
                    return self._zeros(node)
                case "array":
                    return self._view(node)
        codes = [self._code(arg) for arg in args]
        texts = [code.text for code in codes]
        joined = ", ".join(texts)
        if not built_in and hasattr(called, "func"):
            self.calls.append(called)
            returned = inspect.get_annotations(called.func).get("return")
            kind = kind_of(self._value_in(returned, called.func.__globals__))
            return Code(f"{called.func.__name__}({joined})", kind)
        if called in SMALL or called in (int, bool, float, wp.uint32, wp.uint64):
            return _converted(codes[0], called)
        if isinstance(function, ast.Attribute):
            match function.attr:
                case "where":
                    return Code(f"({texts[0]} ? {texts[1]} : {texts[2]})", codes[1].kind)
                case "max" | "min" if codes[0].kind == VECTOR:
                    return Code(f"each({joined}, Math.{function.attr})", VECTOR)
                case "max" | "min" | "abs":
                    return Code(f"Math.{function.attr}({joined})", codes[0].kind)
                case "bit_count":
                    return Code(f"bits({joined})", INT)
                case "rand_init":
                    return Code(f"rand_init({joined})", U32)
                case "vec2i":
                    return Code(f"[{joined}]", PAIR)
                case "atomic_add":
                    return Code(f"({texts[0]}[{texts[1]}] += {texts[2]})", INT)
        if hasattr(called, "_length_"):
            return Code(f"filled({joined})", VECTOR)
        raise self._refusal(node)

    def _struct(self, struct: Any) -> Code:
        numbers = [name for name, variable in struct.vars.items() if kind_of(variable.type) == INT]
        return Code(f"{{ {', '.join(f'{name}: 0' for name in numbers)} }}", ("struct", struct))

    def _zeros(self, node: ast.Call) -> Code:
        arguments = {keyword.arg: self._value(keyword.value) for keyword in node.keywords}
        kind = kind_of(arguments["dtype"])
        return Code(f"zeros({kind!r}, {arguments['shape'][0]})", ("array", kind, 1))

    def _view(self, node: ast.Call) -> Code:
        """Return the array whose address is given, or an empty one."""
        pointer = next(keyword.value for keyword in node.keywords if keyword.arg == "ptr")
        assert isinstance(pointer, ast.Attribute)
        shape = next(self._value(keyword.value) for keyword in node.keywords if keyword.arg == "shape")
        source = self._code(pointer.value)
        return source if shape[0] else Code("[]", source.kind)

    def _value(self, node: Any) -> Any:
        """Return the value of a name, attribute or annotation of the function's module."""
        return self._value_in(node, self.known)

    def _value_in(self, node: Any, names: dict[str, Any]) -> Any:
        if not isinstance(node, str | ast.expr):
            return node
        text = node if isinstance(node, str) else ast.unparse(node)
        return eval(text, names)  # source of this package, not of a file that is read

    def _refusal(self, node: ast.AST) -> UntranslatableError:
        return UntranslatableError(f"{self.name}, line {getattr(node, 'lineno', '?')}: {ast.unparse(node)}")


def _converted(value: Code, kind: Any) -> Code:
    """Return a value as another scalar."""
    text = value.text
    if kind is wp.uint64:
        return Code(text if value.kind == U64 else f"BigInt({text})", U64)
    if kind is wp.uint32:
        return Code(text if value.kind == U32 else f"({text} >>> 0)", U32)
    if kind is float:
        return Code(text if value.kind == FLOAT else f"round({text})", FLOAT)
    if kind is bool:
        return Code(text, BOOL)
    if value.kind == U64:
        text = f"Number(BigInt.asIntN(32, {text}))"
    return Code(
        f"({(SMALL[wp.int32] if kind is int and value.kind == U32 else SMALL.get(kind, '{}')).format(text)})", INT
    )
