// The rows of the flags of ICT's model, a part of the table in flags.c. Names and defaults are Megatron-LM's.
#ifndef CONFIG_FLAGS_ICT_H
#define CONFIG_FLAGS_ICT_H

#define ICT_ROWS                                                                                                       \
    INT("--biencoder-projection-dim", biencoder_projection_dim, "0", 0, 1 << 20,                                       \
        "ICT: width of the projection of each tower's first token; 0 for no projection", ADVANCED),                    \
        SWITCH("--biencoder-shared-query-context-model", biencoder_shared_query_context_model,                         \
               "ICT: use one tower for queries and contexts", ADVANCED),                                               \
        SWITCH("--retriever-score-scaling", retriever_score_scaling, "ICT: divide scores by sqrt(hidden size)",        \
               ADVANCED),

#endif
