"""More of TensorFlow 1's names that are not here: those that few programs use, by module.

What is said of a name is what to use instead; `absent` has the names that programs use more often.
"""

from __future__ import annotations

STRINGS = "Strings are for Python: make arrays of numbers before the graph, or use py_func."
SPARSE = "Sparse values are not here: use gather, scatter_nd, or embedding_lookup for rows."
QUANTIZED = "Quantized numbers are not here."
FILES = "Read files in Python, and give arrays to data.Dataset or train.slice_input_producer."
WRITE_IT = "Write it with operators that are here, or compute it by py_func."
THRESHOLDS = "Fetch the predictions and count them in NumPy, or use auc and confusion_matrix."
LATER_VERSIONS = "It belongs to TensorFlow 2: build a graph, and run it in a Session."
STATELESS = "Give the seed to the function of that name: random_normal, random_uniform."
SEVERAL_MACHINES = "Several machines: see minitorch.graph.PlacedSession, and the package ddp_lab."
OF_THE_GRAPH = "A graph is the Python that builds it; variables are saved by train.Saver."

WIDER: dict[str, dict[str, str]] = {
    "minitorch.graph": {
        WRITE_IT: """
            edit_distance extract_volume_patches nondifferentiable_batch_function segment_prod
            signal unsorted_segment_prod
            """,
        STRINGS: """
            decode_compressed parse_single_sequence_example parse_tensor serialize_tensor
            string_to_hash_bucket_strong
            """,
        SPARSE: """
            IndexedSlicesSpec RaggedTensor RaggedTensorSpec SparseFeature SparseTensorSpec
            convert_to_tensor_or_indexed_slices convert_to_tensor_or_sparse_tensor
            deserialize_many_sparse ragged serialize_many_sparse serialize_sparse sparse
            sparse_fill_empty_rows sparse_maximum sparse_merge sparse_reduce_max
            sparse_reduce_max_sparse sparse_reduce_sum_sparse sparse_reshape
            sparse_segment_sqrt_n sparse_to_indicator sparse_transpose
            """,
        QUANTIZED: """
            QUANTIZED_DTYPES fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars
            fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel
            fake_quant_with_min_max_vars_per_channel_gradient qint16 quantization
            quantized_concat quint16 to_bfloat16
            """,
        "Complex numbers are not here: keep two real parts.": """
            complex_abs to_complex128 to_complex64
            """,
        FILES: "FixedLenSequenceFeature LMDBReader io",
        LATER_VERSIONS: """
            GradientTape Module OptionalSpec TensorArraySpec TensorSpec TypeSpec
            UnconnectedGradients VariableAggregation VariableSynchronization autograph
            enable_control_flow_v2 enable_tensor_equality enable_v2_behavior
            enable_v2_tensorshape py_function
            type_spec_from_value wrap_function
            """,
        "Use map_fn.": "vectorized_map",
        "Compare __version__, or names.": "version_info",
        "Use control_dependencies(None), or build it before the block.": "init_scope",
        "Use check_numerics on the values that matter.": "add_check_numerics_ops",
        "Use set_random_seed; a node's seed is its own argument.": "get_seed",
        "Use recompute(fetches) of minitorch.graph.": "recompute_grad",
        "Use a custom_getter of variable_scope.": "variable_creator_scope",
        "Use scatter_update, or tensor_scatter_update.": "batch_scatter_update",
        "Lists, tuples and dicts are Python's: go through them before building.": "nest",
        "Runs of one session on one resource take turns: use a FIFOQueue.": """
            ConditionalAccumulatorBase CriticalSection
            """,
        "Make a variable for each part, and look rows up with embedding_lookup.": """
            create_partitioned_variables min_max_variable_partitioner
            variable_axis_size_partitioner
            """,
        'Devices are strings: device("cpu:0").': "DeviceSpec",
        "Set it in ConfigProto, or in Python beside the graph.": """
            GraphOptions config experimental load_file_system_library load_library
            """,
        "Here a summary is a dict of numbers: see summary.scalar and summary.FileWriter.": """
            LogMessage SummaryMetadata audio audio_summary
            """,
        "Use numpy.asarray; arrays are fed as they are.": "make_ndarray make_tensor_proto",
        "There is no build of TensorFlow behind this: see __version__.": """
            COMPILER_VERSION CXX11_ABI_FLAG GIT_VERSION GRAPH_DEF_VERSION
            GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER MONOLITHIC_BUILD
            """,
        OF_THE_GRAPH: "TensorInfo",
        "It has no counterpart here: see compile, optimize and PlacedSession.": """
            lite mlir private raw_ops resource tpu variant xla
            """,
    },
    "minitorch.graph.math": {
        WRITE_IT: """
            bessel_i0 bessel_i0e bessel_i1 bessel_i1e nextafter segment_prod sobol_sample special
            unsorted_segment_prod
            """,
    },
    "minitorch.graph.linalg": {
        "Keep the matrix itself, or a function that multiplies by it.": """
            LinearOperator LinearOperatorBlockDiag LinearOperatorCirculant
            LinearOperatorComposition LinearOperatorDiag LinearOperatorFullMatrix
            LinearOperatorIdentity LinearOperatorKronecker LinearOperatorLowRankUpdate
            LinearOperatorLowerTriangular LinearOperatorScaledIdentity LinearOperatorZeros
            """,
        "Use self_adjoint_eig of a symmetric matrix, or compute it by py_func.": """
            expm logm sqrtm
            """,
        "Use matrix_solve, which factorises by itself.": """
            lu tridiagonal_matmul tridiagonal_solve
            """,
        WRITE_IT: "experimental",
    },
    "minitorch.graph.random": {
        STATELESS: """
            stateless_binomial stateless_categorical stateless_gamma stateless_multinomial
            stateless_normal stateless_poisson stateless_truncated_normal stateless_uniform
            experimental
            """,
        "Use log_uniform_candidate_sampler.": """
            all_candidate_sampler fixed_unigram_candidate_sampler
            learned_unigram_candidate_sampler
            """,
        "Use set_random_seed; a node's seed is its own argument.": "get_seed",
    },
    "minitorch.graph.debugging": {
        "Use ensure_shape, or set_shape.": "assert_shapes",
        "Use check_numerics on the values that matter.": """
            disable_check_numerics enable_check_numerics
            """,
    },
    "minitorch.graph.nn": {
        "Use conv2d_transpose; fold one axis into another where there are more.": """
            atrous_conv2d_transpose conv1d_transpose conv_transpose
            """,
        "Three spatial axes are not here: fold one into the batch.": """
            conv3d_backprop_filter conv3d_backprop_filter_v2
            """,
        "Build the convolution, and ask gradients for it.": """
            depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input
            depthwise_conv2d_native_backprop_filter depthwise_conv2d_native_backprop_input
            """,
        "CTC's loss is not here.": """
            collapse_repeated ctc_beam_search_decoder_v2 ctc_loss_v2 ctc_unique_labels
            """,
        "Use reduce_sum(loss) / batch size.": """
            compute_average_loss scale_regularization_loss
            """,
        QUANTIZED: "quantized_avg_pool quantized_conv2d quantized_max_pool quantized_relu_x",
        "Use reshape and transpose.": "batch_to_space space_to_batch",
    },
    "minitorch.graph.layers": {
        "Three spatial axes are not here: fold one into the batch.": """
            AveragePooling3D Conv3D Conv3DTranspose MaxPooling3D average_pooling3d conv3d
            conv3d_transpose max_pooling3d
            """,
        "Use separable_conv2d on images one pixel high.": "SeparableConv1D separable_conv1d",
        "A layer reads the shape of its first input.": "InputSpec",
        LATER_VERSIONS: "experimental",
    },
    "minitorch.graph.train": {
        "Use Saver.": """
            Checkpoint CheckpointManager CheckpointOptions generate_checkpoint_state_proto
            """,
        "Write a SessionRunHook.": "CheckpointSaverListener SessionCreator",
        "Use pathlib on what get_checkpoint_state names.": """
            get_checkpoint_mtimes remove_checkpoint
            """,
        "Give arrays to data.Dataset: records and protocol buffers are not here.": """
            FeatureList FeatureLists
            """,
        "A FileWriter's lines are JSON: read them in Python.": "summary_iterator",
        "Use batch and shuffle_batch, or data.Dataset.": "maybe_shuffle_batch_join",
        "It is not here: use AdagradOptimizer, FtrlOptimizer or MomentumOptimizer.": """
            sdca_fprint sdca_optimizer sdca_shrink_l1
            """,
        "Use init_from_checkpoint.": "VocabInfo",
        "The names are in train itself.": "queue_runner",
        LATER_VERSIONS: "experimental",
        QUANTIZED: "do_quantize_training_on_graphdef",
    },
    "minitorch.graph.train.Saver": {
        OF_THE_GRAPH: "as_saver_def export_meta_graph from_proto to_proto",
    },
    "minitorch.graph.spaces.data": {
        "Say what you want of each step: shuffle(seed=), map, batch.": "Options",
        "Elements are tuples and dicts of dense values.": "get_output_classes",
    },
    "minitorch.graph.spaces.data.Dataset": {
        "Go through its iterator, and combine the elements in Python.": "reduce",
        "Use batch, and shift or overlap in NumPy before.": "window",
        "List files in Python, and give their arrays to from_generator.": "list_files",
        SPARSE: "from_sparse_tensor_slices",
        "Say what you want of each step: shuffle(seed=), map, batch.": "options with_options",
        "Elements are tuples and dicts of dense values.": "output_classes",
    },
    "minitorch.graph.spaces.data.Iterator": {
        "Use from_structure and an initializer for each dataset.": """
            from_string_handle string_handle
            """,
        "Elements are tuples and dicts of dense values.": "output_classes",
    },
    "minitorch.graph.spaces.data.experimental": {
        FILES: """
            CsvDataset SqlDataset TFRecordWriter make_batched_features_dataset make_csv_dataset
            """,
        "Use interleave, padded_batch, filter and map of Dataset.": """
            bucket_by_sequence_length choose_from_datasets group_by_reducer group_by_window
            ignore_errors parallel_interleave prefetch_to_device rejection_resample
            sample_from_datasets scan take_while unique
            """,
    },
    "minitorch.graph.spaces.image": {
        WRITE_IT: """
            combined_non_max_suppression extract_image_patches extract_patches
            non_max_suppression_overlaps non_max_suppression_padded
            non_max_suppression_with_scores ssim_multiscale
            """,
        "Read images in Python, and give arrays to data.Dataset.": """
            adjust_jpeg_quality decode_and_crop_jpeg decode_bmp is_jpeg random_jpeg_quality
            """,
        "Use resize_images, then pad_to_bounding_box.": "resize_image_with_pad",
    },
    "minitorch.graph.spaces.metrics": {
        THRESHOLDS: """
            false_negatives_at_thresholds false_positives_at_thresholds precision_at_top_k
            recall_at_top_k sparse_precision_at_k specificity_at_sensitivity
            true_negatives_at_thresholds true_positives_at_thresholds
            """,
    },
    "minitorch.graph.spaces.summary": {
        "Summaries are numbers here: use scalar and histogram, and print texts.": """
            Event SessionLog SummaryDescription get_summary_description
            """,
        "Build summaries, and run merge_all.": "all_v2_summary_ops initialize",
    },
    "minitorch.graph.spaces.logging": {
        "Log a line of text.": "TaskLevelStatusMessage",
    },
    "minitorch.graph.spaces.flags": {
        "Use DEFINE_list, and make numbers of its words.": """
            DEFINE_multi_float DEFINE_multi_integer DEFINE_multi_string
            """,
        "Give None for a default, and check it in main.": """
            mark_flag_as_required mark_flags_as_required
            """,
    },
    "minitorch.graph.spaces.contrib": {
        "Use nn, layers and train of minitorch.graph itself.": """
            autograph checkpoint cluster_resolver cudnn_rnn distribute estimator factorization
            feature_column gan graph_editor grid_rnn input_pipeline integrate kfac
            linear_optimizer memory_stats metric_learning model_pruning nn ops optimizer_v2
            predictor proto quantize recurrent resampler saved_model session_bundle signal
            solvers sparsemax staging stat_summarizer stateless summary tensor_forest tensorrt
            testing text tfprof timeseries tpu util
            """,
    },
    "minitorch.graph.spaces.contrib.layers": {
        "Use nn.bias_add, nn.relu6, nn.softmax, nn.l2_normalize.": """
            bias_add relu6 softmax unit_norm
            """,
        "Use summary.histogram.": "summarize_tensor summarize_tensors",
    },
    "minitorch.graph.spaces.contrib.framework": {
        "Give the arguments, or wrap the function with functools.partial.": """
            add_arg_scope arg_scope
            """,
        "Use trainable_variables(scope) and global_variables(scope).": """
            get_model_variables get_trainable_variables get_variables get_variables_to_restore
            """,
        "Use get_variable.": "model_variable variable",
        "Use train.init_from_checkpoint, train.list_variables or train.load_variable.": """
            assign_from_checkpoint init_from_checkpoint list_variables load_variable
            """,
        "Lists, tuples and dicts are Python's: go through them before building.": "nest",
    },
    "minitorch.graph.spaces.contrib.rnn": {
        "Use GRUCell, nn.embedding_lookup before the cell, and layers.dense behind it.": """
            EmbeddingWrapper GRUBlockCell InputProjectionWrapper OutputProjectionWrapper
            """,
    },
    "minitorch.graph.spaces.compat": {
        "It belongs to TensorFlow 2: v1 is minitorch.graph itself.": "v2",
        "Use pathlib and isinstance.": "path_to_str bytes_or_text_types",
    },
}
"""For each module: what to use instead, and of which names."""
