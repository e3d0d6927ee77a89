import copy
import pickle

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, stack_module_state, vmap

from mgnni import MGNNI, ArgumentError
from mgnni.layers.features import Features, _Multiply
from mgnni.layers.inputs import MLP


def bag_of_words(rows=9, columns=13, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(rows, columns, generator=generator, dtype=dtype)
    x[torch.rand(rows, columns, generator=generator) < 0.8] = 0
    x[3] = 0  # a node without words
    x[:, 5] = 0  # a word that nobody uses
    return x


def test_the_product_and_its_derivatives(device):
    x = bag_of_words().to(device)
    features = Features.of(x.to_sparse_csr())
    weight = torch.rand(1, 13, 4, dtype=torch.float64, device=device, requires_grad=True)

    def product(w):
        return _Multiply.apply(features.values.unsqueeze(0), w, features)

    torch.testing.assert_close(product(weight)[0], x @ weight[0])
    assert gradcheck(product, (weight,), nondet_tol=1e-12)
    assert gradgradcheck(product, (weight,), nondet_tol=1e-12)


@pytest.mark.parametrize("keyed", [False, True])
def test_sparse_features_are_the_dense_ones(keyed, device):
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


def test_runs_together(device):
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
def test_where_features_are_used_as_they_are_sparse_ones_are_refused(options):
    model = MGNNI(13, 13, 3, **options)
    assert not model.takes_sparse_features
    x = bag_of_words(dtype=torch.float32).to_sparse_csr()
    with pytest.raises(ArgumentError, match=r"dense in this configuration.*to_dense"):
        model(x, torch.tensor([[0], [1]]))


def test_another_sparse_layout_is_refused_with_the_remedy():
    x = bag_of_words(dtype=torch.float32).to_sparse_coo()
    with pytest.raises(ArgumentError, match="to_sparse_csr"):
        MGNNI(13, 6, 3)(x, torch.tensor([[0], [1]]))


@pytest.mark.parametrize("first", ["row", "place", "transposed"])
def test_what_inference_has_made_serves_training(first, device):
    x = bag_of_words().to(device).to_sparse_csr()
    mlp = MLP((13, 4), 0.5, False).to(device, torch.float64)
    for dropout in mlp.dropout:
        dropout.keyed = True
    with torch.inference_mode():
        features = mlp._sparse(x)
        getattr(features, first)
        mlp(x)
    transposed, order = features.transposed
    made = (features.values, features.row, features.place, order, transposed.values)
    assert not any(tensor.is_inference() for tensor in made)
    mlp(x).sum().backward()
    assert mlp._sparse(x) is features
    assert mlp.linear[0].weight.grad.abs().max() > 0
