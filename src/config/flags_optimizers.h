// The rows of the flags of moving averages, SGD, Lion and Muon, a part of the table in flags.c. Names and defaults of
// the latter three are Megatron-LM's.
#ifndef CONFIG_FLAGS_OPTIMIZERS_H
#define CONFIG_FLAGS_OPTIMIZERS_H

// Of --optimizer: names of other programs.
#define REFUSED_OPTIMIZERS                                                                                             \
    .refusals = (const struct flag_refusal[]) {                                                                        \
        {"soap",                                                                                                       \
         "it keeps square matrices for each parameter, but states here have one number per element; the nearest "      \
         "is adaptive_muon, see \"SOAP\" in docs/training.md"},                                                        \
            {"dist_muon", "give --optimizer muon --use-distributed-optimizer"},                                        \
            {"adamw", "adam has AdamW's decoupled weight decay"}, {                                                    \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

#define OPTIMIZER_ROWS                                                                                                 \
    REAL("--ema-decay", ema_decay, NULL, 0, 1,                                                                         \
         "keep a moving average of the weights that decays by this every iteration, e.g. 0.999",                       \
         .bounds = FLAG_ABOVE_MINIMUM | FLAG_BELOW_MAXIMUM, ADVANCED),                                                 \
        LIST("--lr-mult", lr_mult, "PATTERN=FACTOR…",                                                                  \
             "factor of the learning rate of parameters whose names match, e.g. '*.mlp.*=0.5'; the last match counts", \
             .repeats_add = true),                                                                                     \
        LIST("--wd-mult", wd_mult, "PATTERN=FACTOR…",                                                                  \
             "factor of the weight decay, instead of 1 for matrices and embeddings and 0 for biases and norms",        \
             .repeats_add = true),                                                                                     \
        CHOICE("--exp-avg-dtype", exp_avg_dtype, "fp32", ONE_OF("fp32", "bf16", "fp16", "fp8"),                        \
               "Adam: dtype of the first moment; fp16 means bf16", ADVANCED),                                          \
        CHOICE("--exp-avg-sq-dtype", exp_avg_sq_dtype, "fp32", ONE_OF("fp32", "bf16", "fp16", "fp8"),                  \
               "Adam: dtype of the second moment; fp16 means bf16", ADVANCED),                                         \
        SWITCH("--optimizer-cpu-offload", optimizer_cpu_offload,                                                       \
               "keep optimizer states in page-locked host memory; they visit the GPU in pieces to be updated",         \
               ADVANCED),                                                                                              \
        REAL("--optimizer-offload-fraction", optimizer_offload_fraction, "1.0", 0, 1,                                  \
             "fraction of the bytes of optimizer states in host memory, rounded up to whole states",                   \
             .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                  \
        SWITCH("--eval-with-ema", eval_with_ema, "evaluate the moving average of --ema-decay, not the weights",        \
               ADVANCED),                                                                                              \
        REAL("--sgd-momentum", sgd_momentum, "0.9", 0, 1,                                                              \
             "momentum of --optimizer sgd, whose weight decay is added to the gradient", .bounds = FLAG_BELOW_MAXIMUM, \
             ADVANCED),                                                                                                \
        REAL("--lion-beta1", lion_beta1, "0.95", 0, 1, "Lion: weight of the momentum in an update",                    \
             .bounds = FLAG_BELOW_MAXIMUM, ADVANCED),                                                                  \
        REAL("--lion-beta2", lion_beta2, "0.98", 0, 1, "Lion: decay of the momentum", .bounds = FLAG_BELOW_MAXIMUM,    \
             ADVANCED),                                                                                                \
        REAL("--muon-momentum", muon_momentum, "0.9", 0, 1, "Muon: momentum", .bounds = FLAG_BELOW_MAXIMUM, ADVANCED), \
        SWITCH("--muon-nesterov", muon_nesterov, "Muon: Nesterov momentum", ADVANCED),                                 \
        CHOICE("--muon-scale-mode", muon_scale_mode, "spectral", ONE_OF("spectral", "unit_rms_norm", "shape_scaling"), \
               "Muon: factor of the update of an m x n matrix: the root of max(m, n), of m/n, or of max(1, m/n)",      \
               ADVANCED),                                                                                              \
        REAL("--muon-extra-scale-factor", muon_extra_scale_factor, "1.0", 0, 1000,                                     \
             "Muon: factor of every update; 0.2 with spectral gives updates as large as AdamW's",                      \
             .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                  \
        CHOICE("--muon-coefficient-type", muon_coefficient_type, "quintic",                                            \
               ONE_OF("quintic", "simple", "polar_express", "cans", "aol", "deepseekv4", "cubic5"),                    \
               "Muon: polynomials of the Newton-Schulz steps", ADVANCED),                                              \
        INT("--muon-num-ns-steps", muon_num_ns_steps, "5", 1, 100, "Muon: Newton-Schulz steps", ADVANCED),             \
        SWITCH("--muon-no-split-qkv", muon_no_split_qkv,                                                               \
               "Muon: queries, keys and values of a layer are one matrix, not three", ADVANCED),                       \
        CHOICE("--muon-fp32-matmul-prec", muon_fp32_matmul_prec, "medium", ONE_OF("low", "medium", "high"),            \
               "Muon: Newton-Schulz steps in bf16 (low, medium) or fp32 (high)", ADVANCED),                            \
        CHOICE("--muon-tp-mode", muon_tp_mode, "duplicated", ONE_OF("duplicated"),                                     \
               "Muon: one tensor-parallel rank gathers each matrix, so that the result is the same on every layout",   \
               ADVANCED),                                                                                              \
        CHOICE("--adaptive-muon-moment2-method", adaptive_muon_moment2_method, "adamuon",                              \
               ONE_OF("adamuon", "normuon"),                                                                           \
               "adaptive_muon: second moment of elements (AdaMuon) or of rows or columns (NorMuon)", ADVANCED),        \
        REAL("--adaptive-muon-beta2", adaptive_muon_beta2, "0.95", 0, 1, "adaptive_muon: decay of the second moment",  \
             .bounds = FLAG_BELOW_MAXIMUM, ADVANCED),                                                                  \
        REAL("--adaptive-muon-eps", adaptive_muon_eps, "1e-8", 0, 1, "adaptive_muon: epsilon of the second moment",    \
             .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                  \
        CHOICE("--muon-scalar-optimizer", muon_scalar_optimizer, "adam", ONE_OF("adam", "lion"),                       \
               "Muon: optimizer of embeddings, the output layer, biases and norms", ADVANCED),                         \
        SWITCH("--qk-clip", qk_clip,                                                                                   \
               "Muon: after an update, scale down queries and keys of heads with scores above the threshold",          \
               ADVANCED),                                                                                              \
        REAL("--qk-clip-alpha", qk_clip_alpha, "0.5", 0, 1, "QK-clip: share of the queries in the scaling", ADVANCED), \
        REAL("--qk-clip-threshold", qk_clip_threshold, "100", 0, 1e30,                                                 \
             "QK-clip: scale down heads with scores above this", .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),

#endif
