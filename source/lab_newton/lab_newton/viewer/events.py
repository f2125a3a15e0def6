"""From the threads of the web server to the one that simulates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import viser
from viser import GuiButtonHandle, GuiInputHandle


class PageEvents:
    """Keeps what people do on the page, in order, until :meth:`run`."""

    def __init__(self) -> None:
        self._actions: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def on_input(self, handle: GuiInputHandle[Any], action: Callable[[Any], None]) -> None:
        """Calls ``action(value)`` for values that a person enters, not for those that the program sets."""

        # As coroutines they run on the server's event loop, one after the other; functions would race each other.
        @handle.on_update
        async def _(event: viser.GuiEvent[Any]) -> None:
            if event.client_id is not None:
                self._actions.put(partial(action, event.target.value))

    def on_click(self, handle: GuiButtonHandle, action: Callable[[], None]) -> None:
        """Calls ``action()`` for clicks on a button."""

        @handle.on_click
        async def _(event: viser.GuiEvent[Any]) -> None:
            self._actions.put(action)

    def on_key(self, handle: viser.CommandHandle, action: Callable[[], None]) -> None:
        """Calls ``action()`` whenever the key of an entry in the command palette is pressed."""

        @handle.on_trigger
        async def _(event: viser.CommandEvent) -> None:
            self._actions.put(action)

    def run(self) -> None:
        """Does all that has been asked for since the last call."""
        while True:
            try:
                action = self._actions.get_nowait()
            except Empty:
                return
            action()
