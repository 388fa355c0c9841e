"""Typed reading of stored content: one-line errors with path, value and allowed range; sizes checked first."""

import io
import zipfile

import pytest
import torch
from typing_extensions import TypedDict

from sparring.agents.policies.actor_critic import ActorCritic, network_shape, weight_sizes
from sparring.agents.policies.networks import check_weights
from sparring.configs.core.tensor_file import (
    TensorFileError,
    check_optimizer,
    check_tensor,
    check_tensors,
    pack,
    unpack,
)
from sparring.configs.core.typed import ContentError, Count, read
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.training.order_network import OrderNetwork, order_weight_sizes


class Row(TypedDict):
    """A row of a test."""

    steps: Count


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", None, 10**30, torch.zeros(2), float("nan")])
def test_counts_accept_integers_only(value):
    with pytest.raises(ContentError, match=r"^rows\.3\.steps=.*: must be ") as caught:
        read(dict[str, Row], {"3": {"steps": value}}, "rows")
    assert "\n" not in str(caught.value)


def test_unknown_keys_are_ignored_and_missing_keys_named():
    assert read(Row, {"steps": 3, "later": 1}) == {"steps": 3}
    with pytest.raises(ContentError, match=r"^rows\.steps is missing"):
        read(Row, {"step": 3}, "rows")


@pytest.mark.parametrize(
    "found", [torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.int32), torch.zeros(1, 3)]
)
def test_tensors_are_not_converted(found):
    with pytest.raises(ContentError, match=r"w=\(.*\): must be \(float32 tensor \(3,\)\)"):
        check_tensors({"w": found}, {"w": torch.ones(3)}, "weights")


def test_non_finite_tensor_is_rejected():
    with pytest.raises(ContentError, match="holds NaN or infinity"):
        check_tensor(torch.tensor([0.0, torch.inf]), torch.zeros(2), "w")


def test_optimizer_options_and_moment_shapes_are_checked():
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.5)
    optimizer.param_groups[0]["params"][0].sum().backward()
    optimizer.step()
    stored, own = optimizer.state_dict(), optimizer.state_dict()["param_groups"][0]
    stored["param_groups"] = [own | {"lr": 0.25, "fastest": True, "eps": 1.0}]
    assert check_optimizer(stored, optimizer, "optimizer")["param_groups"] == [own | {"lr": 0.25}]
    stored["state"][0]["exp_avg"] = torch.zeros(1)
    with pytest.raises(ContentError, match=r"optimizer\.state\.0\.exp_avg: has shape \(1,\)"):
        check_optimizer(stored, optimizer, "optimizer")


def rewritten(data, method, more=b""):
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + (more if name.endswith("data/0") else b""), method)
    return out.getvalue()


def test_members_are_stored_uncompressed():
    data = pack({"w": torch.zeros(100_000)})
    assert unpack(rewritten(data, zipfile.ZIP_STORED)).keys() == {"w"}
    with pytest.raises(TensorFileError, match="is compressed"):
        unpack(rewritten(data, zipfile.ZIP_DEFLATED))
    with pytest.raises(TensorFileError):
        unpack(rewritten(data, zipfile.ZIP_STORED, bytes(4)))


def test_tensor_must_own_its_storage():
    buffer = io.BytesIO()
    torch.save({"w": torch.zeros(()).expand(10**6, 10**6)}, buffer)
    with pytest.raises(TensorFileError, match="w: is not a tensor of plain numbers"):
        unpack(buffer.getvalue())
    buffer, w = io.BytesIO(), torch.zeros(3)
    torch.save({"a": w, "b": w}, buffer)
    with pytest.raises(TensorFileError, match="shares its numbers"):
        unpack(buffer.getvalue())


def test_repeated_nested_lists_do_not_expand():
    value = [0]
    for _ in range(30):
        value = [value, value]
    buffer = io.BytesIO()
    torch.save({"v": value}, buffer)
    with pytest.raises(TensorFileError, match="repeats its content"):
        unpack(buffer.getvalue())


@pytest.mark.parametrize("blocks", [0, 1, 3])
@pytest.mark.parametrize("categorical", [0, 4])
def test_closed_form_sizes_match_networks(blocks, categorical):
    config = NetworkConfig(hidden=6, blocks=blocks)
    network = ActorCritic(5, 2, 1, config, categorical=categorical)
    assert dict(weight_sizes(network.shape)) == {name: tuple(w.shape) for name, w in network.state_dict().items()}
    orders = OrderNetwork(config).state_dict()
    assert dict(order_weight_sizes(6, blocks)) == {name: tuple(w.shape) for name, w in orders.items()}


@pytest.mark.parametrize("sizes", [{"hidden": 10**9}, {"blocks": 10**9}, {"obs_dim": 10**9}])
def test_declared_size_allocates_nothing(sizes):
    weights = ActorCritic(5, 2, 1, NetworkConfig(hidden=6)).state_dict()
    shape = network_shape(5, 2, 1, NetworkConfig(hidden=6)) | sizes
    with pytest.raises(ContentError, match=r"has shape|is missing"):
        check_weights(shape, weights)
