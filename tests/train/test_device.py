import logging

import pytest
import torch

from mgnni.errors import ArgumentError
from mgnni.train.device import make_fabric, one_thread, settings_restored, threads_per_process


def test_the_device_and_the_precision_asked_for():
    for precision, wanted in (("32", "32-true"), ("bf16", "bf16-mixed")):
        fabric = make_fabric("cpu", precision)
        assert fabric.device == torch.device("cpu")
        assert fabric._precision.precision == wanted


def test_double_precision_is_not_rounded_on_the_way_out():
    module = make_fabric("cpu", "64").setup(torch.nn.Linear(3, 2).double())
    assert module(torch.ones(1, 3, dtype=torch.float64)).dtype is torch.float64


def test_auto_is_what_there_is():
    wanted = "cuda" if torch.cuda.is_available() else "cpu"
    assert make_fabric("auto", "32").device.type == wanted


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ArgumentError, match="'device' cuda is not available here; use cpu"):
        make_fabric("cuda", "32")


def test_an_unknown_device_is_refused():
    with pytest.raises(ArgumentError, match=r"'device' must be one of .*did you mean 'cuda'"):
        make_fabric("cud", "32")
    with pytest.raises(ArgumentError, match="'device' must be one of"):
        make_fabric("mps", "32")  # without float64


def test_nothing_is_said_in_the_middle_of_a_progress_bar(capfd, caplog):
    with caplog.at_level(logging.INFO):
        make_fabric("cpu", "bf16")
    assert "".join(capfd.readouterr()) == ""
    assert not caplog.records


@pytest.mark.parametrize("before", [True, False])
def test_determinism_is_taken_back(before):
    torch.use_deterministic_algorithms(before, warn_only=True)
    try:
        with settings_restored():
            make_fabric("cpu", "32", deterministic=True)
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.are_deterministic_algorithms_enabled() is before
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="needs torch 2.9")
def test_a_precision_chosen_in_backends_is_taken_back():
    library = torch.backends.cuda.matmul
    before = library.fp32_precision
    library.fp32_precision = "tf32"
    try:
        with settings_restored():
            make_fabric("cpu", "32")
            assert library.fp32_precision == "ieee"
        assert library.fp32_precision == "tf32"
    finally:
        library.fp32_precision = before


@pytest.mark.parametrize("wanted", [True, False])
def test_one_thread_is_for_a_while(wanted):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread(wanted):
            assert torch.get_num_threads() == (1 if wanted else 3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_determinism_is_taken_back_after_an_error():
    @settings_restored()
    def fails() -> None:
        make_fabric("cpu", "32", deterministic=True)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(("threads", "jobs", "each"), [(8, 1, 8), (8, 3, 2), (1, 4, 1), (4, 0, 4)])
def test_processes_share_the_threads_of_this_one(monkeypatch, threads, jobs, each):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)  # as OMP_NUM_THREADS limits it
    assert threads_per_process(jobs) == each
