"""Stored tensors compared with those they are to replace, before anything is copied: names, types, shapes, values.

`torch` itself would convert types in a copy, broadcast shapes, and take NaN. All checks raise `ContentError`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Annotated, Any

import torch
from pydantic import AfterValidator
from torch import Tensor
from torch.optim import Muon, Optimizer
from typing_extensions import TypedDict

from sparring.configs.core.typed import ContentError, NotNegative, Plain, read, require, shown

MOMENTS = {"step", "exp_avg", "exp_avg_sq"}
MUON_MOMENTS = {"momentum_buffer"}


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError("must be a tensor")
    return value


AnyTensor = Annotated[Any, AfterValidator(_tensor)]
"""A tensor of a type and shape that is checked elsewhere."""
Tensors = dict[str, AnyTensor]


class OptimizerState(TypedDict):
    """`state_dict` of Adam, AdamW or Muon."""

    state: dict[int, Tensors]
    param_groups: list[Plain]


class _Rate(TypedDict):
    lr: NotNegative
    params: list[int]


def check_tensor(found: Any, wanted: Tensor, place: str, *, low: float | None = None, high: float | None = None) -> Any:
    """Return `found` if it has the type and shape of `wanted`, and finite values in [low, high] where given."""
    same = isinstance(found, Tensor) and found.dtype == wanted.dtype and found.shape == wanted.shape
    require(same, f"{place}={shown(found)}: must be {shown(wanted)}")
    if found.is_floating_point() and not bool(found.isfinite().all()):
        raise ContentError(f"{place}: holds NaN or infinity; every value must be finite")
    if found.numel() and low is not None:
        require(bool((found >= low).all()), f"{place}: holds {found.min().item():g}; must be at least {low:g}")
    if found.numel() and high is not None:
        require(bool((found <= high).all()), f"{place}: holds {found.max().item():g}; must be at most {high:g}")
    return found


def check_finite(value: Any, place: str = "") -> None:
    """Raise `ContentError` with the place of the first number in nested plain data and tensors that is not finite."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in items:
        check_finite(item, f"{place}.{key}" if place else str(key))
    if isinstance(value, float) and not math.isfinite(value):
        raise ContentError(f"{place}={value}: must be a finite number")
    if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
        raise ContentError(f"{place}: holds NaN or infinity; every value must be finite")


def check_tensors(found: Any, wanted: Mapping[str, Tensor], place: str) -> dict[str, Tensor]:
    """Return the tensors `found` if they have the names, types and shapes of `wanted`, and finite values."""
    named = read(Tensors, found, place)
    missing, unknown = (sorted(map(str, one)) for one in (wanted.keys() - named.keys(), named.keys() - wanted.keys()))
    require(not missing, f"{place}.{missing[0] if missing else ''} is missing")
    require(not unknown, f"{place}.{unknown[0] if unknown else ''}: is of no tensor here")
    checked = {name: check_tensor(named[name], tensor, f"{place}.{name}") for name, tensor in wanted.items()}
    first: dict[int, str] = {}
    for name, tensor in wanted.items():
        twin = first.setdefault(tensor.data_ptr(), name) if tensor.numel() else name
        require(torch.equal(checked[name], checked[twin]), f"{place}.{name}: must equal {twin}, with which it is tied")
    return checked


def check_optimizer(found: Any, optimizer: Optimizer, place: str, *, without: Collection[int] = ()) -> dict[str, Any]:
    """Return Adam's or Muon's `state_dict` for `optimizer.load_state_dict`; moments and learning rates are `found`'s.

    Either no parameter has moments or all that have values do, except those at the indices `without`, where both is
    valid.
    """
    stored, own = read(OptimizerState, found, place), optimizer.state_dict()["param_groups"]
    groups = stored["param_groups"]
    require(len(groups) == len(own), f"{place}.param_groups: has {len(groups)} of them; must be {len(own)}")
    merged = [
        _group(*pair, f"{place}.param_groups.{number}") for number, pair in enumerate(zip(groups, own, strict=True))
    ]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    check_moments = _check_momentum if isinstance(optimizer, Muon) else _check_moments
    for index in stored["state"]:
        require(0 <= index < len(parameters), f"{place}.state.{index}: must be below {len(parameters)}")
    for index, parameter in enumerate(parameters):
        where = f"{place}.state.{index}"
        if index in stored["state"]:
            check_moments(stored["state"][index], parameter, where)
        else:
            optional = not stored["state"] or index in without or not parameter.numel()
            require(optional, f"{where} is missing")
    return {"state": stored["state"], "param_groups": merged}


def _group(found: dict[str, Any], own: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a group of parameters with the stored rate; its options follow from the configuration and must agree."""
    for name in sorted(found.keys() & own.keys() - {"lr"}):
        theirs, ours = (list(one) if isinstance(one, tuple) else one for one in (found[name], own[name]))
        same = theirs == ours and isinstance(theirs, bool) == isinstance(ours, bool)
        require(same, f"{place}.{name}={shown(theirs)}: must be {shown(ours)}, which follows from the configuration")
    return own | read(_Rate, found, place)


def _check_names(found: Tensors, wanted: set[str], place: str) -> None:
    require(found.keys() == wanted, f"{place}: has {', '.join(sorted(found))}; must have {', '.join(sorted(wanted))}")


def _check_momentum(found: Tensors, parameter: Tensor, place: str) -> None:
    _check_names(found, MUON_MOMENTS, place)
    check_tensor(found["momentum_buffer"], parameter, f"{place}.momentum_buffer")


def _check_moments(found: Tensors, parameter: Tensor, place: str) -> None:
    _check_names(found, MOMENTS, place)
    check_tensor(found["step"], torch.zeros(()), f"{place}.step", low=0.0)
    check_tensor(found["exp_avg"], parameter, f"{place}.exp_avg")
    check_tensor(found["exp_avg_sq"], parameter, f"{place}.exp_avg_sq", low=0.0)
