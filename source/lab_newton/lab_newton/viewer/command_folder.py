"""Commands by hand: with sliders and the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

import viser

from lab_core.physics import SettableCommand
from lab_newton.viewer.events import PageEvents

_STEPS = 20
"""Key presses from one end of a slider to the other."""

Key: TypeAlias = Literal["W", "S", "A", "D", "Q", "E", "X", "space"]

_KEYS: tuple[tuple[Key, Key], ...] = (("W", "S"), ("A", "D"), ("Q", "E"))
"""The keys for more and for less of the first components: for a velocity forwards, to the left, turning left."""

_STOP_KEYS: tuple[Key, ...] = ("X", "space")

# The page flies its camera with the same keys, and drops keys while a checkbox or button has the focus. Keys reach the
# command palette at the document's root element and the camera one step above: they are stopped between the two.
_KEYBOARD_FOR_COMMANDS = """<img src="data:," style="display:none" onerror="
if (!window.labKeyboard) {
  window.labKeyboard = true;
  const keys = new Set(['KeyW', 'KeyS', 'KeyA', 'KeyD', 'KeyQ', 'KeyE']);
  const root = document.documentElement;
  root.addEventListener('keydown', event => { if (keys.has(event.code)) event.stopPropagation(); });
  root.addEventListener('click', event => event.target.closest('button, input[type=checkbox]')?.blur());
}">"""


class HandCommand:
    """What a person asks of a command term; :attr:`values` are followed while :attr:`by_hand`."""

    def __init__(self, term: SettableCommand) -> None:
        self._term = term
        self.by_hand = term.fixed_command is not None
        self.values = list(term.fixed_command or [0.0] * len(term.components))
        self.bounds = [  # of the draws, and wide enough to stop and to show what is fixed already
            (min(component.low, 0.0, value), max(component.high, 0.0, value))
            for component, value in zip(term.components, self.values, strict=True)
        ]

    def set_by_hand(self, by_hand: bool) -> None:
        """Lets all environments follow :attr:`values`, or the term's own draws."""
        self.by_hand = by_hand
        self._term.set_command(self.values if by_hand else None)

    def set_value(self, index: int, value: float) -> None:
        """Asks for ``value`` of one component, as far as its bounds allow."""
        low, high = self.bounds[index]
        self.values[index] = min(max(value, low), high)
        self.set_by_hand(True)

    def nudge(self, index: int, direction: int) -> None:
        """Asks for one step more (``direction`` 1) or less (-1) of one component; a step from either side of zero
        ends there at the latest."""
        low, high = self.bounds[index]
        before = self.values[index]
        after = before + direction * (high - low) / _STEPS
        self.set_value(index, 0.0 if before * after < 0.0 or abs(after) < 1e-9 else after)

    def stop(self) -> None:
        """Asks for zero of everything."""
        self.values = [0.0] * len(self.values)
        self.set_by_hand(True)


class CommandFolder:
    """The controls of one command."""

    def __init__(
        self, gui: viser.GuiApi, events: PageEvents, title: str, term: SettableCommand, order: float, keys: bool
    ) -> None:
        """Adds the folder to the page; only one folder of a page can have the ``keys``."""
        self._term = term
        self._events = events
        self._command = command = HandCommand(term)
        with gui.add_folder(title, order=order):
            self._by_hand = gui.add_checkbox("Set by hand", command.by_hand, hint="Off: as the task draws them")
            self._sliders = [
                gui.add_slider(component.label, low, high, step=max(high - low, 1e-3) / 200, initial_value=value)
                for component, value, (low, high) in zip(term.components, command.values, command.bounds, strict=True)
            ]
            stop = gui.add_button("Stop", icon=viser.Icon.HAND_STOP)
            self._asked = gui.add_markdown("")
            if keys:
                gui.add_markdown(self._add_keys(gui))
        events.on_input(self._by_hand, command.set_by_hand)
        for index, slider in enumerate(self._sliders):
            events.on_input(slider, partial(self._slide, index))
        events.on_click(stop, partial(self._press, command.stop))

    def show_asked(self, robot: int) -> None:
        """Shows what the command of environment ``robot`` is."""
        values = self._term.command[robot].tolist()
        content = f"Robot {robot} follows " + ", ".join(f"{value:.2f}" for value in values)
        if self._asked.content != content:
            self._asked.content = content

    def _add_keys(self, gui: viser.GuiApi) -> str:
        """Binds the keys and returns what they do."""
        command, lines = self._command, []
        for index, (component, keys) in enumerate(zip(self._term.components, _KEYS, strict=False)):
            for key, (direction, word) in zip(keys, ((1, "up"), (-1, "down")), strict=True):
                entry = gui.add_command(f"{component.name} {word}", hotkey=key)
                self._events.on_key(entry, partial(self._press, partial(command.nudge, index, direction)))
            lines.append(f"{', '.join(keys)}: {component.name} up, down")
        for key in _STOP_KEYS:
            entry = gui.add_command("Stop", hotkey=key)
            self._events.on_key(entry, partial(self._press, command.stop))
        gui.add_html(_KEYBOARD_FOR_COMMANDS)
        return "  \n".join([*lines, f"{', '.join(_STOP_KEYS)}: stop"])

    def _slide(self, index: int, value: float) -> None:
        self._command.set_value(index, value)
        # The slider itself is left alone: its person may have moved it further by now.
        self._by_hand.value = self._command.by_hand

    def _press(self, action: Callable[[], None]) -> None:
        action()
        self._by_hand.value = self._command.by_hand
        for slider, value in zip(self._sliders, self._command.values, strict=True):
            slider.value = value
