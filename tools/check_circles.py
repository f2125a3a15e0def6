"""Fail if modules, or the folders of a package, import each other in a circle.

    python tools/check_circles.py

A name counts as imported from the module that defines it, not from the package that passes it on. At run time (imports
inside functions too) no circle is allowed, neither between modules nor between folders. With the imports for type
checking alone, at most ``TYPE_PAIRS`` pairs of modules, and of folders, may name each other.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import workspace

TYPE_PAIRS = 2

Graph = Mapping[str, set[str]]


@dataclass
class Module:
    """A module of a source tree and what it imports: (module, name or "") and whether only for type checking."""

    name: str
    path: Path
    imports: list[tuple[str, str, bool]] = field(default_factory=list)
    exports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name -> where it comes from, for names imported at the top."""

    def __post_init__(self) -> None:
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        self._read(tree.body, for_types=False, is_top=True)

    def _read(self, body: Iterable[ast.AST], for_types: bool, is_top: bool) -> None:
        for node in body:
            if isinstance(node, ast.Import):
                self.imports += [(alias.name, "", for_types) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.imports.append((node.module, alias.name, for_types))
                    if is_top:
                        self.exports[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                self._read(node.body, for_types=True, is_top=is_top)
                self._read(node.orelse, for_types, is_top)
            else:
                self._read(ast.iter_child_nodes(node), for_types, is_top=False)


class Tree:
    """The modules below some packages, and who imports whom."""

    def __init__(self, packages: Mapping[str, Path]) -> None:
        """
        Args:
            packages: Import name -> folder.
        """
        self._modules: dict[str, Module] = {}
        self._folders: dict[str, str] = {}
        for package, folder in packages.items():
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                name = ".".join([package, *parts]).removesuffix(".__init__")
                self._modules[name] = Module(name, path)
                self._folders[name] = ".".join([package, *parts[:1]]).removesuffix(".__init__")

    def modules(self, with_types: bool) -> Graph:
        """Returns module -> modules that it imports."""
        graph: dict[str, set[str]] = {name: set() for name in self._modules}
        for module in self._modules.values():
            for source, name, for_types in module.imports:
                target = self._origin(source, name)
                if target and target != module.name and (with_types or not for_types):
                    graph[module.name].add(target)
        return graph

    def folders(self, with_types: bool) -> Graph:
        """Returns folder (or module) at the top of a package -> those that it imports."""
        graph: dict[str, set[str]] = defaultdict(set)
        for module, targets in self.modules(with_types).items():
            folder = self._folders[module]
            graph[folder] |= {self._folders[target] for target in targets} - {folder}
        return graph

    def _origin(self, module: str, name: str) -> str | None:
        """The module that a name comes from."""
        if f"{module}.{name}" in self._modules:
            return f"{module}.{name}"
        if module not in self._modules:
            return None
        origin = self._modules[module].exports.get(name)
        return (origin and self._origin(*origin)) or module


def circles(graph: Graph) -> list[list[str]]:
    """Returns the sets of two or more nodes that reach each other, largest first."""
    reached = {node: _reachable(graph, node) for node in graph}
    found = {frozenset(other for other in reached[node] if node in reached.get(other, ())) for node in graph}
    return sorted((sorted(circle) for circle in found if len(circle) > 1), key=lambda circle: (-len(circle), circle))


def _reachable(graph: Graph, start: str) -> set[str]:
    reached: set[str] = set()
    pending = [start]
    while pending:
        for target in graph.get(pending.pop(), ()):
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def problems(tree: Tree) -> Iterator[str]:
    """Yields a sentence for each circle that is not allowed."""
    for kind, graph in (("modules", tree.modules), ("folders", tree.folders)):
        for circle in circles(graph(with_types=False)):
            yield f"{kind} import each other at run time: {', '.join(circle)}"
        by_type = circles(graph(with_types=True))
        for circle in by_type:
            if len(circle) > 2:
                yield f"{len(circle)} {kind} name each other, counting types: {', '.join(circle)}"
        pairs = [" <-> ".join(circle) for circle in by_type if len(circle) == 2]
        if len(pairs) > TYPE_PAIRS:
            yield f"{len(pairs)} pairs of {kind} name each other, counting types: {', '.join(pairs)}"


def main() -> int:
    tree = Tree({package: workspace.package_dir(package) / package for package in workspace.packages()})
    found = list(problems(tree))
    for problem in found:
        print(problem)
    print("Circles found." if found else "No circles.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
