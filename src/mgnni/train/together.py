"""Several runs of one model as a single module: parameters stacked, mapped over by ``vmap``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from mgnni.layers.regularization import Dropout
from mgnni.train.streams import INITIAL, Run, dropout_keys, offset


class Together(nn.Module):
    """Runs that share a graph are columns of one product with it, and otherwise strangers.

    Each has its own parameters, drawn from its own seed, and its own dropout masks, so that it
    learns what it would learn alone.

    Args:
        build: makes one model.
        runs: the runs.
    """

    keys: Tensor
    offset: Tensor

    def __init__(self, build: Callable[[], nn.Module], runs: Sequence[Run]) -> None:
        super().__init__()
        self.runs = list(runs)
        models = [_drawn(build, run) for run in runs]
        parameters, buffers = stack_module_state(models)
        self._hidden = (models[0],)  # in a tuple, so that its parameters are not ours as well
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
        # Where the model is, so that a recorded step finds the present one.
        self.register_buffer("offset", torch.zeros((), dtype=torch.long), persistent=False)
        self._step = 0

    @property
    def model(self) -> Any:
        """The model itself, with nobody's parameters; it knows its options and its last solves."""
        return self._hidden[0]

    @property
    def step(self) -> int:
        """How many steps were taken; each has dropout masks of its own."""
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step = step
        self.offset.fill_(offset(step))

    def step_on_device(self) -> None:
        """Take a step where the masks are made; on the host it is counted by :meth:`counted`."""
        self.offset.add_(offset(1))

    def counted(self, steps: int = 1) -> None:
        """Count steps that were taken on the device."""
        self._step += steps

    def train(self, mode: bool = True) -> Together:
        """Switch between training and evaluation."""
        super().train(mode)
        self.model.train(mode)
        return self

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """Return the logits of all runs, shape ``(runs, rows, classes)``."""
        parameters = dict(zip(self.parameter_names, self.stacks, strict=True))
        buffers = self.named_stacks()[1]
        keys = self.keys + self.offset
        buffers.update({name: keys[:, index] for index, name in enumerate(self.dropouts)})

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Any:
            return functional_call(self.model, (parameters, buffers), inputs)

        if len(self.runs) == 1:  # mapping over a single run costs more than the run
            alone = ({k: v.squeeze(0) for k, v in part.items()} for part in (parameters, buffers))
            single: Tensor = one(*alone)
            return single.unsqueeze(0)
        with warnings.catch_warnings():
            # BatchNorm has no rule of its own; the general one is right, and fast enough.
            warnings.filterwarnings("ignore", "There is a performance drop because we have not")
            logits: Tensor = vmap(one)(parameters, buffers)
        return logits

    def named_stacks(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return parameters and buffers by their names in the model, stacked over runs."""
        parameters = {n: p.detach() for n, p in zip(self.parameter_names, self.stacks, strict=True)}
        buffers = {n: getattr(self, f"buffer_{i}") for i, n in enumerate(self.buffer_names)}
        return parameters, buffers

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of everything that ``state_dict`` of a model holds, stacked over runs."""
        parameters, buffers = self.named_stacks()
        return {name: value.detach().clone() for name, value in (parameters | buffers).items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Take back a :meth:`snapshot` of as many runs."""
        parameters, buffers = self.named_stacks()
        for name, value in (parameters | buffers).items():
            value.copy_(state[name])

    def keep(self, places: Sequence[int]) -> None:
        """Go on with these runs only; their order may not change."""
        index = torch.tensor(places, device=self.stacks[0].device)
        for stack in self.stacks:
            stack.data = stack.data[index]
            stack.grad = None
        for number in range(len(self.buffer_names)):
            setattr(self, f"buffer_{number}", getattr(self, f"buffer_{number}")[index])
        self.keys = self.keys[index]
        self.runs = [self.runs[place] for place in places]


def _drawn(build: Callable[[], nn.Module], run: Run) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        # That of the CPU alone: torch.manual_seed would seed accelerators too.
        torch.default_generator.manual_seed(run.number(INITIAL))
        return build()


def _in_full_precision(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Widen what goes into a BatchNorm: ``vmap`` has no rule for one in mixed precision."""
    return tuple(x.float() if x.dtype is torch.bfloat16 else x for x in inputs)
