"""Names of TensorFlow 1 that are not here, by family, and what to use instead of each."""

from __future__ import annotations

from typing import Any

from .absent_wider import WIDER

FAMILIES: dict[str, str] = {
    "Use custom_gradient, or write an operator with its own gradient as a subclass of "
    "minitorch.Op.": """
        NoGradient NotDifferentiable RegisterGradient no_gradient
        """,
    "Open variable_scope(name, reuse=AUTO_REUSE) inside the function.": """
        op_scope variable_op_scope
        """,
    "Write it with operators that are here, or compute it by py_func.": """
        Defun angle batch_to_space batch_to_space_nd betainc bitcast bitwise cumulative_logsumexp
        edit_distance extract_image_patches fixed_size_partitioner function guarantee_const
        igamma igammac matrix_exponential matrix_square_root required_space_to_batch_paddings
        sets space_to_batch space_to_batch_nd
        """,
    "Draw with NumPy and feed it, or use py_func.": "random_gamma random_poisson",
    "Use Assert, assert_equal and the others of its kind, or a check in Python.": """
        assert_proper_iterable assert_same_float_dtype assert_variables_initialized
        """,
    "Eager code is minitorch itself: minitorch.Tensor, and minitorch.graph.jit.": """
        enable_eager_execution
        """,
    "Fetch the value, and feed it where it is needed.": """
        delete_session_tensor get_session_handle get_session_tensor
        """,
    "Use FIFOQueue, PaddingFIFOQueue or RandomShuffleQueue.": """
        Barrier ConditionalAccumulator PriorityQueue SparseConditionalAccumulator StagingArea
        """,
    "Use get_variable with trainable=False and collections=[GraphKeys.LOCAL_VARIABLES].": """
        get_local_variable
        """,
    "Use device and control_dependencies.": "colocate_with container",
    "Use int32 or int64.": "uint16 uint32 uint64",
    "Shapes broadcast as NumPy's do: use shape, or static shapes as lists.": """
        broadcast_dynamic_shape broadcast_static_shape
        """,
    "Here a summary is a dict of numbers: see summary.scalar and summary.FileWriter.": """
        Event HistogramProto SessionLog Summary
        """,
    "Draw and count with operators that are here; densities are formulas.": "distributions",
    "See minitorch.graph.profile and explain.": "profiler",
    "Strings are for Python: make arrays of numbers before the graph, or use py_func.": """
        as_string decode_base64 decode_csv decode_json_example decode_raw encode_base64
        reduce_join regex_replace string string_join string_split string_strip
        string_to_hash_bucket string_to_hash_bucket_fast string_to_number strings substr
        """,
    "Look words up in a dict of Python's, and feed the numbers.": """
        lookup tables_initializer initialize_all_tables
        """,
    "Sparse values are not here: use gather, scatter_nd, or embedding_lookup for rows.": """
        IndexedSlices SparseTensor SparseTensorValue sparse_add sparse_concat sparse_matmul
        sparse_mask sparse_minimum sparse_placeholder sparse_reduce_sum sparse_reorder
        sparse_reset_shape sparse_retain sparse_segment_mean sparse_segment_sum sparse_slice
        sparse_softmax sparse_split sparse_tensor_dense_matmul sparse_tensor_to_dense
        sparse_to_dense
        """,
    "Read files in Python, and give arrays to data.Dataset or train.slice_input_producer.": """
        FixedLengthRecordReader IdentityReader ReaderBase TFRecordReader TextLineReader
        WholeFileReader FixedLenFeature VarLenFeature parse_example parse_single_example
        python_io read_file write_file matching_files gfile
        """,
    "Complex numbers are not here: keep two real parts.": """
        complex complex64 complex128 conj fft fft2d fft3d ifft ifft2d ifft3d imag real spectral
        """,
    "Quantized numbers are not here.": """
        quantize dequantize quantize_v2 fake_quant_with_min_max_args qint8 quint8 qint32 bfloat16
        """,
    "Write the loop: a Session, a step and the hooks of train.MonitoredTrainingSession.": """
        estimator feature_column keras
        """,
    "Several machines: see minitorch.graph.PlacedSession, and the package ddp_lab.": """
        distribute
        """,
    "A graph is the Python that builds it; variables are saved by train.Saver.": """
        AttrValue GraphDef MetaGraphDef NameAttrList NodeDef graph_util import_graph_def
        saved_model
        """,
    "Set it in Python, beside the graph.": """
        load_op_library register_tensor_conversion_function resource_loader sysconfig test
        user_ops
        """,
}

NETWORKS: dict[str, str] = {
    "Use conv2d, atrous_conv2d or conv1d.": "convolution with_space_to_batch",
    "Use max_pool or avg_pool.": "dilation2d erosion2d max_pool_with_argmax pool",
    "Build the convolution, and ask gradients for it.": """
        conv2d_backprop_filter conv2d_backprop_input
        """,
    "Use moments and batch_normalization.": """
        batch_norm_with_global_normalization normalize_moments sufficient_statistics
        """,
    "It would count classes between runs: sort them by frequency and use "
    "log_uniform_candidate_sampler.": """
        learned_unigram_candidate_sampler fixed_unigram_candidate_sampler all_candidate_sampler
        compute_accidental_hits
        """,
    "Sparse values are not here: use embedding_lookup and segment_sum.": """
        embedding_lookup_sparse safe_embedding_lookup_sparse
        """,
    "CTC's loss is not here.": "ctc_beam_search_decoder ctc_greedy_decoder ctc_loss",
    "Three spatial axes are not here: fold one into the batch.": """
        conv3d conv3d_transpose avg_pool3d max_pool3d
        """,
    "Fractional pools are not here: use image.resize_images.": """
        fractional_avg_pool fractional_max_pool
        """,
    "The cells are in nn.rnn_cell; a loop that a function drives is while_loop.": """
        raw_rnn static_state_saving_rnn
        """,
}

DATA: dict[str, str] = {
    "Read files in Python, and give arrays to from_tensor_slices or from_generator.": """
        FixedLengthRecordDataset TFRecordDataset TextLineDataset
        """,
}

IMAGES: dict[str, str] = {
    "Write it with operators that are here, or compute it by py_func.": """
        crop_and_resize draw_bounding_boxes extract_glimpse non_max_suppression
        sample_distorted_bounding_box
        """,
    "Read images in Python, and give arrays to data.Dataset.": """
        decode_gif decode_image decode_jpeg decode_png encode_jpeg encode_png extract_jpeg_shape
        """,
    "It is not here: use resize_bilinear or resize_nearest_neighbor.": """
        resize_area resize_bicubic
        """,
}

TRAINING: dict[str, str] = {
    "Use cosine_decay, polynomial_decay or exponential_decay.": """
        linear_cosine_decay_restarts noisy_linear_cosine_decay
        """,
    "Write a SessionRunHook; minitorch.graph.profile records runs.": """
        GlobalStepWaiterHook ProfilerHook StepCounterHook
        """,
    "A Saver of a dict from names in the file to variables restores a part of it; "
    "minitorch.load gives all its arrays.": """
        checkpoints_iterator update_checkpoint_state warm_start
        """,
    "Use MonitoredTrainingSession.": """
        SessionManager WorkerSessionCreator assert_global_step basic_train_loop
        """,
    "Use batch and shuffle_batch, or data.Dataset.": """
        batch_join maybe_batch maybe_batch_join maybe_shuffle_batch shuffle_batch_join
        """,
    "Give arrays to data.Dataset: records and protocol buffers are not here.": """
        BytesList Example Feature Features FloatList Int64List SequenceExample
        """,
    "Several machines: see minitorch.graph.PlacedSession, and the package ddp_lab.": """
        ClusterDef ClusterSpec JobDef Server ServerDef SyncReplicasOptimizer
        replica_device_setter
        """,
    "Read files in Python, and give arrays to data.Dataset or train.slice_input_producer.": """
        match_filenames_once string_input_producer
        """,
    "A graph is the Python that builds it; variables are saved by train.Saver.": """
        export_meta_graph import_meta_graph write_graph
        """,
    "It is not here: use AdagradOptimizer, FtrlOptimizer or MomentumOptimizer.": """
        AdagradDAOptimizer ProximalAdagradOptimizer ProximalGradientDescentOptimizer
        """,
}


CONTRIB: dict[str, str] = {
    "Use layers: conv2d, max_pooling2d, dense, batch_normalization.": "slim",
    "Use nn.dynamic_rnn and nn.rnn_cell; attention is matmul and nn.softmax.": """
        legacy_seq2seq seq2seq
        """,
    "Write the loop: a Session, a step and the hooks of train.MonitoredTrainingSession.": """
        eager keras learn opt tensorboard training
        """,
    "Use data, metrics and losses of minitorch.graph itself.": "data losses metrics",
    "It is not here: write it with operators, or compute it by py_func.": """
        crf distributions image lookup
        """,
}

CONTRIB_LAYERS: dict[str, str] = {
    "Use minitorch.graph.layers: conv2d, conv2d_transpose, max_pooling2d, average_pooling2d, "
    "dropout, batch_normalization.": """
        avg_pool2d conv2d conv2d_transpose convolution2d convolution dropout max_pool2d repeat
        separable_conv2d stack
        """,
    "Use nn.moments over the last axes, and nn.batch_normalization.": """
        instance_norm layer_norm
        """,
    "Use one_hot or nn.embedding_lookup.": "embed_sequence one_hot_encoding",
    "Add regularizer(variable) to the loss, or give the layer its kernel_regularizer.": """
        apply_regularization l1_l2_regularizer sum_regularizer
        """,
    "Use an optimizer of train, and its minimize.": "optimize_loss",
}

CONTRIB_RNN: dict[str, str] = {
    "Use BasicLSTMCell, LSTMCell or GRUCell.": """
        AttentionCellWrapper CoupledInputForgetGateLSTMCell FusedRNNCell GridLSTMCell
        LSTMBlockCell LSTMBlockFusedCell LayerNormBasicLSTMCell NASCell PhasedLSTMCell UGRNNCell
        """,
    "Use nn.bidirectional_dynamic_rnn once for each layer.": """
        stack_bidirectional_dynamic_rnn stack_bidirectional_rnn
        """,
}

SUMMARIES: dict[str, str] = {
    "Summaries are numbers here: use scalar and histogram, and print texts.": """
        Summary TaggedRunMetadata audio tensor_summary text
        """,
    "Keep the FileWriter that you made.": "FileWriterCache",
}

METRICS: dict[str, str] = {
    "Fetch the predictions and count them in NumPy, or use confusion_matrix.": """
        average_precision_at_k precision_at_k precision_at_thresholds recall_at_k
        recall_at_thresholds sensitivity_at_specificity sparse_average_precision_at_k
        """,
}


def _by_name(families: dict[str, str]) -> dict[str, str]:
    return {name: instead for instead, names in families.items() for name in names.split()}


ABSENT = {
    "minitorch.graph": _by_name(FAMILIES),
    "minitorch.graph.spaces.contrib": _by_name(CONTRIB),
    "minitorch.graph.spaces.contrib.layers": _by_name(CONTRIB_LAYERS),
    "minitorch.graph.spaces.contrib.rnn": _by_name(CONTRIB_RNN),
    "minitorch.graph.spaces.data": _by_name(DATA),
    "minitorch.graph.spaces.image": _by_name(IMAGES),
    "minitorch.graph.spaces.metrics": _by_name(METRICS),
    "minitorch.graph.spaces.summary": _by_name(SUMMARIES),
    "minitorch.graph.nn": _by_name(NETWORKS),
    "minitorch.graph.train": _by_name(TRAINING),
}
"""For each module, what to use instead of a name that it does not have."""

for _module, _families in WIDER.items():
    ABSENT.setdefault(_module, {}).update(_by_name(_families))


class Named(type):
    """A class of names, which says of one that it does not have what to use instead."""

    known_as: str

    def __getattr__(cls, name: str) -> Any:
        raise no_attribute(cls.known_as, name)


def no_attribute(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have; says what to use, if it knows."""
    instead = ABSENT.get(module, {}).get(name)
    known = "" if instead is None else f". It is TensorFlow's, but not supported here. {instead}"
    return AttributeError(f"module {module!r} has no attribute {name!r}{known}")
