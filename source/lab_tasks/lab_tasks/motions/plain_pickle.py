"""Pickles of plain data and numpy arrays; anything else in one could run code, and is refused."""

from __future__ import annotations

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from lab_tasks.motions.clip import MotionError

# What numpy's own pickles name, under the module names of numpy 1 and 2.
_ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    *(
        (f"numpy.{core}.{module}", name)
        for core in ("core", "_core")
        for module, name in (
            ("multiarray", "_reconstruct"),
            ("multiarray", "scalar"),
            ("numeric", "_frombuffer"),
        )
    ),
}


def load_plain_pickle(path: Path) -> Any:
    """Returns what a pickle of numbers, texts, lists, dictionaries and numpy arrays holds.

    Raises:
        MotionError: the file cannot be read, or names any other class or function; that is never imported.
    """
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except MotionError as error:
        raise MotionError(f"{path}: {error}") from None
    except Exception as error:  # a broken pickle raises anything
        raise MotionError(f"Cannot read {path} as a pickle: {error}.") from error


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _ALLOWED:
            raise MotionError(
                f"the pickle asks for {module_name}.{global_name}. Only plain data and numpy arrays are read from "
                "pickles, for others can run code; save the motion in another format."
            )
        if module_name == "_codecs":
            return codecs.encode
        if module_name == "numpy":
            return getattr(np, global_name)
        return super().find_class(module_name.replace("numpy.core", "numpy._core"), global_name)
