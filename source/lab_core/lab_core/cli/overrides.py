"""Command-line options for every field of nested configurations, on top of tyro."""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import textwrap
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from lab_core.config.annotations import (
    allows_none,
    coerce,
    describe,
    entry_type,
    field_names,
    is_dataclass_instance,
    is_form_of,
    options,
)
from lab_core.config.missing import MISSING
from lab_core.config.yaml_files import parse_yaml
from lab_core.errors import ConfigError

Args = TypeVar("Args")


def parse(default_args: Args, argv: Sequence[str], prog: str, description: str) -> Args:
    """A copy of dataclass ``default_args`` changed by the options in ``argv``.

    Every field of every nested config has an option, in ``-`` or ``_`` spelling: ``--env.scene.num-envs 64``,
    ``--env.rewards.alive.weight 2.0``, ``--env.scene.gravity 0 0 -1.6``, ``--env.terrain.parts.0.size 8``. ``None``
    switches off a term or another optional part: ``--env.rewards.alive None``; an option of a part that is ``None``
    switches it on with its defaults: ``--agent.recurrent.type gru``. What has no simple declared type
    (functions, parts that are ``None``), and entries of ``params``, are read as YAML, functions and classes as
    ``module:name``.

    A wrong option or value ends the process with exit code 2 and a message that names the nearest options; ``--help``
    prints all of them and ends it with 0.
    """
    args, argv = _switch_off_parts(copy.deepcopy(default_args), list(argv))
    for argument in argv:
        if argument.startswith("--") and "." in argument:
            _switch_on(args, argument.partition("=")[0])
    registry = ConstructorRegistry()
    registry.struct_rule(_Options().of)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # tyro's remarks on defaults are for developers
        return tyro.cli(
            type(args),
            prog=prog,
            description=_shown_text(description),
            args=argv,
            default=args,
            registry=registry,
            config=(tyro.conf.AvoidSubcommands,),
        )


def _switch_off_parts(args: Args, argv: list[str]) -> tuple[Args, list[str]]:
    """Carry out each ``--path None`` that removes a whole part, which tyro knows only as a group of options."""
    rest: list[str] = []
    while argv:
        option, separator, value = argv[0].partition("=")
        length = 1 if separator else 2
        if (value if separator else "".join(argv[1:2])) == "None" and _switch_off(args, option):
            argv = argv[length:]
        else:
            rest.append(argv.pop(0))
    return args, rest


def _switch_off(args: Any, option: str) -> bool:
    """Set the part that ``option`` names to ``None``; false if it names none that may be ``None``."""
    container, key, value, declared = None, None, args, Any
    for name in option.removeprefix("--").split("."):
        keys = {str(key).replace("_", "-"): key for key in _entries(value)}
        if name.replace("_", "-") not in keys:
            return False
        container, key = value, keys[name.replace("_", "-")]
        declared = entry_type(container, declared, key)
        value = _entries(container)[key]
    if not _has_options(value, declared) or not allows_none(declared) or isinstance(container, tuple):
        return False
    if is_dataclass_instance(container):
        setattr(container, typing.cast(str, key), None)
    else:
        typing.cast(Any, container)[key] = None
    return True


def _switch_on(args: Any, option: str) -> None:
    """Makes the part that is None and that ``option`` names a field of, if it can be of one kind only."""
    value, declared = args, Any
    for name, following in itertools.pairwise(option.removeprefix("--").replace("-", "_").split(".")):
        keys = {str(key).replace("-", "_"): key for key in _entries(value)}
        if name not in keys:
            return
        container, key = value, keys[name]
        declared = entry_type(container, declared, key)
        value = _entries(container)[key]
        kinds = [kind for kind in options(declared) if kind is not type(None)]
        if (
            value is None
            and len(kinds) == 1
            and dataclasses.is_dataclass(kinds[0])
            and is_dataclass_instance(container)
        ):
            kind = typing.cast(Any, kinds[0])
            if following not in field_names(kind):
                return
            value = typing.cast(Any, kind)()
            setattr(container, typing.cast(str, key), value)


class _Options:
    """The rule by which tyro sees a configuration: which options a dataclass, dict or list in it has."""

    def __init__(self) -> None:
        self._declared: dict[int, Any] = {}  # by identity of the part: tyro keeps only the types of values

    def of(self, info: StructTypeInfo) -> StructConstructorSpec | None:
        part = info.default
        declared = self._declared.get(id(part), Any)
        if not _has_options(part, declared):
            return None  # tyro's own rules
        fields = {str(key): (key, self._field(part, declared, key, value)) for key, value in _entries(part).items()}

        def instantiate(**values: Any) -> Any:
            if is_dataclass_instance(part):
                return dataclasses.replace(typing.cast(Any, part), **values)
            if isinstance(part, dict):
                return {key: values[name] for name, (key, _) in fields.items()}
            return type(part)(values[name] for name in fields)

        return StructConstructorSpec(instantiate=instantiate, fields=tuple(field for _, field in fields.values()))

    def _field(self, part: Any, declared: Any, key: Any, value: Any) -> StructFieldSpec:
        field_type = entry_type(part, declared, key)
        if _has_options(value, field_type):
            self._declared[id(value)] = field_type
            field_type = type(value)
        elif typing.is_typeddict(declared) or not (_is_simple(field_type) and _fits(value, field_type)):
            field_type = _yaml_type(field_type, value)
        helptext = functools.partial(_field_help, type(part), key) if is_dataclass_instance(part) else None
        return StructFieldSpec(name=str(key), type=field_type, default=value, helptext=helptext)


def _has_options(value: Any, declared: Any) -> bool:
    """Whether the entries of ``value`` have options of their own, instead of one option for the whole."""
    if is_dataclass_instance(value):
        return True
    if isinstance(value, dict):  # `float | dict[str, float]` is one option: it may become a number
        return bool(value) and all(t in (type(None), Any) or is_form_of(t, Mapping) for t in options(declared))
    return isinstance(value, (list, tuple)) and any(
        is_dataclass_instance(item) or _has_options(item, Any) for item in value
    )


def _entries(part: Any) -> dict[Any, Any]:
    """What the constructor of dataclass ``part`` takes, or what dict or sequence ``part`` holds; empty for others."""
    if is_dataclass_instance(part):
        return {name: getattr(part, name) for name in field_names(type(part))}
    if isinstance(part, dict):
        return part
    return dict(enumerate(part)) if isinstance(part, (list, tuple)) else {}


def _is_simple(declared: Any) -> bool:
    """Whether tyro reads values of type ``declared`` as we would."""
    origin = typing.get_origin(declared)
    if origin in (Literal, Annotated):
        return True
    if isinstance(declared, type) and origin is None:
        return declared in (bool, int, float, str, type(None), Path) or issubclass(declared, enum.Enum)
    if origin in (tuple, list) or options(declared) != (declared,):
        return all(item is Ellipsis or _is_simple(item) for item in typing.get_args(declared))
    return declared is None


def _fits(value: Any, declared: Any) -> bool:
    """Whether ``value`` is of type ``declared`` as it is; tyro is strict about defaults."""
    try:
        return value is not MISSING and repr(coerce(value, declared, "")) == repr(value)
    except ConfigError:
        return False


# Values read as YAML


def _yaml_type(declared: Any, current: Any) -> Any:
    """A type for tyro whose values are YAML, checked against annotation ``declared``."""
    if declared in (Any, object):
        declared = _inferred(current)
    return Annotated[
        Any,
        PrimitiveConstructorSpec(
            nargs="*",
            metavar="VALUE" if declared is Any else describe(declared),
            instance_from_str=lambda tokens: _read(tokens, declared, current),
            is_instance=lambda value: True,
            str_from_instance=lambda value: [_shown(value)],
        ),
    ]


def _inferred(current: Any) -> Any:
    """The type that an undeclared value keeps. Numbers stay free: ``(0, 1)`` may become ``(-0.5, 0.5)``."""
    if isinstance(current, (bool, str, enum.Enum)):
        return type(current)
    return Callable if callable(current) else Any


def _read(tokens: list[str], declared: Any, current: Any) -> Any:
    """The value that ``tokens`` mean for ``current``. Raises ``ValueError``, as tyro asks, if it is wrong."""
    values = [None if token == "None" else _yaml_value(token) for token in tokens]
    forms: list[Any] = [values]
    if len(values) == 1:
        single = [values[0], tokens[0]]
        whole = not isinstance(current, (list, tuple)) or isinstance(values[0], (list, tuple, type(None)))
        forms = [*single, values] if whole else [values, *single]
    elif not isinstance(current, list):
        forms = [tuple(values), tuple(tokens)]
    problems = []
    for form in forms:
        try:
            return coerce(_like(form, current), declared, "the value")
        except ConfigError as error:
            problems.append(error)
    raise ValueError(str(problems[0]))


def _yaml_value(token: str) -> Any:
    try:
        return parse_yaml(token, "the value")
    except ConfigError:
        return token  # no YAML, hence a word


def _like(value: Any, current: Any) -> Any:
    """``value`` with the kind of sequence and of numbers that ``current`` has, where nothing is lost by it."""
    if isinstance(current, float) and type(value) is int:
        return float(value)
    if isinstance(current, (list, tuple)) and isinstance(value, (list, tuple)):
        patterns = [*current, *current[-1:] * len(value)]
        return type(current)(_like(item, patterns[i]) if patterns else item for i, item in enumerate(value))
    return value


def _shown(value: Any) -> str:
    if callable(value):
        return f"{value.__module__}:{value.__qualname__}" if hasattr(value, "__qualname__") else repr(value)
    if isinstance(value, enum.Enum):
        return value.name
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


# Help texts


def _field_help(cls: type, name: str) -> str | None:
    return next((texts[name] for base in cls.__mro__ if name in (texts := _own_field_help(base))), None)


@functools.cache
def _own_field_help(cls: type) -> dict[str, str]:
    """The string below each field in the body of ``cls``."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    texts = {}
    for statement, below in zip(statements, statements[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if (
                isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                texts[statement.target.id] = _shown_text(inspect.cleandoc(below.value.value))
    return texts


def _shown_text(docstring: str) -> str:
    """Code in single backticks, as people read it on a terminal."""
    return docstring.replace("``", "`")
