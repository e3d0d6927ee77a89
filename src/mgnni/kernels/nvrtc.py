"""Compiles CUDA source at run time with NVRTC, and launches it on torch's stream.

NVRTC and the driver come with every CUDA build of torch, so nothing has to be installed and no
compiler is needed. :func:`why_not` names what is missing.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mgnni.errors import MgnniError
from mgnni.kernels.binaries import cached

SWITCH = "MGNNI_KERNELS"  # set to 0 to disable the kernels
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_MAX_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class KernelError(MgnniError):
    """Raised if a kernel cannot be compiled or launched."""


@lru_cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """Loads the driver and NVRTC."""
    major = str(torch.version.cuda).split(".")[0]
    name = f"libnvrtc.so.{major}"
    beside = Path(torch.__file__).parents[1].glob(f"nvidia/**/{name}")
    for candidate in chain([name], map(str, beside)):  # searched only if it is not found by name
        try:
            return ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(candidate)
        except OSError:
            continue
    raise KernelError(f"the CUDA driver or {name} was not found; reinstall torch with CUDA")


@lru_cache
def why_not() -> str | None:
    """Returns why kernels cannot be used, or :obj:`None` if they can."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 is set"
    if not torch.cuda.is_available() or torch.version.cuda is None:
        return "torch sees no CUDA device"
    try:
        _libraries()
    except KernelError as error:
        return str(error)
    return None


def _checked(code: int, what: str) -> None:
    if code:
        raise KernelError(
            f"{what} failed with CUDA error {code}; set {SWITCH}=0 to disable the kernels"
        )


def _versions() -> list[str]:
    """Returns the versions of the driver and of NVRTC."""
    driver, nvrtc = _libraries()
    numbers = [ctypes.c_int() for _ in range(3)]
    first, *rest = map(ctypes.byref, numbers)
    _checked(driver.cuDriverGetVersion(first), "asking for the version of the driver")
    _checked(nvrtc.nvrtcVersion(*rest), "asking for the version of NVRTC")
    return [str(number.value) for number in numbers]


def _compiled(source: str, name: str, options: Sequence[str]) -> bytes:
    """Compiles a source file."""
    _, nvrtc = _libraries()
    program = ctypes.c_void_p()
    text = (source.encode(), name.encode(), 0, None, None)
    _checked(nvrtc.nvrtcCreateProgram(ctypes.byref(program), *text), f"reading {name}")
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    code = nvrtc.nvrtcCompileProgram(program, len(options), array)
    if code:
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise KernelError(f"{name} does not compile with {' '.join(options)}: {log.value.decode()}")
    size = ctypes.c_size_t()
    _checked(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), f"compiling {name}")
    binary = ctypes.create_string_buffer(size.value)
    _checked(nvrtc.nvrtcGetCUBIN(program, binary), f"compiling {name}")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


@lru_cache
def shared_memory(device: int | torch.device) -> int:
    """Largest number of bytes of shared memory per block."""
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 48 * 1024))


@lru_cache
def _context(device: int) -> ctypes.c_void_p:
    """The primary context, which torch uses too."""
    driver, _ = _libraries()
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    _checked(driver.cuDeviceGet(ctypes.byref(handle), device), f"finding device {device}")
    code = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    _checked(code, f"entering device {device}")
    return context


def enter(device: torch.device) -> None:
    """Sets the CUDA context of this thread, because autograd threads may have none."""
    if device.type != "cuda":
        return
    driver, _ = _libraries()
    current = ctypes.c_void_p()
    _checked(driver.cuCtxGetCurrent(ctypes.byref(current)), "asking for the device")
    if not current.value:
        index = torch.cuda.current_device() if device.index is None else device.index
        _checked(driver.cuCtxSetCurrent(_context(index)), f"entering device {index}")


@lru_cache
def _binary(file: str, device: int) -> bytes:
    """Returns the compiled code of a file, from the cache on disk if it is there."""
    source = (Path(__file__).parent / file).read_text(encoding="utf-8")
    major, minor = torch.cuda.get_device_capability(device)
    options = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17"]
    depends_on = [source, *options, *_versions()]
    return cached(file, depends_on, lambda: _compiled(source, file, options))


@lru_cache
def _function(name: str, device: int) -> ctypes.c_void_p:
    """Returns a kernel; the part of its name before an underscore is its file."""
    driver, _ = _libraries()
    binary = _binary(f"{name.split('_')[0]}.cu", device)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _checked(driver.cuModuleLoadData(ctypes.byref(module), binary), f"loading {name}")
    _checked(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), name)
    most = shared_memory(device)
    room = ctypes.c_int()
    driver.cuFuncGetAttribute(ctypes.byref(room), 1, function)  # static shared memory
    code = driver.cuFuncSetAttribute(function, _MAX_SHARED, most - room.value)
    _checked(code, f"giving shared memory to {name}")
    return function


def launch(
    name: str,
    blocks: int,
    threads: int,
    *arguments: Any,
    shared: int = 0,
    tiles: int = 1,
    cooperative: bool = False,
) -> None:
    """Launches a kernel on the current stream of the device of its first tensor.

    Args:
        name (str): Name of the kernel; the part before an underscore is its file.
        blocks (int): Number of blocks in the grid.
        threads (int): Number of threads per block.
        arguments: Tensors, 32-bit ints, or ctypes values.
        shared (int, optional): Bytes of dynamic shared memory. (default: :obj:`0`)
        tiles (int, optional): Second dimension of the grid. (default: :obj:`1`)
        cooperative (bool, optional): If set to :obj:`True`, all blocks are resident at the same
            time and can wait for one another. (default: :obj:`False`)
    """
    index = next(a.get_device() for a in arguments if isinstance(a, Tensor))
    if index != torch.cuda.current_device():
        with torch.cuda.device(index):
            options: dict[str, Any] = {"tiles": tiles, "cooperative": cooperative}
            launch(name, blocks, threads, *arguments, shared=shared, **options)
        return
    values = [_value(a) for a in arguments]  # kept alive until the launch has copied them
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    stream = ctypes.c_void_p(torch.cuda.current_stream(index).cuda_stream)
    driver, _ = _libraries()
    shape = (_function(name, index), blocks, tiles, 1, threads, 1, 1, shared, stream, pointers)
    start = driver.cuLaunchCooperativeKernel if cooperative else driver.cuLaunchKernel
    rest = () if cooperative else (None,)
    code = start(*shape, *rest)
    if code == _NO_CONTEXT:  # autograd threads may have no context yet
        _checked(driver.cuCtxSetCurrent(_context(index)), f"entering device {index}")
        code = start(*shape, *rest)
    _checked(code, f"launching {name}")


def _value(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_int(argument) if isinstance(argument, int) else argument
