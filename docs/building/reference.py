"""The pages of the reference, written before Sphinx reads them: every public name once, users' names first."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import wyrm as wy
import wyrm.engines
from building.contents import CONTENTS, Page
from building.docstrings import markdown_of
from building.signatures import shortened, signature_of, statements_of, text_of, tree_of
from wyrm.support.foreign_names import ForeignName

# Functions with the names of builtins, which `import *` must not hide.
_BUILTINS = tuple(name for name in dir(wy) if not name.startswith("_") and name not in wy.__all__)


class Name(NamedTuple):
    """A public name: its module, and what it is."""

    module: str
    name: str

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def value(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)


def public_modules() -> list[ModuleType]:
    """Return `wyrm` and the modules that it exports, recursively, with those that `*` leaves out."""
    modules: list[ModuleType] = [wy, wy.jax, wy.numba, wyrm.engines]
    for module in modules:
        members = [getattr(module, name) for name in module.__all__]
        modules += [member for member in members if isinstance(member, ModuleType) and member not in modules]
    return modules


def public_names() -> list[Name]:
    """Return every public name that is no module, where it is exported first, in the order of the modules."""
    found: list[Name] = []
    seen: set[int] = set()
    for module in public_modules():
        for name in [*module.__all__, *(_BUILTINS if module is wy else ())]:
            value = getattr(module, name)
            if isinstance(value, ModuleType) or (module is wy and name in ("WyrmError",)):
                continue
            if module.__name__ == "wyrm.linalg" and name == "LinAlgError":
                continue  # it stands with the other errors
            if callable(value) and not inspect.isfunction(value) and id(value) in seen:
                continue
            seen.add(id(value))
            found.append(Name(module.__name__, name))
    return found


class Reference:
    """The pages, with what each holds."""

    def __init__(self) -> None:
        self.names = public_names()
        self.full = {each.full for each in self.names}
        self.aliases = self._aliases()

    def _aliases(self) -> dict[int, Name]:
        """Return the first name of each function and class that has several."""
        found: dict[int, Name] = {}
        for each in self.names:
            if inspect.isfunction(each.value) or inspect.isclass(each.value):
                found.setdefault(id(each.value), each)
        return found

    @cached_property
    def by_page(self) -> dict[Page, list[Name]]:
        """The names of each page; a name that no page takes stands at the end of the first one of its module."""
        found: dict[Page, list[Name]] = {page: [] for page in CONTENTS}
        for each in self.names:
            pages = [page for page in CONTENTS if page.takes(each.module, each.name, _origin(each))]
            others = (page for page in CONTENTS if page.module == each.module)
            found[pages[0] if pages else next(others)].append(each)
        for page, names in found.items():
            names.sort(key=lambda each: page.place(each.module, each.name, _origin(each)))
        return found

    def link(self, module: str, owner: str, text: str) -> str | None:
        """Return the full name that a name in a docstring stands for."""
        full = text.startswith(("wy.", "wyrm."))
        text = text.removeprefix("wy.").removeprefix("wyrm.")
        if not full and text in _own_names(module, owner):
            return None
        candidates = [f"{module}.{text}", f"wyrm.{text}", f"wyrm.errors.{text}", f"wyrm.nn.{text}"]
        return next((each for each in candidates if each in self.full and each != f"{module}.{owner}"), None)

    def write(self, folder: Path) -> None:
        """Write the pages, and the list of them; files that say the same already keep their time."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {folder / f"{page.file}.md": self.text(page) for page in CONTENTS}
        for path in folder.glob("*.md"):
            if path not in texts:
                path.unlink()
        listed = "\n".join(page.file for page in CONTENTS)
        texts[folder / "index.md"] = f"# Names by topic\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
        for path, text in texts.items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")

    def text(self, page: Page) -> str:
        """Return the Markdown of a page."""
        parts = [f"# {page.title}", page.lead(partial(self.link, page.module, ""))]
        group = ""
        for name in self.by_page[page]:
            heading = page.heading(name.module, name.name, _origin(name))
            if heading != group:
                parts.append(f"## {heading}")
                group = heading
            parts.append(self.entry(name))
        if page.file == "node-methods":
            parts += self.methods_of_nodes()
        return "\n\n".join(part for part in parts if part) + "\n"

    def entry(self, name: Name) -> str:
        """Return the description of a name."""
        value, link = name.value, partial(self.link, name.module, name.name)
        first = self.aliases.get(id(value), name)
        if first != name:
            return _block("py:function", f"{name.full}{_signature(value)}", f"The same as {{py:obj}}`{first.full}`.", 4)
        if inspect.isclass(value):
            return self.class_entry(name, value, link)
        if inspect.isroutine(value) or hasattr(value, "__wrapped__"):
            return _block("py:function", f"{name.full}{_signature(value)}", markdown_of(value.__doc__, link), 4)
        if isinstance(value, wy.nn.Module):
            text = markdown_of(type(value).__doc__, link) if "method" not in vars(value) else _of_activation(value)
            return _block("py:function", f"{name.full}(x)", text, 4)
        return _block("py:data", name.full, markdown_of(_doc_of_data(name), link), 4)

    def class_entry(self, name: Name, cls: type, link: Callable[[str], str | None]) -> str:
        """Return the description of a class, with its call, methods and properties."""
        bases = self.described_bases(cls)
        text = [f"Base: {{py:obj}}`{self.aliases[id(bases[0])].full}`"] if bases else []
        text.append(markdown_of(_own_doc(cls), link))
        text += self.members(name, cls, link)
        return _block("py:class", f"{name.full}{_class_signature(cls)}", "\n\n".join(each for each in text if each), 5)

    def described_bases(self, cls: type) -> list[type]:
        """Return the bases of a class that have a description of their own, the nearest one first."""
        return [base for base in cls.__mro__[1:] if id(base) in self.aliases]

    def members(self, name: Name, cls: type, link: Callable[[str], str | None]) -> Iterator[str]:
        """Yield the descriptions of the members that no other documented class has."""
        seen: set[str] = set()
        documented = self.described_bases(cls)
        private_bases = [cls] + [
            base
            for base in cls.__mro__[1:]
            if base.__module__.startswith("wyrm") and not any(issubclass(known, base) for known in documented)
        ]
        found: dict[str, tuple[type, Any]] = {}
        for base in private_bases:
            for key, value in vars(base).items():
                if key not in found and (not key.startswith("_") or key == "__call__"):
                    found[key] = (base, value)
        for key, (base, value) in sorted(found.items(), key=lambda item: item[0] != "__call__"):
            if key in seen or isinstance(value, ForeignName) or _is_late(base, key, value):
                continue
            seen.add(key)
            if isinstance(value, property | cached_property):
                doc = value.__doc__
                yield _block("py:property", f"{key}", markdown_of(doc, link), 4) if doc else ""
            elif isinstance(value, staticmethod | classmethod) or inspect.isfunction(value):
                function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                if not function.__doc__ and not any(getattr(known, key, None) for known in documented):
                    continue
                if not function.__doc__:
                    continue
                yield _block("py:method", f"{key}{_signature(function, cls)}", markdown_of(function.__doc__, link), 4)

    def methods_of_nodes(self) -> list[str]:
        """Return a table of the methods that are functions too, and descriptions of those that are not."""
        rows, own = ["| method | as a function |", "| --- | --- |"], []
        module = "wyrm.graph.methods"
        for key in _stub_names():
            statements = statements_of(module, f"Node.{key}")
            member = inspect.getattr_static(wy.Node, key, None)
            if not statements or member is None:
                continue
            bound = getattr(wy.Node, key)
            if not inspect.isfunction(bound):
                continue
            signature = f"{key}{signature_of(bound, wy.Node, statements, bound=True)}"
            if f"wyrm.{key}" in self.full:
                call = f"x.{signature}".partition(" ->")[0].replace("|", "\\|")
                rows.append(f"| `{call}` | {{py:obj}}`wyrm.{key}` |")
            else:
                text = markdown_of(bound.__doc__, partial(self.link, "wyrm", key))
                own.append(_block("py:method", f"wyrm.Node.{signature}", text, 4))
        return ["## Methods that are no functions", *own, "## Methods that are functions too", "\n".join(rows)]


@cache
def _own_names(module: str, owner: str) -> frozenset[str]:
    """Return the names of a description's own parameters and members, which are no links."""
    value = getattr(importlib.import_module(module), owner, None) if owner else None
    found = set(dir(value)) if inspect.isclass(value) else set()
    for each in (value, *(vars(value).values() if inspect.isclass(value) else ())):
        if inspect.isfunction(each):
            found |= set(inspect.signature(each).parameters)
    return frozenset(found | {owner})


@cache
def _stub_names() -> list[str]:
    (node,) = (
        each for each in tree_of("wyrm.graph.methods").body if isinstance(each, ast.ClassDef) and each.name == "Node"
    )
    return sorted(
        {each.name for each in node.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")}
    )


def _is_late(base: type, key: str, value: Any) -> bool:
    """Return whether an op binds this member of `Node`; those have a page of their own."""
    return base.__module__.startswith("wyrm.graph") and (type(value).__name__ == "Late" or key in _stub_names())


def _origin(name: Name) -> str:
    return str(getattr(name.value, "__module__", "") or "")


def _own_doc(cls: type) -> str:
    """Return the docstring of a class, unless Python wrote it."""
    doc = cls.__doc__ or ""
    return "" if doc.startswith(f"{cls.__name__}(") else doc


def _doc_of_data(name: Name) -> str:
    """Return what stands in the comment above a value, or in its class."""
    value = name.value
    module = importlib.import_module(name.module)
    source = inspect.getsource(module)
    found = re.search(rf"((?:^# .*\n)+)^{name.name}\b", source, re.MULTILINE)
    if found:
        return re.sub(r"^# ", "", found[1], flags=re.MULTILINE)
    return getattr(type(value), "__doc__", "") or ""


def _of_activation(value: Any) -> str:
    options = "".join(f", {key}={option!r}" for key, option in value.options.items())
    return f"The activation `x.{value.method}({options[2:]})` as a module, for composition with `>>`."


def _signature(function: Any, owner: Any = None) -> str:
    try:
        return signature_of(function, owner)
    except (ValueError, TypeError):
        return "()"


def _class_signature(cls: type) -> str:
    """Return the signature of a class, that of `__init__` or `__new__`."""
    if issubclass(cls, BaseException) or not hasattr(cls, "__init__"):
        return ""
    initial: Any = cls.__init__
    if not inspect.isfunction(initial):
        initial = cls.__new__
        if not inspect.isfunction(initial) or not issubclass(cls, tuple):
            return ""
        # It is a named tuple, which mypy does not know.
        return f"({', '.join(_field(cls, field) for field in cls._fields)})"  # type: ignore[attr-defined]
    if initial.__module__ in ("typing", "abc") or getattr(cls, "_is_protocol", False):
        return ""
    return signature_of(initial, cls).partition(" ->")[0]


def _field(cls: type, name: str) -> str:
    """Return a field of a named tuple, with its type."""
    annotation = next(
        (vars(base)["__annotations__"][name] for base in cls.__mro__ if name in vars(base).get("__annotations__", ())),
        "",
    )
    text = shortened([text_of(annotation)]) if annotation else ""
    return f"{name}: {text}" if text else name


def _block(directive: str, argument: str, text: str, fence: int) -> str:
    """Return a directive with a text in it."""
    ticks = "`" * fence
    return f"{ticks}{{{directive}}} {argument}\n{text}\n{ticks}"


def write_reference(folder: Path) -> None:
    """Write all pages to a folder."""
    Reference().write(folder)


def pages() -> Iterable[str]:
    """Return the names of the files."""
    return [page.file for page in CONTENTS]
