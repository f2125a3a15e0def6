"""Exact text form of any configuration: YAML with tags for what plain YAML lacks.

    !cfg:module:Class {field: value}    a dataclass             !tuple [1, 2]       a tuple
    !ref module:qualname                a function or class     !slice [0, 2, null] a slice
    !enum module:Class.NAME             an enum member          !dtype float32      a torch dtype
    !path runs/a                        a pathlib.Path          !missing            ``MISSING``

Scalars follow the YAML 1.2 core schema, so that ``1e-3`` is a number and ``on`` a string. A file names code to import,
as a script does; :mod:`lab_core.trust` says how files of others are read.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from lab_core.config.annotations import field_names, is_dataclass_instance
from lab_core.config.missing import MISSING, join
from lab_core.config.references import check_text, reference_to, resolve_reference
from lab_core.errors import ConfigError, UnknownFieldError, unknown_name_message

_CORE_SCHEMA = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}


class _Dumper(yaml.SafeDumper):
    """Keeps the YAML 1.1 resolvers too: a string that either version would misread is quoted."""

    event: Any

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        if "\x85" in scalar:
            # YAML 1.1 breaks lines at this one too. Only double quotes escape it; elsewhere it comes back as a newline.
            analysis.allow_flow_plain = analysis.allow_block_plain = False
            analysis.allow_single_quoted = analysis.allow_block = False
        return analysis

    def choose_scalar_style(self) -> str:
        if self.event.implicit != (False, False):
            return super().choose_scalar_style()
        # PyYAML quotes whatever has a tag; `!ref module:name` reads better plain, where plain is possible.
        self.event.implicit = (True, True)
        style = super().choose_scalar_style()
        self.event.implicit = (False, False)
        return style


_REPRESENTER = yaml.representer.SafeRepresenter()


def dump_yaml(cfg: object) -> str:
    """``cfg`` as YAML text that ``load_yaml`` turns into an equal object.

    Raises ``ConfigError`` naming the dotted path of a value that has no text form (a lambda, an array, ...).
    """
    try:
        node = _to_node(cfg, "")
    except RecursionError:
        raise ConfigError(f"{type(cfg).__name__} contains itself and cannot be written to YAML") from None
    return yaml.serialize(node, Dumper=_Dumper, allow_unicode=True, width=120)


def save_yaml(cfg: object, path: str | os.PathLike[str]) -> None:
    """Write ``dump_yaml(cfg)`` to ``path``; a reader sees the old file or the new one, never a part."""
    path = Path(path)
    text = dump_yaml(cfg)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def load_yaml(source: str | os.PathLike[str]) -> Any:
    """The object written in ``source``: a path, a ``str`` that ends in ``.yaml`` or ``.yml``, or YAML text.

    Raises ``ConfigError`` with file, line and dotted path: broken YAML, unknown tags or fields, classes and functions
    that no longer exist, repeated keys.
    """
    if isinstance(source, os.PathLike) or source.endswith((".yaml", ".yml")):
        name = os.fspath(source)
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name}: cannot read the file: {error}") from error
        return parse_yaml(text, name)
    return parse_yaml(source, "<text>")


def parse_yaml(text: str, name: str) -> Any:
    """Like ``load_yaml`` for YAML ``text``; ``name`` says in errors where it came from."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{mark.line + 1}:" if mark else ""
        raise ConfigError(f"{name}:{line} broken YAML: {getattr(error, 'problem', None) or error}") from error
    if node is None:
        raise ConfigError(f"{name}: the file is empty")
    try:
        return _Reader(name).value(node, "")
    except RecursionError:
        raise ConfigError(f"{name}: an anchor contains itself") from None


def config_hash(cfg: object) -> str:
    """SHA-256 of ``dump_yaml(cfg)``, in hexadecimal: equal for equal configs, in every process."""
    return hashlib.sha256(dump_yaml(cfg).encode()).hexdigest()


# Writing


def _to_node(value: Any, path: str) -> yaml.Node:
    """Nodes are built here, not by PyYAML's representers, so that an error knows its path and nothing is aliased."""
    if value is MISSING:
        return yaml.ScalarNode("!missing", "")
    if isinstance(value, enum.Enum):
        return _scalar("!enum", f"{_named(type(value), path)}.{value.name}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return _plain_node(value, path)
    if isinstance(value, list):
        return _sequence("tag:yaml.org,2002:seq", value, path)
    if isinstance(value, tuple):
        return _sequence("!tuple", value, path)
    if isinstance(value, slice):
        return _sequence("!slice", (value.start, value.stop, value.step), path)
    if isinstance(value, dict):
        return _mapping("tag:yaml.org,2002:map", value, path)
    if is_dataclass_instance(value):
        fields = {name: getattr(value, name) for name in field_names(type(value))}
        return _mapping(f"!cfg:{_named(type(value), path)}", fields, path)
    if isinstance(value, Path):
        return _scalar("!path", str(value))
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return _scalar("!dtype", str(value).removeprefix("torch."))
    if callable(value):
        return _scalar("!ref", _named(value, path))
    raise ConfigError(f"{path or 'the configuration'}: a {_type_name(value)} cannot be written to YAML")


def _plain_node(value: Any, path: str) -> yaml.Node:
    if type(value) not in (type(None), bool, int, float, str):  # e.g. numpy.float64, a str subclass
        plain = next(base for base in (bool, int, float, str) if isinstance(value, base)).__name__
        raise ConfigError(f"{path or 'the configuration'}: {_type_name(value)} is not written to YAML; use {plain}()")
    return _REPRESENTER.represent_data(value)


def _scalar(tag: str, text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode(tag, text)


def _sequence(tag: str, values: Any, path: str) -> yaml.SequenceNode:
    nodes = [_to_node(value, join(path, index)) for index, value in enumerate(values)]
    return yaml.SequenceNode(tag, nodes, flow_style=not any(isinstance(node, yaml.MappingNode) for node in nodes))


def _mapping(tag: str, values: dict[Any, Any], path: str) -> yaml.MappingNode:
    pairs = []
    for key, value in values.items():
        child_path = join(path, str(key))
        if key is not None and not isinstance(key, (bool, int, float, str)):
            raise ConfigError(f"{child_path}: a {_type_name(key)} cannot be a key in YAML; use a string")
        pairs.append((_plain_node(key, child_path), _to_node(value, child_path)))
    return yaml.MappingNode(tag, pairs, flow_style=not pairs)


def _named(obj: Any, path: str) -> str:
    try:
        return reference_to(obj)
    except ConfigError as error:
        raise ConfigError(f"{path or 'the configuration'}: {error}") from None


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


# Reading


class _Reader:
    """Turns nodes into values; every call makes fresh objects, also where the text uses an anchor twice."""

    def __init__(self, name: str):
        self._name = name
        self._tags: dict[str, Callable[[yaml.Node, str], Any]] = {
            "!missing": lambda node, path: MISSING,
            "!ref": lambda node, path: self._resolve(self._text(node, path), node, path),
            "!enum": self._enum,
            "!path": lambda node, path: Path(self._text(node, path)),
            "!dtype": self._dtype,
            "!tuple": lambda node, path: tuple(self._items(node, path)),
            "!slice": self._slice,
            "tag:yaml.org,2002:seq": self._items,
            "tag:yaml.org,2002:map": self._entries,
            "tag:yaml.org,2002:str": self._string,
            "tag:yaml.org,2002:null": lambda node, path: None,
            "tag:yaml.org,2002:bool": lambda node, path: self._text(node, path).lower() == "true",
            "tag:yaml.org,2002:int": self._int,
            "tag:yaml.org,2002:float": self._float,
        }

    def value(self, node: yaml.Node, path: str) -> Any:
        if node.tag.startswith("!cfg:"):
            return self._dataclass(node, path)
        if node.tag not in self._tags:
            ours = ["!cfg:module:Class", *(tag for tag in self._tags if tag.startswith("!"))]
            raise self._error(node, path, unknown_name_message("tag", node.tag, ours))
        return self._tags[node.tag](node, path)

    def _dataclass(self, node: yaml.Node, path: str) -> Any:
        reference = node.tag.removeprefix("!cfg:")
        cls = self._resolve(reference, node, path)
        if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
            raise self._error(node, path, f"{reference} is no dataclass")
        values = self._entries(node, path)
        names = field_names(cls)
        for key_node, _ in node.value:
            if key_node.value not in names:
                message = unknown_name_message(f"field of {cls.__name__}", key_node.value, names)
                raise self._error(key_node, join(path, key_node.value), message, UnknownFieldError)
        try:
            return cls(**values)
        except Exception as error:
            raise self._error(node, path, f"{cls.__name__} refuses its values: {error}") from error

    def _entries(self, node: yaml.Node, path: str) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, path, "expected a mapping of names to values")
        entries: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, path, "a key must be a single value")
            key = self.value(key_node, path)
            if key in entries:
                raise self._error(key_node, join(path, str(key)), "the key is given twice")
            entries[key] = self.value(value_node, join(path, str(key)))
        return entries

    def _items(self, node: yaml.Node, path: str) -> list[Any]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, path, "expected a list")
        return [self.value(child, join(path, index)) for index, child in enumerate(node.value)]

    def _text(self, node: yaml.Node, path: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, path, f"expected one value after {node.tag}")
        return node.value

    def _string(self, node: yaml.Node, path: str) -> str:
        text = self._text(node, path)
        try:
            check_text(text)  # a setting may be the name of code to import later
        except ConfigError as error:
            raise self._error(node, path, str(error)) from None
        return text

    def _int(self, node: yaml.Node, path: str) -> int:
        text = self._text(node, path)
        try:
            return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
        except ValueError:
            raise self._error(node, path, f"{text!r} is no integer") from None

    def _float(self, node: yaml.Node, path: str) -> float:
        text = self._text(node, path)
        try:
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            raise self._error(node, path, f"{text!r} is no number") from None

    def _slice(self, node: yaml.Node, path: str) -> slice:
        bounds = self._items(node, path)
        if len(bounds) != 3:
            raise self._error(node, path, f"expected [start, stop, step], got {len(bounds)} values")
        return slice(*bounds)

    def _enum(self, node: yaml.Node, path: str) -> enum.Enum:
        reference, _, member = self._text(node, path).rpartition(".")
        cls = self._resolve(reference, node, path)
        if not (isinstance(cls, type) and issubclass(cls, enum.Enum)):
            raise self._error(node, path, f"{reference} is no enum")
        if member not in cls.__members__:
            raise self._error(node, path, unknown_name_message(cls.__name__, member, cls.__members__))
        return cls[member]

    def _dtype(self, node: yaml.Node, path: str) -> Any:
        import torch

        name = self._text(node, path)
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            names = [key for key, value in vars(torch).items() if isinstance(value, torch.dtype)]
            raise self._error(node, path, unknown_name_message("torch dtype", name, names))
        return dtype

    def _resolve(self, reference: str, node: yaml.Node, path: str) -> Any:
        try:
            found = resolve_reference(reference)
        except ConfigError as error:
            raise self._error(node, path, str(error)) from error
        if not (inspect.isroutine(found) or isinstance(found, type)):
            raise self._error(node, path, f"{reference} is neither a function nor a class")
        return found

    def _error(self, node: yaml.Node, path: str, message: str, cls: type[ConfigError] = ConfigError) -> ConfigError:
        where = f"{self._name}:{node.start_mark.line + 1}:"
        return cls(f"{where} {path}: {message}" if path else f"{where} {message}")


for _tag, (_pattern, _first) in _CORE_SCHEMA.items():
    for _yaml_class in (_Loader, _Dumper):
        _yaml_class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}",
            re.compile(rf"(?:{_pattern})\Z"),
            [*_first, *([""] if _tag == "null" else [])],
        )
