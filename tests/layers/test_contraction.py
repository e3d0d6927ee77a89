"""The contractions other than the paper's: dense solutions, gradients and certificates."""

import pytest
import torch
from torch_geometric.nn import APPNP

from mgnni import MultiscaleEquilibrium, Propagation
from mgnni.implicit.normalized_gram import ORDER, normalized_gram
from problems import dense_solution, generator, lopsided_edges, propagation

CHANNELS, SCALES, GAMMA = 4, (1, 3), 0.95


def layer(device, contraction, **options):
    torch.manual_seed(0)
    made = MultiscaleEquilibrium(
        CHANNELS, SCALES, GAMMA, contraction=contraction, tol=1e-12, **options
    )
    return made.to(device, torch.float64)


def dense_weights(made):
    """g(F) from its formula, with eigenvalues instead of squarings."""
    weights = []
    for index in range(len(SCALES)):
        if made.contraction == "identity":
            weight = torch.eye(CHANNELS, dtype=torch.float64)
        else:
            gram = made.factor[index].cpu().T @ made.factor[index].cpu()
            values = torch.linalg.eigvalsh(gram.detach())
            weight = gram / float(values.pow(ORDER).sum() ** (1 / ORDER))
        rate = 1.0 if made.rate is None else float(made.rate[index].detach().sigmoid())
        weights.append(rate * weight)
    return weights


@pytest.mark.parametrize("learn_gamma", [False, True], ids=["fixed", "learned"])
@pytest.mark.parametrize("contraction", ["spectral", "identity"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_states_are_those_of_the_dense_solution(kind, contraction, learn_gamma, device):
    made = layer(device, contraction, learn_gamma=learn_gamma)
    operator = propagation(kind).to(device)
    bias = torch.randn(12, CHANNELS, dtype=torch.float64, generator=generator(1))
    z = made(bias.to(device), operator)
    for state, weight, scale in zip(z, dense_weights(made), SCALES, strict=True):
        want = dense_solution(propagation(kind), weight.detach(), bias, scale, GAMMA)
        torch.testing.assert_close(state.detach().cpu(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["sym", "dir"])
def test_gradients_are_those_of_finite_differences(kind):
    made, operator = layer("cpu", "spectral", learn_gamma=True), propagation(kind)
    bias = torch.randn(12, CHANNELS, dtype=torch.float64, generator=generator(1))

    def states(factor, rate, bias):
        return torch.func.functional_call(made, {"factor": factor, "rate": rate}, (bias, operator))

    inputs = (made.factor.detach(), made.rate.detach(), bias)
    torch.autograd.gradcheck(states, [one.requires_grad_() for one in inputs])


def test_the_spectral_norm_of_the_weight_is_one_up_to_its_order():
    f = torch.randn(5, 32, 32, dtype=torch.float64, generator=generator())
    norms = torch.linalg.matrix_norm(normalized_gram(f, norm="spectral"), 2)
    assert bool((norms <= 1).all())
    assert bool((norms >= 32 ** (-1 / ORDER)).all())


def test_a_multiple_of_an_orthogonal_factor_gives_almost_the_identity():
    f = 3 * torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=generator()))[0]
    weight = normalized_gram(f, norm="spectral")
    torch.testing.assert_close(weight, torch.eye(8, dtype=torch.float64), rtol=0, atol=5e-3)


def test_the_spectral_weight_has_first_and_second_derivatives():
    f = torch.randn(2, 4, 4, dtype=torch.float64, generator=generator(), requires_grad=True)
    torch.autograd.gradcheck(lambda f: normalized_gram(f, norm="spectral"), f)
    torch.autograd.gradgradcheck(lambda f: normalized_gram(f, norm="spectral"), f)


def test_a_factor_of_zeros_has_a_weight_of_zeros():
    assert torch.equal(normalized_gram(torch.zeros(1, 3, 3), norm="spectral"), torch.zeros(1, 3, 3))


def test_vmapped_spectral_weights_are_those_of_single_factors():
    f = torch.randn(3, 4, 4, dtype=torch.float64, generator=generator())
    together = torch.func.vmap(lambda f: normalized_gram(f, norm="spectral"))(f)
    for got, alone in zip(together, f, strict=True):
        torch.testing.assert_close(got, normalized_gram(alone, norm="spectral"))


def test_the_identity_is_personalised_pagerank():
    edges, _ = lopsided_edges()
    edges = torch.cat([edges, edges.flip(0)], 1).unique(dim=1)
    edges = edges[:, edges[0] != edges[1]]
    x = torch.randn(12, 3, generator=generator())
    layer = MultiscaleEquilibrium(3, (1,), 0.9, contraction="identity")
    operator = Propagation.from_edge_index(edges, 12, normalization="sym")
    steps = APPNP(K=500, alpha=0.1)(x, edges)
    torch.testing.assert_close(0.1 * layer(x, operator)[0], steps, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("contraction", ["spectral", "identity"])
def test_no_error_exceeds_its_certificate(contraction, device):
    # All columns may be slow, unlike with the Frobenius norm.
    draw = generator(7)
    for trial in range(60):
        kind = ("sym", "dir", "out", "row")[trial % 4]
        gamma = (0.8, 0.95, 0.99)[trial % 3]
        operator = propagation(kind, seed=trial, dtype=torch.float32).to(device)
        made = MultiscaleEquilibrium(6, (1, 2), gamma, contraction=contraction).to(device)
        bias = torch.randn(12, 6, generator=draw)
        with torch.no_grad():
            z = made(bias.to(device), operator)
            weights = made.weight(torch.float32, z.device).double().cpu()
        exact = propagation(kind, seed=trial)
        for i, scale in enumerate((1, 2)):
            want = dense_solution(exact, weights[i], bias.double(), scale, gamma)
            error = float((z[i].double().cpu() - want).norm())
            assert error <= made.log.forward[i].error_bound, (trial, kind, gamma)
