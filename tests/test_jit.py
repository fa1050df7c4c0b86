from __future__ import annotations

import importlib.util
import itertools
import time

import numba
import pytest
from numba.core.caching import NullCache

from fedslim import _jit
from fedslim.algorithm1 import precompile
from fedslim.algorithm1.kernels import pairs, ranking, unions
from fedslim.cli.console import progress
from fedslim.cli.console.progress import Plain, compile_with_progress
from fedslim.federated.simulation import prepare
from fedslim.mdl.kernels import array_table

SOURCE = "def one(x):\n    return x + 1\n\n\ndef two(x):\n    return x + 2\n"


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Gives two functions of one file as kernels that nothing was loaded of, as a new process has them."""
    numbers = itertools.count()
    path = tmp_path / "small_kernels.py"
    path.write_text(SOURCE)

    def again():
        monkeypatch.setattr(_jit, "_kernels", [])
        spec = importlib.util.spec_from_file_location(f"small_kernels_{next(numbers)}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return _jit.njit(module.one), _jit.njit(module.two)

    return again


@pytest.fixture
def asked():
    """Calls kernels; gives back what is told of the first compilation."""

    def ask(*functions):
        told = []
        with _jit.at_first_compilation(told.append):
            for function in functions:
                function(1)
        return told

    return ask


# -- what is told ----------------------------------------------------------------------------------------------------


def test_a_kernel_is_told_of_when_it_is_compiled_and_not_when_it_is_loaded(kernels, asked):
    assert asked(*kernels()) == [True]
    assert asked(*kernels()) == []


def test_who_has_others_in_the_cache_was_told_before(kernels, asked):
    one, _ = kernels()
    assert asked(one) == [True]
    assert asked(*kernels()) == [False]


def test_the_first_use_is_told_once_however_busy_the_machine_is(kernels, capsys, monkeypatch):
    monkeypatch.setattr(progress, "WORTH_TELLING", 0.0)

    def preparing(*functions):
        def prepare_slowly():
            for function in functions:
                function(1)
            time.sleep(0.1)

        compile_with_progress(Plain(), prepare_slowly)
        return capsys.readouterr().err.count("\n")

    one, _ = kernels()
    assert preparing(one) == 1
    assert preparing(*kernels()) == 0
    assert preparing(*kernels()) == 0


def test_where_kernels_cannot_be_kept_that_is_told(kernels, capsys):
    one, _ = kernels()
    _jit.forget_caches()
    assert not _jit.kernels_are_kept()
    compile_with_progress(Plain(), lambda: one(1))
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err


# -- a second process ------------------------------------------------------------------------------------------------


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """Makes a module the helper; gives a function that says how often it was started."""
    log = tmp_path / "started"
    monkeypatch.setattr(_jit, "idle_cores", lambda: 1)
    monkeypatch.setattr(_jit, "HELPER", "some_helper")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def install(code):
        begin = f"import sys, time\nopen({str(log)!r}, 'a').write('started\\n')\n"
        (tmp_path / "some_helper.py").write_text(begin + code)
        return lambda: log.read_text().count("\n") if log.exists() else 0

    return install


def test_other_processes_help_where_there_is_something_to_compile(kernels, helper):
    started = helper("")
    for _ in range(2):
        with _jit.helped_with("a", "b"):
            kernels()[0](1)
            _jit.wait_for("a")
            _jit.wait_for("b")
        assert started() == 2


def test_one_block_within_another_has_its_processes(kernels, helper):
    started = helper("")
    one, two = kernels()
    with _jit.helped_with("a", "b"):
        with _jit.helped_with("a"):
            one(1)
            _jit.wait_for("a")
        two(1)
        _jit.wait_for("b")
    assert started() == 2
    assert not _jit._helpers


@pytest.mark.parametrize("code", ["sys.exit(1)", "raise OSError"])
def test_a_process_that_fails_is_not_waited_for(kernels, helper, code):
    started = helper(code)
    with _jit.helped_with("a", "b"):
        kernels()[0](1)
        _jit.wait_for("a")
        _jit.wait_for("b")
    assert started() == 2


def test_who_is_interrupted_leaves_no_process_behind(kernels, helper):
    helper("time.sleep(600)")
    processes = []

    def interrupted():
        with _jit.helped_with("a"):
            kernels()[0](1)
            processes.extend(_jit._helpers.values())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [process.returncode is not None for process in processes] == [True]
    assert not _jit._helpers


@pytest.mark.parametrize("hindrance", ["one core", "nothing kept", "no program"])
def test_without_a_second_process_everything_is_compiled_here(kernels, helper, monkeypatch, hindrance):
    started = helper("")
    one, _ = kernels()
    if hindrance == "one core":
        monkeypatch.setattr(_jit, "idle_cores", lambda: 0)
    elif hindrance == "nothing kept":
        _jit.forget_caches()
    else:
        monkeypatch.setattr("sys.executable", "/no/such/python")
    with _jit.helped_with("a"):
        assert one(1) == 2
        _jit.wait_for("a")
    assert started() == 0


def test_the_second_process_compiles_what_the_first_one_asks_for():
    """By signature: another one would be compiled for nothing, and the right one waited for in vain."""
    kernels = [
        k
        for m in (array_table, pairs, ranking, unions)
        for k in vars(m).values()
        if isinstance(k, numba.core.registry.CPUDispatcher)
    ]
    kept = [k for k in kernels if not isinstance(k._cache, NullCache)]
    prepare("sa")
    before = {(k.__module__, k.__name__): list(k.signatures) for k in kept}
    for group in precompile.GROUPS.values():
        group()
    assert {(k.__module__, k.__name__): list(k.signatures) for k in kept} == before
    assert before["fedslim.mdl.kernels.array_table", "try_removals"]
    assert before["fedslim.algorithm1.kernels.ranking", "take_in"]
