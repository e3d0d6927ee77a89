"""The MLP against the same matrix products, with dense and with sparse features."""

import copy
import pickle

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, stack_module_state, vmap

from mgnni import MGNNI, ArgumentError
from mgnni.layers.mlp import MLP
from problems import generator


def features(device, rows=5, columns=3):
    return torch.randn(rows, columns, dtype=torch.float64, generator=generator(1)).to(device)


def make(widths, device, *, dropout=0.5, activate_last=False):
    return MLP(widths, dropout, activate_last).to(device, torch.float64)


def test_mlp_has_one_weight_and_bias_per_layer(device):
    shapes = [tuple(p.shape) for p in make((3, 7, 5, 4), device).parameters()]
    assert shapes == [(7, 3), (7,), (5, 7), (5,), (4, 5), (4,)]


@pytest.mark.parametrize("activate_last", [False, True], ids=["mlp", "mlp-relu"])
def test_mlp_is_linear_maps_with_relus_in_between(activate_last, device):
    mlp = make((3, 7, 5, 4), device, activate_last=activate_last).eval()
    x = features(device)
    w1, b1, w2, b2, w3, b3 = mlp.parameters()
    zero = torch.zeros((), dtype=torch.float64, device=device)
    h = torch.maximum(x @ w1.T + b1, zero)
    h = torch.maximum(h @ w2.T + b2, zero)
    want = h @ w3.T + b3
    assert (want < 0).any()  # or the last ReLU would not show
    if activate_last:
        want = torch.maximum(want, zero)
    torch.testing.assert_close(mlp(x), want, rtol=1e-12, atol=1e-14)


def test_mlp_of_one_layer_is_linear(device):
    mlp = make((3, 4), device).eval()
    weight, bias = mlp.parameters()
    x = features(device)
    torch.testing.assert_close(mlp(x), x @ weight.T + bias, rtol=1e-12, atol=1e-14)


def test_dropout_comes_before_every_linear_map_and_never_after_the_last(device):
    # With weights of one and biases of zero an entry is a sum of inputs that were kept, doubled.
    mlp = make((1, 1, 1), device, dropout=0.5).train()
    with torch.no_grad():
        for parameter in mlp.parameters():
            parameter.fill_(1.0 if parameter.dim() == 2 else 0.0)
    values = set(mlp(torch.ones(400, 1, dtype=torch.float64, device=device)).flatten().tolist())
    assert values == {0.0, 4.0}  # twice doubled or dropped
    with torch.no_grad():
        mlp.linear[-1].bias.fill_(3.0)
    values = set(mlp(torch.ones(400, 1, dtype=torch.float64, device=device)).flatten().tolist())
    assert values == {3.0, 7.0}  # the last bias is never dropped


def test_reset_parameters_depends_on_the_seed_only(device):
    mlp = make((3, 7, 4), device)
    before = [p.detach().clone() for p in mlp.parameters()]
    torch.manual_seed(5)
    mlp.reset_parameters()
    once = [p.detach().clone() for p in mlp.parameters()]
    torch.manual_seed(5)
    mlp.reset_parameters()
    for old, new, again in zip(before, once, mlp.parameters(), strict=True):
        assert (old != new).any()
        torch.testing.assert_close(again.detach(), new, rtol=0, atol=0)


def bag_of_words(rows=9, columns=13, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(rows, columns, generator=generator, dtype=dtype)
    x[torch.rand(rows, columns, generator=generator) < 0.8] = 0
    x[3] = 0  # a node without words
    x[:, 5] = 0  # a word that nobody uses
    return x


def test_sparse_product_has_correct_derivatives(device):
    x = bag_of_words().to(device)
    features = x.to_sparse_csr()
    mlp = make((13, 4), device, dropout=0.0)
    weight = torch.rand(4, 13, dtype=torch.float64, device=device, requires_grad=True)

    def product(w):
        return functional_call(mlp, {"linear.0.weight": w}, (features,)) - mlp.linear[0].bias

    torch.testing.assert_close(product(weight), x @ weight.T)
    assert gradcheck(product, (weight,), nondet_tol=1e-12)
    assert gradgradcheck(product, (weight,), nondet_tol=1e-12)


def test_sparse_features_have_gradients_in_every_pass(device):
    dense = bag_of_words().to(device).requires_grad_()
    features = dense.detach().to_sparse_csr().requires_grad_()
    mlp = make((13, 6, 4), device, dropout=0.0)
    (expected,) = torch.autograd.grad(mlp(dense).square().sum(), dense)
    for _ in range(2):
        (found,) = torch.autograd.grad(mlp(features).square().sum(), features)
        torch.testing.assert_close(found.to_dense(), expected.where(dense != 0, 0.0))


@pytest.mark.parametrize("keyed", [False, True])
def test_sparse_features_give_the_output_of_dense_ones(keyed, device):
    x = bag_of_words().to(device)
    mlp = MLP((13, 6, 4), 0.5, False).to(device, torch.float64)
    for dropout in mlp.dropout:
        dropout.keyed = keyed
    mlp.train(keyed)  # without a key the two layouts draw different numbers
    dense = mlp(x)
    gradients = torch.autograd.grad(dense.square().sum(), list(mlp.parameters()))
    sparse = mlp(x.to_sparse_csr())
    torch.testing.assert_close(sparse, dense)
    again = torch.autograd.grad(sparse.square().sum(), list(mlp.parameters()))
    for one, other in zip(gradients, again, strict=True):
        torch.testing.assert_close(one, other)


def test_other_sparse_features_have_another_output(device):
    mlp = make((13, 6, 4), device, dropout=0.0)
    x = bag_of_words().to(device)
    for dense in (x, 2 * x, x.flip(1), x):
        torch.testing.assert_close(mlp(dense.to_sparse_csr()), mlp(dense))


def test_sparse_features_support_vmap(device):
    x = bag_of_words().to(device).to_sparse_csr()
    models = [MLP((13, 6, 4), 0.5, False).to(device, torch.float64).eval() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    for one, model in zip(together, models, strict=True):
        torch.testing.assert_close(one, model(x))


def test_a_model_takes_sparse_features_and_copies_and_pickles(device):
    x = bag_of_words(dtype=torch.float32).to(device)
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]], device=device)
    model = MGNNI(13, 6, 3).to(device).eval()
    dense, sparse = model(x, edge_index), model(x.to_sparse_csr(), edge_index)
    torch.testing.assert_close(dense, sparse)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x.to_sparse_csr(), edge_index), sparse)


@pytest.mark.parametrize("options", [{"input_map": "identity"}, {"head": "residual"}])
def test_sparse_features_are_refused_where_they_are_used_directly(options):
    model = MGNNI(13, 13, 3, **options)
    assert not model.takes_sparse_features
    x = bag_of_words(dtype=torch.float32).to_sparse_csr()
    with pytest.raises(ArgumentError, match=r"dense in this configuration.*to_dense"):
        model(x, torch.tensor([[0], [1]]))


def test_another_sparse_layout_is_refused_with_the_remedy():
    x = bag_of_words(dtype=torch.float32).to_sparse_coo()
    with pytest.raises(ArgumentError, match="to_sparse_csr"):
        MGNNI(13, 6, 3)(x, torch.tensor([[0], [1]]))


@pytest.mark.parametrize("training", [False, True])
def test_caches_made_in_inference_mode_serve_training(training, device):
    x = bag_of_words().to(device).to_sparse_csr()
    mlp = MLP((13, 4), 0.5, False).to(device, torch.float64).train(training)
    for dropout in mlp.dropout:
        dropout.keyed = True
    with torch.inference_mode():
        mlp(x)
    features = mlp.product._cache[1]
    transposed, order = features.pattern.transposed
    made = (features.pattern.row, features.place, order, transposed.col)
    assert not any(tensor.is_inference() for tensor in made)
    mlp.train()(x).sum().backward()
    assert mlp.product._cache[1] is features
    assert mlp.linear[0].weight.grad.abs().max() > 0
