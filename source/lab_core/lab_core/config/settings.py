"""The base of configurations: a name that they do not have is refused when it is set."""

from __future__ import annotations

from typing import Any

from lab_core.errors import UnknownFieldError, unknown_name_message


class Settings:
    """Lets a dataclass take its fields only, where Python would keep a misspelt one beside them and nobody read it.

    Private names (``_resolved``), class variables and properties can be set as ever.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets a field.

        Raises:
            UnknownFieldError: There is none of this name; the message names the nearest.
        """
        cls = type(self)
        fields = getattr(cls, "__dataclass_fields__", {})
        if name not in fields and not name.startswith("_") and not hasattr(cls, name):
            raise UnknownFieldError(unknown_name_message(f"field of {cls.__name__}", name, fields))
        super().__setattr__(name, value)
