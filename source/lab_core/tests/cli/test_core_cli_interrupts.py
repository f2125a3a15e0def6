"""Ctrl-C where Python discards exceptions."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import weakref

import pytest

from lab_core.cli import command, main
from lab_core.cli.interrupts import lasting_interrupts


class Dying:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def in_a_destructor() -> None:
    Dying()


def in_a_callback_of_c() -> None:
    @ctypes.CFUNCTYPE(None)
    def callback() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    callback()


def in_a_callback_of_a_weak_reference() -> None:
    thing = Dying.__class__("Thing", (), {})()
    reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing
    assert reference() is None


PLACES = [in_a_destructor, in_a_callback_of_c, in_a_callback_of_a_weak_reference]


def start_and_work(interrupt) -> None:
    """A command that is interrupted while it starts, and then goes on for long."""
    interrupt()
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_that_a_callback_swallows_ends_the_command(place, monkeypatch, capsys):
    monkeypatch.setattr(type(command.COMMANDS), "names", lambda self: ["work"])
    monkeypatch.setattr(type(command.COMMANDS), "load", lambda self, name: lambda argv: start_and_work(place))
    assert main(["work"]) == command.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_one_that_is_swallowed_again_and_again_is_raised_again_and_again():
    with pytest.raises(KeyboardInterrupt), lasting_interrupts():
        in_a_destructor()
        for _ in range(20):
            in_a_destructor()
        start_and_work(lambda: None)


def test_nothing_is_interrupted_that_comes_later():
    """Neither by those that were lost beside the one that ended the work, nor where the work ended by itself."""
    with pytest.raises(KeyboardInterrupt), lasting_interrupts():
        for _ in range(5):
            in_a_destructor()
        start_and_work(lambda: None)
    with lasting_interrupts():
        in_a_destructor()
    time.sleep(0.1)


def test_other_exceptions_are_reported_as_ever_and_the_hook_goes_away(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: reported.append(lost.exc_type))
    hook = sys.unraisablehook

    @ctypes.CFUNCTYPE(None)
    def callback() -> None:
        raise ZeroDivisionError

    with lasting_interrupts():
        callback()
    assert reported == [ZeroDivisionError] and sys.unraisablehook is hook


def test_a_thread_leaves_the_hook_alone():
    seen = []

    def work() -> None:
        with lasting_interrupts():
            seen.append(sys.unraisablehook)

    before = sys.unraisablehook
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
