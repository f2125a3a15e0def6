"""Settings that were changed while an environment runs, as a checkpoint keeps them."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from lab_core.config import changes_between, dump_yaml, load_yaml, update_from_dict
from lab_core.errors import ConfigError
from lab_core.state import Stateful


def settings_as_text(settings: Mapping[str, Any], what: str) -> str:
    """Returns changed settings of ``what`` as YAML, for :func:`load_yaml`; "" if there are none.

    It warns of what has no text form, such as a lambda or a tensor, and returns "" then.
    """
    try:
        return dump_yaml(dict(settings)) if settings else ""
    except ConfigError as error:
        warnings.warn(
            f"The changed settings of {what} cannot be saved: {error}. A resumed run will begin again with those of "
            "the configuration.",
            stacklevel=2,
        )
        return ""


class ChangeableTerm(Stateful, ABC):
    """A term that its configuration built, and that takes over changes of it."""

    cfg: Any
    """Configuration in use, of the class that built the term."""
    _state_fields: ClassVar[tuple[str, ...]] = ("changed_settings",)

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg
        self._initial_cfg = copy.deepcopy(cfg)

    @abstractmethod
    def set_cfg(self, cfg: Any) -> None:
        """Takes over a changed configuration of the same class."""

    @property
    def changed_settings(self) -> str:
        """Settings that differ from those that the term was built from, as YAML; "" if none does.

        Only these are saved, so that an edited configuration counts. Assigning them changes the settings in use.
        """
        return settings_as_text(changes_between(self._initial_cfg, self.cfg), f"a {type(self).__name__}")

    @changed_settings.setter
    def changed_settings(self, changes: str) -> None:
        if changes or changes_between(self._initial_cfg, self.cfg):
            cfg = copy.deepcopy(self._initial_cfg)
            update_from_dict(cfg, load_yaml(changes) if changes else {})
            self.set_cfg(cfg)
