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
    "minitorch.graph.operators.arithmetic": """
        clip_by_average_norm div_no_nan histogram_fixed_width histogram_fixed_width_bins roll
        searchsorted unravel_index
        """,
    "minitorch.graph.operators.checking": """
        assert_integer assert_near assert_negative assert_non_positive assert_none_equal
        assert_rank_at_least assert_rank_in assert_scalar assert_type ensure_shape
        is_non_decreasing is_numeric_tensor is_strictly_increasing is_tensor
        """,
    "minitorch.graph.operators.choosing": "case convert_to_tensor switch_case",
    "minitorch.graph.operators.gamma": "digamma lbeta lgamma polygamma zeta",
    "minitorch.graph.operators.own_gradient": "custom_gradient grad_pass_through",
    "minitorch.graph.operators.saying": """
        dimension_at_index dimension_value get_static_value identity_n numpy_function shape_n
        timestamp
        """,
    "minitorch.graph.operators.scattered": """
        batch_gather scatter_nd_add scatter_nd_sub scatter_nd_update tensor_scatter_add
        tensor_scatter_nd_add tensor_scatter_nd_sub tensor_scatter_nd_update tensor_scatter_sub
        tensor_scatter_update
        """,
    "minitorch.graph.operators.spectral": "qr self_adjoint_eig self_adjoint_eigvals svd",
    "minitorch.graph.spaces.compat": """
        control_flow_v2_enabled disable_control_flow_v2 disable_eager_execution
        disable_resource_variables disable_tensor_equality disable_v2_behavior
        disable_v2_tensorshape enable_resource_variables executing_eagerly
        executing_eagerly_outside_functions resource_variables_enabled
        """,
    "minitorch.graph.spaces.errors": "OpError",
    "minitorch.graph.spaces.logging": "get_logger",
    "minitorch.graph.spaces.template": "make_template",
    "minitorch.graph.gradients": "hessians",
    "minitorch.graph.operators.cutting": "strided_slice",
    "minitorch.graph.operators.effects": """
        Assert Print assert_equal assert_greater assert_greater_equal assert_less
        assert_less_equal assert_non_negative assert_positive assert_rank py_func
        """,
    "minitorch.graph.older": """
        AggregationMethod VERSION __version__ arg_max arg_min batch_cholesky
        batch_matrix_inverse batch_matrix_solve histogram_summary image_summary
        initialize_local_variables inv merge_all_summaries merge_summary model_variables
        moving_average_variables no_regularizer parallel_stack print reverse_v2 scalar_mul
        scalar_summary where_v2
        """,
    "minitorch.graph.operators.further": """
        broadcast_to check_numerics depth_to_space random_crop saturate_cast space_to_depth
        verify_tensor_all_finite
        """,
    "minitorch.graph.operators.matrices": """
        cholesky cholesky_solve cross diag diag_part einsum logdet matrix_band_part
        matrix_determinant matrix_diag matrix_diag_part matrix_inverse matrix_set_diag matrix_solve
        matrix_solve_ls matrix_trace matrix_transpose matrix_triangular_solve meshgrid tensordot
        """,
    "minitorch.graph.operators.ranking": "argsort sort",
    "minitorch.graph.operators.segments": """
        bincount boolean_mask confusion_matrix dynamic_partition dynamic_stitch gather_nd
        invert_permutation scatter_nd segment_max segment_mean segment_min segment_sum
        sequence_mask setdiff1d unique unique_with_counts unsorted_segment_max
        unsorted_segment_mean unsorted_segment_min unsorted_segment_sqrt_n unsorted_segment_sum
        """,
    "minitorch.graph.operators.together": "tuple",
    "minitorch.graph.operators.writing": """
        scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_sub scatter_update
        """,
    "minitorch.graph.queues.producers": "count_up_to",
    "minitorch.graph.queues.queue": "FIFOQueue PaddingFIFOQueue QueueBase RandomShuffleQueue",
    "minitorch.graph.spaces.aliases": "debugging linalg manip math queue random version",
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
    "minitorch.graph.operators.further": "depth_to_space space_to_depth",
    "minitorch.graph.operators.networks": """
        avg_pool1d avg_pool2d avg_pool_v2 depthwise_conv2d_native log_poisson_loss max_pool1d
        max_pool2d max_pool_v2 normalize swish
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
    "minitorch.graph.train.reading": """
        NewCheckpointReader init_from_checkpoint list_variables load_checkpoint load_variable
        """,
    "minitorch.graph.train.saver": "SaverDef checkpoint_exists get_checkpoint_state",
    "minitorch.graph.train.schedules": """
        cosine_decay cosine_decay_restarts exponential_decay inverse_time_decay
        linear_cosine_decay natural_exp_decay piecewise_constant piecewise_constant_decay
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

MEASURES = _by_name(
    {
        "minitorch.graph.spaces.counts": """
            auc false_negatives mean_cosine_distance mean_iou mean_per_class_accuracy
            mean_relative_error mean_tensor percentage_below true_negatives true_positives
            """
    }
)
"""The module of each name of `minitorch.graph.metrics` that is not in it."""

PICTURES = _by_name(
    {
        "minitorch.graph.spaces.colours": """
            adjust_gamma adjust_hue adjust_saturation hsv_to_rgb image_gradients psnr random_hue
            random_saturation rgb_to_hsv rgb_to_yiq rgb_to_yuv rot90 sobel_edges ssim
            total_variation yiq_to_rgb yuv_to_rgb
            """,
        "minitorch.graph.operators.further": "random_crop",
    }
)
"""The module of each name of `minitorch.graph.image` that is not in it."""

SPACES = {
    "layers": "minitorch.graph.layers",
    **{
        name: f"minitorch.graph.spaces.{name}"
        for name in (
            "app",
            "compat",
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
