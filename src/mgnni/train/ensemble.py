"""Models from configurations, and several runs of a model as one module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import stack_module_state, vmap

from mgnni.layers.regularization import Dropout
from mgnni.models.base import GraphModel
from mgnni.models.catalog import make_model
from mgnni.train.config import Config
from mgnni.train.runs import INITIAL, Run, dropout_keys, dropout_offset


def build_model(
    config: Config, in_channels: int, out_channels: int, level: str, regression: bool = False
) -> GraphModel:
    """Build the model of a configuration.

    Args:
        config (Config): Model and training hyperparameters.
        in_channels (int): Number of input features.
        out_channels (int): Number of classes, labels or numbers to predict.
        level (str): ``"node"`` or ``"graph"``.
        regression (bool, optional): Whether numbers are predicted. (default: :obj:`False`)
    """
    options = dict(vars(config.model))
    hidden = options.pop("hidden_channels")
    model = make_model(
        config.architecture, in_channels, hidden, out_channels, level=level, **options
    )
    if regression:
        model.predict_numbers()
    return model


def meta_model(
    config: Config, in_channels: int, out_channels: int, level: str, regression: bool = False
) -> GraphModel:
    """As :func:`build_model`, on the meta device: without memory and random numbers."""
    with torch.device("meta"):
        return build_model(config, in_channels, out_channels, level, regression)


class Ensemble(nn.Module):
    """Several runs of a model on one graph, stacked and mapped over by :func:`torch.func.vmap`.

    Every run has its own parameters, drawn from its own seed, and its own dropout masks, so it
    learns what it would learn alone.

    Args:
        build (Callable[[], nn.Module]): Builds one model.
        runs (Sequence[Run]): The runs.

    Shapes:
        - **input:** as the model, shared by all runs
        - **output:** logits, ``(runs, rows, classes)``
    """

    keys: Tensor
    offset: Tensor

    def __init__(self, build: Callable[[], nn.Module], runs: Sequence[Run]) -> None:
        super().__init__()
        self.runs = list(runs)
        models = [_initialized(build, run) for run in runs]
        parameters, buffers = stack_module_state(models)
        self._template = (models[0],)  # in a tuple, so that its parameters are not registered
        self._slots = _slots(models[0])
        self.parameter_names = list(parameters)
        self.stacks = nn.ParameterList([p.detach().clone() for p in parameters.values()])
        self.dropouts = []
        for name, part in models[0].named_modules():
            if isinstance(part, Dropout):
                part.keyed = True
                self.dropouts.append(f"{name}.key" if name else "key")
            if isinstance(part, nn.BatchNorm1d):
                part.register_forward_pre_hook(_in_full_precision)
        self.buffer_names = [name for name in buffers if name not in self.dropouts]
        for index, name in enumerate(self.buffer_names):
            self.register_buffer(f"buffer_{index}", buffers[name])
        keys = dropout_keys(self.runs, len(self.dropouts), torch.device("cpu"))
        self.register_buffer("keys", keys, persistent=False)
        # On the device of the model, so that a captured step reads the current one.
        self.register_buffer("offset", torch.zeros((), dtype=torch.long), persistent=False)
        self._step = 0

    @property
    def model(self) -> Any:
        """The model that is mapped over runs; it has the options and the last solves."""
        return self._template[0]

    @property
    def step(self) -> int:
        """Number of training steps; each has its own dropout masks."""
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step = step
        self.offset.fill_(dropout_offset(step))

    def step_on_device(self) -> None:
        """Advance the dropout masks by a step; :meth:`count_steps` counts it on the host."""
        self.offset.add_(dropout_offset(1))

    def count_steps(self, steps: int = 1) -> None:
        """Count steps that were taken on the device."""
        self._step += steps

    def train(self, mode: bool = True) -> Ensemble:
        """Set training or evaluation mode."""
        super().train(mode)
        if self.model.training is not mode:  # setting it takes a while if there are many modules
            self.model.train(mode)
        return self

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """Return the logits of all runs, shape ``(runs, rows, classes)``."""
        parameters = dict(zip(self.parameter_names, self.stacks, strict=True))
        buffers = self.named_buffer_stacks()
        keys = self.keys + self.offset
        buffers.update({name: keys[:, index] for index, name in enumerate(self.dropouts)})

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Any:
            return self._call(parameters | buffers, inputs)

        if len(self.runs) == 1:  # vmap over a single run costs more than the run
            alone = ({k: v.squeeze(0) for k, v in part.items()} for part in (parameters, buffers))
            single: Tensor = one(*alone)
            return single.unsqueeze(0)
        with warnings.catch_warnings():
            # BatchNorm has no batching rule; the fallback is correct, and fast enough.
            warnings.filterwarnings("ignore", "There is a performance drop because we have not")
            logits: Tensor = vmap(one)(parameters, buffers)
        return logits

    def _call(self, tensors: dict[str, Tensor], inputs: tuple[Tensor | None, ...]) -> Any:
        """Call the model with other parameters and buffers.

        As :func:`torch.func.functional_call`, which looks up all names in every call. For a small
        model, this takes as long as the call.
        """
        before = [(table, key, table[key]) for name in tensors for table, key in self._slots[name]]
        try:
            for name, tensor in tensors.items():
                for table, key in self._slots[name]:
                    table[key] = tensor
            return self.model(*inputs)
        finally:
            for table, key, tensor in before:
                table[key] = tensor

    def named_stacks(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return parameters and buffers by name, stacked over runs."""
        parameters = {n: p.detach() for n, p in zip(self.parameter_names, self.stacks, strict=True)}
        return parameters, self.named_buffer_stacks()

    def named_buffer_stacks(self) -> dict[str, Tensor]:
        """Return buffers by name, stacked over runs."""
        return {n: getattr(self, f"buffer_{i}") for i, n in enumerate(self.buffer_names)}

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of the ``state_dict`` of the model, stacked over runs."""
        parameters, buffers = self.named_stacks()
        return {name: value.detach().clone() for name, value in (parameters | buffers).items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Load a :meth:`snapshot` of the same number of runs."""
        parameters, buffers = self.named_stacks()
        for name, value in (parameters | buffers).items():
            value.copy_(state[name])

    def keep(self, places: Sequence[int]) -> None:
        """Drop all runs but these, which must be in ascending order."""
        index = torch.tensor(places, device=self.stacks[0].device)
        for stack in self.stacks:
            stack.data = stack.data[index]
            stack.grad = None
        for number in range(len(self.buffer_names)):
            setattr(self, f"buffer_{number}", getattr(self, f"buffer_{number}")[index])
        self.keys = self.keys[index]
        self.runs = [self.runs[place] for place in places]


def _initialized(build: Callable[[], nn.Module], run: Run) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        # Of the CPU only: torch.manual_seed would also seed accelerators.
        torch.default_generator.manual_seed(run.seed_for(INITIAL))
        return build()


def _slots(module: nn.Module) -> dict[str, list[tuple[dict[str, Any], str]]]:
    """Return where a module holds each tensor: tables and keys; several for a shared tensor."""
    names: dict[int, str] = {}
    slots: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for prefix, part in module.named_modules():
        for table in (part._parameters, part._buffers):
            for key, tensor in table.items():
                if tensor is not None:
                    name = names.setdefault(id(tensor), f"{prefix}.{key}" if prefix else key)
                    slots.setdefault(name, []).append((table, key))
    return slots


def _in_full_precision(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Convert inputs of a BatchNorm to float32: ``vmap`` has no rule for mixed precision."""
    return tuple(x.float() if x.dtype is torch.bfloat16 else x for x in inputs)
