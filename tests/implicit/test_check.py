"""Refused arguments: messages name the argument, its value, and a remedy."""

import pytest
import torch

from implicit.cases import edges, normal, operator, weights
from mgnni import ArgumentError, NotContractiveError, solve_equilibria, solve_equilibrium
from problems import dense_solution, weight

BAD = {
    "gamma one": ({"gamma": 1.0}, r"'gamma' .*\[0, 1\).*got 1\.0.*0\.8"),
    "gamma negative": ({"gamma": -0.1}, r"'gamma' .*got -0\.1"),
    "gamma nan": ({"gamma": float("nan")}, r"'gamma' .*got nan"),
    "gamma text": ({"gamma": "0.8"}, r"'gamma' .*got '0\.8'"),
    "scale zero": ({"scale": 0}, r"'scale' .*at least 1.*got 0\b.*use 1"),
    "scale a float": ({"scale": 1.5}, r"'scale' .*got 1\.5"),
    "scale a bool": ({"scale": True}, r"'scale' .*got True"),
    "tol zero": ({"tol": 0.0}, r"'tol' .*\(0, 1\).*got 0\.0.*1e-6"),
    "tol one": ({"tol": 1.0}, r"'tol' .*got 1\.0"),
    "tol nan": ({"tol": float("nan")}, r"'tol' .*got nan"),
    "max_iter zero": ({"max_iter": 0}, r"'max_iter' .*positive.*got 0\b"),
    "max_iter a float": ({"max_iter": 1.5}, r"'max_iter' .*got 1\.5"),
    "solver": ({"solver": "picrad"}, r"'solver' .*got 'picrad'.*did you mean 'picard'"),
    "memory": ({"memory": "lo"}, r"'memory' .*got 'lo'.*did you mean 'low'"),
    "on_failure": ({"on_failure": "rise"}, r"'on_failure' .*got 'rise'.*did you mean 'raise'"),
    "bias of one dimension": (
        {"bias": torch.ones(8)},
        r"'bias' .*num_nodes, channels.*\(8,\).*unsqueeze",
    ),
    "bias of other length": (
        {"bias": torch.ones(7, 3).double()},
        r"'bias' .*\(8, channels\).*got \(7, 3\).*num_nodes",
    ),
    "bias in float32": (
        {"bias": torch.ones(8, 3)},
        r"'bias' .*torch\.float64.*got torch\.float32.*propagation\.to\(torch\.float32\)",
    ),
    "bias of nan": ({"bias": torch.full((8, 3), torch.nan).double()}, r"'bias' .*finite.*isfinite"),
    "weight of three dimensions": (
        {"weight": torch.zeros(1, 3, 3).double()},
        r"'weight' .*square.*\(1, 3, 3\).*solve_equilibria",
    ),
    "weight of other width": (
        {"weight": torch.zeros(2, 2).double()},
        r"'weight' .*\(3, 3\).*got .*2, 2\).*as wide as the bias",
    ),
    "weight not square": ({"weight": torch.zeros(3, 2).double()}, r"'weight' .*\(3, 3\).*3, 2\)"),
    "weight in float32": (
        {"weight": torch.zeros(3, 3)},
        r"'weight' .*torch\.float64.*got torch\.float32.*propagation\.to",
    ),
    "weight of inf": (
        {"weight": torch.full((3, 3), torch.inf).double()},
        r"'weight' .*finite.*learning rate",
    ),
    "an edge_index for the operator": (
        {"propagation": torch.zeros(2, 1, dtype=torch.long)},
        r"'propagation' .*got Tensor.*Propagation\.from_edge_index",
    ),
    "cg without symmetry": ({"solver": "cg"}, r"'solver' .*'cg'.*symmetric.*'auto'"),
    "chebyshev without symmetry": ({"solver": "chebyshev"}, r"'solver' .*'chebyshev'.*symmetric"),
    "series without symmetry": ({"solver": "series"}, r"'solver' .*'series'.*symmetric weight"),
}


@pytest.mark.parametrize("change", BAD)
def test_bad_arguments_are_refused_by_name_value_and_remedy(change, device):
    changes, message = BAD[change]
    changes = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in changes.items()}
    good = {
        "propagation": operator("dir", *edges("dir", device)),
        "weight": weight("general", 3).to(device),
        "bias": normal(8, 3, device=device),
    }
    solve_equilibrium(**good)
    with pytest.raises(ArgumentError, match=message):
        solve_equilibrium(**{**good, **changes})


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ((), r"'scales' .*at least one int.*got \(\).*\(1, 2\)"),
        (2, r"'scales' .*sequence.*got 2.*\(1, 2\)"),
        ("12", r"'scales' .*sequence.*got '12'"),
        ((1, 0), r"'scales' .*at least 1.*got 0"),
        ((1, 2, 1), r"'scales' .*not repeat.*\(1, 2, 1\)"),
    ],
)
def test_bad_scales_are_refused(scales, message, device):
    propagation = operator("dir", *edges("dir", device))
    with pytest.raises(ArgumentError, match=message):
        solve_equilibria(propagation, weights("psd", device), normal(8, 3, device=device), scales)


def test_an_equation_that_may_not_contract_is_refused(device):
    propagation = operator("dir", *edges("dir", device))
    w, bias = 1.5 * weight("general", 3).to(device), normal(8, 3, device=device)
    with pytest.raises(
        NotContractiveError, match=r"below 1 \(got 1\.2 = 0\.8 \* 1\.5.*lower gamma"
    ):
        solve_equilibrium(propagation, w, bias)


def test_tensors_on_another_device_are_refused(device):
    if device.type == "cpu":
        pytest.skip("needs a second device")
    propagation = operator("dir", *edges("dir", device))
    w, bias = weight("general", 3), normal(8, 3, device=device)
    with pytest.raises(ArgumentError, match=r"'weight' .*cuda.*got cpu.*propagation\.to\('cpu'\)"):
        solve_equilibrium(propagation, w, bias)
    result = solve_equilibrium(propagation.to("cpu"), w, bias.cpu(), tol=1e-12)
    want = dense_solution(propagation, w.to(device), bias, 1, 0.8).cpu()
    torch.testing.assert_close(result.value, want, rtol=1e-10, atol=1e-12)
