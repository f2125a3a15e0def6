"""Gate: packages take from each other only what is public.

Public are the names in the ``__all__`` of a package's own ``__init__.py`` (``lab_core``) and of its folders
(``lab_core.scene``), and the modules that lie beside them (``lab_core.errors``) with the names that they define and
that begin with no underscore. All below that (``lab_core.scene.articulation``) belongs to the package alone: export the
name, or do without it. The gate reads import statements of packages, of their tests and of scripts; a test of
``lab_warp`` is code of ``lab_warp``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import workspace


@cache
def module_file(module: str) -> Path | None:
    """The file of a module of the workspace, an ``__init__.py`` where it is a folder."""
    base = workspace.package_dir(module.partition(".")[0]).joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


@cache
def exported(path: Path) -> frozenset[str] | None:
    """The names in a file's ``__all__``, None where it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return frozenset(ast.literal_eval(node.value))
    return None


def problem(module: str, name: str | None) -> str | None:
    """Why another package may not ``from module import name`` (``import module`` where ``name`` is None), or None."""
    path = module_file(module)
    parts = module.split(".")
    if path is None:
        return None  # no module of this workspace: the type checker's business
    if len(parts) > 2 or parts[-1].startswith("_"):
        public = ".".join(parts[: 1 if parts[1].startswith("_") else 2])
        return f"{module} lies inside of {parts[0]}; import from {public} what its __all__ names"
    if name is None or name == "*":
        return None
    if path.name == "__init__.py" and module_file(f"{module}.{name}"):
        return problem(f"{module}.{name}", None)
    if name in (exported(path) or ()) or name.startswith("__"):
        return None
    if path.name == "__init__.py":
        return f"the __all__ of {module} does not name {name}"
    return f"{module} keeps {name} to itself" if name.startswith("_") else None


def imports(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Line, module and name of each absolute import in a Python file, also those inside of functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)


def sources() -> Iterator[tuple[str | None, Path]]:
    """Each Python file with the package that it belongs to, None for scripts."""
    for package in workspace.packages():
        for path in sorted(workspace.package_dir(package).rglob("*.py")):
            yield package, path
    for path in sorted((workspace.ROOT / "scripts").rglob("*.py")):
        yield None, path


def problems() -> Iterator[str]:
    packages = set(workspace.packages())
    for owner, path in sources():
        for line, module, name in imports(path):
            package = module.partition(".")[0]
            if package in packages and package != owner and (found := problem(module, name)):
                yield f"{path.relative_to(workspace.ROOT)}:{line}: {found}"


def main() -> int:
    found = list(problems())
    print("\n".join(found) or "Public imports: packages take from each other only what is public.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
