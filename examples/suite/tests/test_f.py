"""A suite in which one test ends the interpreter, one fails after another test, and one fails sometimes."""
import ctypes
import os
import random

state = []


def sometimes(name, share):
    return random.Random(os.environ["PROVOKE_SEED"] + name).random() < share


def test_polluter():
    state.append(1)


def test_victim():
    assert not state


def test_crash():
    if sometimes("crash", 0.3):
        ctypes.string_at(0)


def test_flaky():
    assert not sometimes("flaky", 0.12)


def test_addition():
    assert 1 + 1 == 2


def test_subtraction():
    assert 2 - 1 == 1
