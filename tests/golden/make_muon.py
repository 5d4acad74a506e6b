"""Writes muon.txt: matrices after 20 updates by torch.optim.Muon, whose Newton-Schulz steps are in bf16.

Run: python tests/golden/make_muon.py > tests/golden/muon.txt  (needs torch 2.9 or newer)

A line "case ROWS COLUMNS MODE" (MODE is that of --muon-scale-mode with the same scale: shape_scaling, or spectral with a
further factor of 0.2), then the weights. Element n of the weights begins as sin(n), its gradient in update t, counted from
1, is cos(0.37 n^2 + 7 t).
"""

import torch

for rows, columns in [(9, 11), (17, 5), (16, 16), (40, 24)]:
    for mode, adjust in [("shape_scaling", "original"), ("spectral", "match_rms_adamw")]:
        n = torch.arange(rows * columns, dtype=torch.float64).reshape(rows, columns)
        weight = torch.nn.Parameter(torch.sin(n).float())
        muon = torch.optim.Muon([weight], lr=0.02, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr_fn=adjust)
        for t in range(1, 21):
            weight.grad = torch.cos(0.37 * n * n + 7 * t).float()
            muon.step()
        print("case", rows, columns, mode)
        print(*(f"{x:.7g}" for x in weight.detach().flatten().tolist()))
