from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lab_core
from lab_core.agents import PPOCfg


def test_fields_are_given_by_keyword():
    with pytest.raises(TypeError):
        PPOCfg(7)  # pyright: ignore[reportCallIssue]
    assert PPOCfg(gamma=0.9).gamma == 0.9


def test_two_configs_share_no_mutable_value():
    first, second = PPOCfg(), PPOCfg()
    first.obs_groups["critic"] = ("policy", "privileged")  # pyright: ignore[reportIndexIssue]
    assert second.obs_groups["critic"] == ("policy",)


def unexplained_numbers(source: str) -> list[str]:
    """Numbers of configuration classes that neither a text of their own nor that of their class explains."""
    found = []
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    for cls in (cls for cls in classes if cls.name.endswith("Cfg")):
        for field, following in zip(cls.body, [*cls.body[1:], None], strict=True):
            if not isinstance(field, ast.AnnAssign) or "float" not in ast.unparse(field.annotation):
                continue
            name = ast.unparse(field.target)
            has_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if not has_text and name not in (ast.get_docstring(cls) or ""):
                found.append(f"{cls.name}.{name}")
    return found


def test_every_number_of_a_configuration_is_explained():
    """The command line's help shows these texts."""
    assert unexplained_numbers("class ACfg:\n    a: float\n    b: float = 1.0\n    'Of b [m].'") == ["ACfg.a"]
    (package,) = lab_core.__path__
    sources = {path: path.read_text() for path in Path(package).rglob("*.py")}
    assert {str(path): found for path, text in sources.items() if (found := unexplained_numbers(text))} == {}
