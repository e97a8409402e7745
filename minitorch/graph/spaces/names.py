"""Which module each name of `minitorch.graph` comes from that is only loaded when it is asked for.

The families that every program uses are there at once; these wait, which keeps the import short.
"""

from __future__ import annotations

FAMILIES: dict[str, str] = {
    "minitorch.graph.collections": "GraphKeys",
    "minitorch.graph.spaces.options": """
        ConfigProto GPUOptions OptimizerOptions RunMetadata RunOptions
        """,
    "minitorch.graph.dynamic.bidirectional": "reverse_sequence",
    "minitorch.graph.operators.choosing": "case convert_to_tensor",
    "minitorch.graph.gradients": "hessians",
    "minitorch.graph.operators.cutting": "strided_slice",
    "minitorch.graph.operators.effects": """
        Assert Print assert_equal assert_greater assert_greater_equal assert_less
        assert_less_equal assert_non_negative assert_positive assert_rank py_func
        """,
    "minitorch.graph.older": """
        AggregationMethod histogram_summary initialize_local_variables inv
        merge_all_summaries merge_summary scalar_mul scalar_summary
        """,
    "minitorch.graph.operators.further": """
        broadcast_to check_numerics depth_to_space random_crop saturate_cast space_to_depth
        verify_tensor_all_finite
        """,
    "minitorch.graph.operators.matrices": """
        cholesky cholesky_solve cross diag diag_part einsum logdet matrix_band_part
        matrix_determinant matrix_diag matrix_diag_part matrix_inverse matrix_set_diag matrix_solve
        matrix_trace matrix_transpose matrix_triangular_solve meshgrid tensordot
        """,
    "minitorch.graph.operators.ranking": "argsort sort",
    "minitorch.graph.operators.segments": """
        bincount boolean_mask confusion_matrix dynamic_partition dynamic_stitch gather_nd
        invert_permutation scatter_nd segment_max segment_mean segment_min segment_sum
        sequence_mask setdiff1d unique unique_with_counts unsorted_segment_max
        unsorted_segment_mean unsorted_segment_min unsorted_segment_sqrt_n unsorted_segment_sum
        """,
    "minitorch.graph.operators.together": "tuple",
    "minitorch.graph.operators.writing": "scatter_add scatter_sub scatter_update",
    "minitorch.graph.queues.producers": "count_up_to",
    "minitorch.graph.queues.queue": "FIFOQueue PaddingFIFOQueue QueueBase RandomShuffleQueue",
    "minitorch.graph.spaces.aliases": "linalg math random",
    "minitorch.tracing": "cond foldl foldr jit map_fn scan trace while_loop",
}

NETWORK_FAMILIES: dict[str, str] = {
    "minitorch.graph.candidates": """
        log_uniform_candidate_sampler nce_loss sampled_softmax_loss uniform_candidate_sampler
        """,
    "minitorch.graph.dynamic.bidirectional": """
        bidirectional_dynamic_rnn static_bidirectional_rnn
        """,
    "minitorch.graph.operators.images": """
        atrous_conv2d conv1d conv2d_transpose depthwise_conv2d separable_conv2d
        """,
    "minitorch.graph.operators.normalizing": """
        fused_batch_norm local_response_normalization lrn weighted_moments zero_fraction
        """,
    "minitorch.graph.operators.ranking": "in_top_k top_k",
}

TRAINING_FAMILIES: dict[str, str] = {
    "minitorch.graph.train.adaptive": "AdadeltaOptimizer FtrlOptimizer RMSPropOptimizer",
    "minitorch.graph.train.averages": """
        ExponentialMovingAverage create_global_step get_global_step get_or_create_global_step
        global_step
        """,
    "minitorch.graph.monitoring.hook": """
        SecondOrStepTimer SessionRunArgs SessionRunContext SessionRunHook SessionRunValues
        """,
    "minitorch.graph.monitoring.hooks": """
        CheckpointSaverHook FeedFnHook FinalOpsHook LoggingTensorHook NanLossDuringTrainingError
        NanTensorHook StopAtStepHook SummarySaverHook
        """,
    "minitorch.graph.monitoring.monitored": """
        ChiefSessionCreator MonitoredSession MonitoredTrainingSession Scaffold
        SingularMonitoredSession
        """,
    "minitorch.graph.monitoring.supervisor": "Supervisor",
    "minitorch.graph.older": "SummaryWriter",
    "minitorch.graph.queues.coordinator": """
        Coordinator LooperThread QueueRunner add_queue_runner start_queue_runners
        """,
    "minitorch.graph.queues.producers": """
        batch input_producer limit_epochs range_input_producer shuffle_batch slice_input_producer
        """,
    "minitorch.graph.train.saver": "SaverDef checkpoint_exists get_checkpoint_state",
    "minitorch.graph.train.schedules": """
        cosine_decay exponential_decay inverse_time_decay natural_exp_decay piecewise_constant
        polynomial_decay
        """,
}


def _by_name(families: dict[str, str]) -> dict[str, str]:
    return {name: module for module, names in families.items() for name in names.split()}


LATER = _by_name(FAMILIES)
"""The module of each name of `minitorch.graph`."""

NETWORKS = _by_name(NETWORK_FAMILIES)
"""The module of each name of `minitorch.graph.nn`."""

TRAINING = _by_name(TRAINING_FAMILIES)
"""The module of each name of `minitorch.graph.train`."""

SPACES = {
    "layers": "minitorch.graph.layers",
    **{
        name: f"minitorch.graph.spaces.{name}"
        for name in (
            "app",
            "contrib",
            "data",
            "errors",
            "flags",
            "image",
            "logging",
            "losses",
            "metrics",
            "summary",
        )
    },
}
"""The modules that are names themselves."""
