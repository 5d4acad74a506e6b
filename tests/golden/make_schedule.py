"""Writes schedule.txt: learning rates of both groups of parameters, by megatron-core's own scheduler and overrides.

Run: python tests/golden/make_schedule.py > tests/golden/schedule.txt  (needs torch and megatron-core)

Lines: STYLE WSD_STYLE DECOUPLED_MIN, then for each of the iterations 0 1 5 10 11 50 81 90 100 101 the rate of most
parameters and that of the input embedding and the output layer. Batches of 8 samples, warmup 10 iterations from 1e-6,
decay 100, tail 20, highest 1e-3 and 5e-3, lowest 1e-4; DECOUPLED_MIN is "none" if only the common lowest is given.
"""

import logging
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from megatron.core.optimizer import OptimizerConfig, get_standard_config_overrides
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

BATCH = 8
ITERATIONS = [0, 1, 5, 10, 11, 50, 81, 90, 100, 101]


class Groups:
    """Stands in for an optimizer: the part that the scheduler uses."""

    def __init__(self, overrides):
        self.param_groups = [{"max_lr": 1e-3, "min_lr": 1e-4}, {"max_lr": 1e-3, "min_lr": 1e-4, **overrides}]


for style, tail in [("constant", "exponential"), ("linear", "exponential"), ("cosine", "exponential"),
                    ("inverse-square-root", "exponential"), ("WSD", "exponential"), ("WSD", "linear"),
                    ("WSD", "cosine"), ("WSD", "minus_sqrt")]:
    for minimum in [4e-4, None]:
        config = OptimizerConfig(optimizer="adam", lr=1e-3, min_lr=1e-4, decoupled_lr=5e-3, decoupled_min_lr=minimum)
        (override,) = [value for key, value in get_standard_config_overrides(config).items()
                       if key.attr == "is_embedding_or_output_parameter"]
        groups = Groups(override)
        scheduler = OptimizerParamScheduler(
            groups, init_lr=1e-6, max_lr=1e-3, min_lr=1e-4, lr_warmup_steps=10 * BATCH, lr_decay_steps=100 * BATCH,
            lr_decay_style=style, start_wd=0.1, end_wd=0.1, wd_incr_steps=100 * BATCH, wd_incr_style="constant",
            wsd_decay_steps=20 * BATCH, lr_wsd_decay_style=tail)
        print(style, tail, minimum if minimum else "none", end="")
        for iteration in ITERATIONS:
            scheduler.step(iteration * BATCH - scheduler.num_steps)
            print("", *(repr(group["lr"]) for group in groups.param_groups), end="")
        print()
