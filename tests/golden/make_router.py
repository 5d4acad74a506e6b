"""Writes router.txt: what the routers of transformers choose, with gradients, and its loss that balances experts.

Run: python tests/golden/make_router.py > tests/golden/router.txt  (needs transformers 5.22 or newer)

A line "case SCORE ROWS EXPERTS CHOSEN GROUPS CHOSEN_GROUPS FACTOR BIAS" (SCORE as in enum router_score), then a line each
of the chosen experts, best first, of their weights, of the gradient for the logits if expert e of row n has the weight's
gradient cos(n + 2 e), of the balancing loss, and of its gradient. Logit (n, e) is 3 sin(0.7 n n + 1.3 e + 0.1 n e), bias e
is BIAS sin(e). The loss is that of Mixtral, for the softmax only.
"""

from types import SimpleNamespace

import torch
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4TopKRouter
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter, load_balancing_loss_func
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

ROUTERS = [MixtralTopKRouter, Qwen3MoeTopKRouter, DeepseekV3TopkRouter, DeepseekV4TopKRouter]
CASES = [  # score, rows, experts, chosen, groups, chosen groups, factor, bias
    (0, 7, 8, 2, 0, 0, 1.0, 0.0),
    (0, 5, 60, 4, 0, 0, 1.0, 0.0),
    (1, 7, 8, 2, 0, 0, 1.0, 0.0),
    (1, 4, 128, 8, 0, 0, 1.0, 0.0),
    (2, 6, 16, 4, 4, 2, 2.5, 0.1),
    (2, 4, 256, 8, 8, 4, 2.5, 0.05),
    (2, 5, 12, 2, 1, 1, 1.0, 0.3),
    (3, 6, 24, 6, 0, 0, 1.5, 0.2),
]


def show(x):
    print(*(f"{v:.9g}" for v in x.detach().flatten().tolist()))


def main():
    for score, rows, experts, chosen, groups, chosen_groups, factor, bias in CASES:
        config = SimpleNamespace(num_experts_per_tok=chosen, num_local_experts=experts, num_experts=experts)
        config.hidden_size, config.norm_topk_prob, config.scoring_func = experts, score > 1, "sqrtsoftplus"
        config.n_group, config.topk_group, config.routed_scaling_factor = groups, chosen_groups, factor
        router = ROUTERS[score](config)
        router.weight.data = torch.eye(experts)  # the hidden states are the logits
        e, n = torch.arange(experts, dtype=torch.float64), torch.arange(rows, dtype=torch.float64)[:, None]
        if score > 1:
            router.e_score_correction_bias.copy_((bias * torch.sin(e)).float())
        logits = (3 * torch.sin(0.7 * n * n + 1.3 * e + 0.1 * n * e)).float().requires_grad_()
        _, weights, indices = router(logits)
        key = logits.detach() if score < 2 else weights.detach() / factor
        if score > 1:  # their order: by score and bias
            s = torch.sigmoid(logits) if score == 2 else torch.sqrt(torch.nn.functional.softplus(logits))
            key = (s + router.e_score_correction_bias).detach()
        order = torch.argsort(key.gather(1, indices), dim=1, descending=True)
        print("case", score, rows, experts, chosen, groups, chosen_groups, factor, bias)
        print(*indices.gather(1, order).flatten().tolist())
        show(weights.gather(1, order))
        (weights * torch.cos(n + 2 * indices)).sum().backward()
        show(logits.grad)
        logits.grad = None
        loss = load_balancing_loss_func((logits,), experts, chosen) if score == 0 else logits.sum() * 0
        loss.backward()
        show(loss)
        show(logits.grad)


if __name__ == "__main__":
    main()
