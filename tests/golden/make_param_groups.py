"""Writes param_groups.txt: parameters after 10 updates by PyTorch's AdamW, SGD and Muon with groups that have a learning
rate and a weight decay of their own.

Run: python tests/golden/make_param_groups.py > tests/golden/param_groups.txt  (needs torch 2.9 or newer)

A line "optimizer NAME", then for each parameter a line "param NAME ROWS COLUMNS LR DECAY" (columns 0 for a vector; factors
of 1e-2 and 0.1) and a line of its elements. Element n of parameter i begins as sin(n + 100 i), its gradient in update t,
counted from 1, is cos(0.37 n^2 + i + 7 t). Muon has simple coefficients, Nesterov momentum 0.95 and the scale of
--muon-scale-mode shape_scaling; it takes matrices only.
"""

import torch

# Order, shapes and factors: neighbours in memory that differ, and some that do not. The usual decay of vectors is 0.
PARAMS = [("first.weight", (9, 11), 1, 1), ("first.bias", (13,), 1, 0), ("second.weight", (7, 9), 0.25, 1),
          ("second.bias", (5,), 2, 0.5), ("third.weight", (4, 17), 0.25, 1), ("third.bias", (65,), 1, 1),
          ("frozen.weight", (3, 5), 0, 1), ("fourth.weight", (6, 6), 1, 0)]
LR, DECAY = 1e-2, 0.1


def make(name, groups):
    if name == "adam":
        return torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.999), eps=1e-8)
    if name == "sgd":
        return torch.optim.SGD(groups, lr=LR, momentum=0.9)
    return torch.optim.Muon(groups, lr=LR, momentum=0.95, nesterov=True, adjust_lr_fn="original")


for optimizer in ["adam", "sgd", "muon"]:
    print("optimizer", optimizer)
    params = [torch.nn.Parameter(torch.sin(torch.arange(torch.Size(shape).numel()).double() + 100 * i).float().reshape(shape))
              for i, (_, shape, _, _) in enumerate(PARAMS)]
    groups = [{"params": [param], "lr": LR * lr, "weight_decay": DECAY * decay}
              for param, (_, shape, lr, decay) in zip(params, PARAMS) if optimizer != "muon" or len(shape) == 2]
    updates = make(optimizer, groups)
    for t in range(1, 11):
        for i, param in enumerate(params):
            n = torch.arange(param.numel()).double()
            param.grad = torch.cos(0.37 * (n * n) + i + 7 * t).float().reshape(param.shape)
        updates.step()
    for param, (name, shape, lr, decay) in zip(params, PARAMS):
        if optimizer != "muon" or len(shape) == 2:
            print("param", name, *(shape if len(shape) == 2 else (shape[0], 0)), lr, decay)
            print(*(f"{x:.9g}" for x in param.detach().flatten().tolist()))
