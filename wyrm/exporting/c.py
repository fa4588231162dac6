"""An export for C: a header, a reader and writer of its tensors, and an example."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from string import Template

import numpy as np

from wyrm.engines.native.products.target import Target
from wyrm.exporting.errors import FILE_ERRORS
from wyrm.exporting.interface import FunctionParameter, FunctionSignature, Interface, Role, Tensor
from wyrm.exporting.names import OPTIMIZER, PROGRAM, STATIC

_C_TYPES = {"float32": "float", "float64": "double", "bool": "uint8_t"}
# The names of types in safetensors files.
TYPES = {
    "float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL", "int8": "I8",
    "uint32": "U32", "uint64": "U64", "int16": "I16", "uint16": "U16", "float16": "F16",
}  # fmt: skip
# The version of the files, which a reader checks.
FORMAT = "1"
# The most columns of a line of a header.
_WIDTH = 110


def c_type(dtype: np.dtype) -> str:
    """Return the C type of an element."""
    return _C_TYPES.get(dtype.name, f"{dtype.name}_t")


def files(interface: Interface, target: Target, release: str) -> dict[str, str]:
    """Return the texts of the header, of the reader and writer, and of the example, by the names of their files."""
    name = interface.name
    common = {"name": name, "NAME": name.upper(), "header": f"{name}.h", "version": str(interface.version)}
    header = common | {
        "triple": target.triple,
        "release": release,
        "memory": str(interface.memory_bytes),
        "most": str(interface.most),
        **_errors(name, interface.errors),
        "tensor_count": str(len(interface.tensors)),
        "tensors": _tensors(interface),
        "symbol": interface.symbol(f"{name}_init"),
        "functions": "\n".join(prototype(each, interface) for each in interface.functions),
    }
    found = {f"{name}.h": _filled("model.h", header)}
    if interface.tensors:
        text = header_text(interface.tensors)
        values = common | _errors(name, FILE_ERRORS) | {"OPTIMIZER": OPTIMIZER, "PROGRAM": PROGRAM}
        found[f"{name}_file.h"] = _filled("model_file.h", values | {"format": FORMAT, "file_header": _quoted(text)})
    found["example.c"] = _example(interface, common, " -lcblas" if target.cblas else "")
    return found


def header_text(tensors: Sequence[Tensor]) -> str:
    """Return the header of a safetensors file with these tensors one after the other."""
    entries: dict[str, object] = {"__metadata__": {"wyrm": FORMAT}}
    start = 0
    for each in tensors:
        stop = start + each.bytes
        entries[each.name] = {
            "dtype": TYPES[each.dtype.name], "shape": list(each.shape), "data_offsets": [start, stop],
        }  # fmt: skip
        start = stop
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False)
    return text + " " * (-len(text.encode()) % 8)


def _filled(name: str, values: Mapping[str, str]) -> str:
    return Template((STATIC / name).read_text(encoding="utf-8")).substitute(values)


def _errors(name: str, errors: Mapping[str, tuple[int, str]]) -> dict[str, str]:
    """Return the constants and the messages of errors."""
    return {
        "codes": ",\n".join(f"    {name.upper()}_{key} = {code}" for key, (code, _) in errors.items()),
        "messages": "\n".join(
            f"    case {name.upper()}_{key}: return {_quoted(text)};" for key, (_, text) in errors.items()
        ),
    }


def _quoted(text: str) -> str:
    r"""Return a string of C, of ASCII alone, whose bytes are UTF-8.

    >>> print(_quoted('a"é?'))
    "a\"\303\251\077"
    """
    # A question mark may begin a trigraph.
    plain = (chr(each) if 32 <= each < 127 and chr(each) not in '\\"?' else f"\\{each:03o}" for each in text.encode())
    return '"' + "".join(plain).replace("\\042", '\\"') + '"'


def _tensors(interface: Interface) -> str:
    if not interface.tensors:
        return ""
    lines = []
    for each in interface.tensors:
        shape = ",".join(map(str, each.shape))
        texts = ", ".join(map(_quoted, (each.name, TYPES[each.dtype.name], shape)))
        lines.append(f"    {{{texts}, {each.offset}, {each.bytes}}},")
    name = interface.name
    head = f"static const {name}_tensor {name}_tensors[{name.upper()}_TENSOR_COUNT] = {{"
    return "\n".join([head, *lines, "};"])


def prototype(function: FunctionSignature, interface: Interface) -> str:
    """Return the declaration of a function with a comment."""
    lines, comment = list[str](), [function.comment]
    for each in function.parameters:
        text = _described(each, function, interface)
        if text:
            comment.append(f"  {each.name}: {text}")
    declared = [_declared(each) for each in function.parameters]
    lines.append(
        "/* " + "\n * ".join(comment) + " */" if len(comment) == 1 else "/* " + "\n * ".join(comment) + "\n */"
    )
    line = f"int32_t {interface.symbol(function.name)}("
    for position, own in enumerate(declared):
        piece = own + (", " if position < len(declared) - 1 else ");")
        if len(line) + len(piece) > _WIDTH:
            lines.append(line.rstrip())
            line = "    "
        line += piece
    return "\n".join([*lines, line, ""])


def _declared(parameter: FunctionParameter) -> str:
    name = parameter.name
    match parameter.role:
        case Role.MEMORY:
            return f"void *{name}"
        case Role.INPUT | Role.OFFSETS | Role.LIST:
            assert parameter.dtype is not None
            return f"const {c_type(parameter.dtype)} *{name}"
        case Role.OUTPUT:
            assert parameter.dtype is not None
            return f"{c_type(parameter.dtype)} *{name}"
        case Role.FLAG:
            return f"int32_t {name}"
        case Role.ORDER:
            return f"int64_t *{name}"
        case Role.RESULTS | Role.NUMBER | Role.PART | Role.FACTOR:
            return f"double *{name}" if parameter.role is Role.RESULTS else f"double {name}"
        case _:
            return f"int64_t {name}"


def _described(parameter: FunctionParameter, function: FunctionSignature, interface: Interface) -> str:
    match parameter.role:
        case Role.INPUT | Role.OUTPUT:
            counts = {each.role: each.name for each in function.parameters}
            rows = counts.get(Role.ROWS) or counts.get(Role.BATCH) or "rows"
            axes = [*([rows] if parameter.by_rows else [parameter.along] if parameter.along else [])]
            axes += map(str, parameter.shape)
            return f"({', '.join(axes)})" if axes else "one number"
        case Role.OFFSETS:
            rows = next((each.name for each in function.parameters if each.role in (Role.ROWS, Role.BATCH)), "")
            size = f"{rows} + 1" if parameter.by_rows else str(parameter.length)
            return f"({size}): the entries of row i are those from offset i on, and before offset i + 1"
        case Role.ENTRIES:
            trains = any(each.role is Role.RESULTS for each in function.parameters)
            return f"the number of entries of all rows, at most {parameter.length}{' in a batch' if trains else ''}"
        case Role.ORDER:
            return "room for `rows` numbers; the order of the rows afterwards"
        case Role.RESULTS:
            return f"room for {len(function.results)}: {', '.join(function.results)}"
        case Role.BATCH:
            if interface.listed:
                return f"{', '.join(map(str, interface.listed))}; the last batch of an epoch too"
            return f"{interface.least} to {interface.most}"
        case Role.SEED:
            return "0 or more"
        case Role.NUMBER:
            return "0 or more"
        case Role.COUNT:
            return "0, or 1 or more"
        case Role.PART:
            return "0 to 1"
        case Role.FACTOR:
            return "0, or above 0"
        case Role.LIST:
            return f"({parameter.name}s), or NULL"
        case _:
            return ""


# --- the example ------------------------------------------------------------------------------------------------------


def _example(interface: Interface, common: Mapping[str, str], libraries: str) -> str:
    name = interface.name
    calls = [
        _example_call(each, interface)
        for each in interface.functions
        if each.name not in (f"{name}_init", f"{name}_ready", f"{name}_set_learning_rate")
    ]
    values = dict(common) | {
        "calls": "".join(calls).rstrip("\n"),
        "compile": f"cc -O2 -o example example.c {name}.o -lm{libraries}",
        "arguments": "int count, char **arguments" if interface.tensors else "void",
        "path": f'    const char *path = count > 1 ? arguments[1] : "{name}.safetensors";\n'
        if interface.tensors
        else "",
        "load": f"{name}_load(memory, path)" if interface.tensors else f"{name}_ready(memory)",
        "file_header_name": f"{name}_file.h" if interface.tensors else f"{name}.h",
    }
    text = _filled("example.c", values)
    return text if interface.tensors else text.replace(f"{name}_file_message", f"{name}_message")


def _example_call(function: FunctionSignature, interface: Interface) -> str:
    """Return a block that calls a function with data of zeros."""
    rows = interface.listed[-1] if interface.listed else max(interface.least, min(interface.most, 4))
    most = {each.name: each.length for each in function.parameters if each.role is Role.ENTRIES}
    entries = {
        each.along: min(most[each.along], rows if each.by_rows else each.shape[0])
        for each in function.parameters if each.role is Role.OFFSETS
    }  # fmt: skip
    arrays, arguments, prints = list[str](), list[str](), list[str]()
    indent = " " * 8
    for each in function.parameters:
        length = each.length * (rows if each.by_rows else entries[each.along] if each.along else 1)
        match each.role:
            case Role.INPUT:
                assert each.dtype is not None
                arrays.append(f"{indent}static {c_type(each.dtype)} {each.name}[{max(1, length)}]; /* your data */")
                arguments.append(each.name)
            case Role.OUTPUT:
                assert each.dtype is not None
                arrays.append(f"{indent}static {c_type(each.dtype)} {each.name}[{max(1, length)}];")
                arguments.append(each.name)
                prints.append(f'{indent}printf("{each.name}: %g ...\\n", (double){each.name}[0]);')
            case Role.OFFSETS:  # one entry in each of the first rows
                places = (min(i, entries[each.along]) for i in range(1 + (rows if each.by_rows else each.shape[0])))
                arrays.append(f"{indent}static int64_t {each.name}[] = {{{', '.join(map(str, places))}}};")
                arguments.append(each.name)
            case Role.ENTRIES:
                arguments.append(str(entries[each.name]))
            case Role.ORDER:
                arrays.append(f"{indent}static int64_t order[{rows}];")
                arguments.append("order")
            case Role.RESULTS:
                arrays.append(f"{indent}double results[{max(1, len(function.results))}];")
                arguments.append("results")
                prints += [
                    f'{indent}printf("{function.name}: {text} %g\\n", results[{i}]);'
                    for i, text in enumerate(function.results)
                ]
            case Role.MEMORY:
                arguments.append("memory")
            case Role.FLAG:
                arguments.append("1")
            case Role.LIST:
                arguments.append("NULL")
            case Role.SEED | Role.TOKEN | Role.COUNT | Role.NUMBER | Role.PART | Role.FACTOR | Role.LISTED:
                arguments.append("0")
            case _:
                arguments.append(str(rows))
    values = {
        "arrays": "\n".join(arrays), "function": function.name, "arguments": ", ".join(arguments),
        "prints": "\n".join(prints),
    }  # fmt: skip
    return _filled("example_call.c", values)
