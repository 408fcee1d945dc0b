"""Operators without a lowering: they are evaluated on constants, and become Opaque if they get something live. Also
random numbers and assertions, which a file may contain but which are never evaluated."""

from __future__ import annotations

from effsparse_cli.formats.torch.constants import costs
from effsparse_cli.formats.torch.operators import evaluated

# New tensors

evaluated("empty", "full", "ones", "zeros", result_size=costs.filled)
evaluated("arange", result_size=costs.arange)
evaluated("linspace", result_size=lambda arguments, _: int(arguments["steps"]))
evaluated("eye", result_size=lambda arguments, _: int(arguments["n"]) * int(arguments.get("m", arguments["n"])))
evaluated("scalar_tensor", result_size=costs.total)

evaluated(
    "bartlett_window", "blackman_window", "empty_permuted", "empty_strided", "fft_fftfreq", "fft_rfftfreq",
    "hamming_window", "hann_window", "iota", "kaiser_window", "logspace", "range", "tril_indices", "triu_indices",
)  # fmt: skip

# Results whose size or existence depends on values

evaluated("_local_scalar_dense", "equal", "is_nonzero", "item", "nonzero", size_from_values=True, decides=True)

evaluated(
    "_is_all_true", "_is_any_true", "_unique2", "allclose", "argwhere", "bincount", "masked_select", "nonzero_numpy",
    "unique_consecutive", "unique_dim",
    size_from_values=True,
)  # fmt: skip

# Linear algebra: cubic in the size of a matrix

evaluated("kron", result_size=costs.product, steps=costs.summed_products)
evaluated("chain_matmul", "linalg_multi_dot", steps=costs.summed_products)

evaluated(
    "linalg_inv", "linalg_matrix_exp", "linalg_qr", "matrix_exp",
    result_size=costs.total, steps=costs.decomposition,
)  # fmt: skip

evaluated(
    "_linalg_det", "_linalg_eigh", "_linalg_slogdet", "_linalg_solve_ex", "_linalg_svd", "cholesky", "cholesky_inverse",
    "cholesky_solve", "det", "inverse", "linalg_cholesky", "linalg_cholesky_ex", "linalg_cross", "linalg_det",
    "linalg_eigh", "linalg_eigvalsh", "linalg_householder_product", "linalg_inv_ex", "linalg_lu", "linalg_lu_factor",
    "linalg_lu_factor_ex", "linalg_lu_solve", "linalg_matmul", "linalg_matrix_norm", "linalg_matrix_power",
    "linalg_norm", "linalg_pinv", "linalg_slogdet", "linalg_solve", "linalg_solve_ex", "linalg_solve_triangular",
    "linalg_svd", "linalg_svdvals", "linalg_vander", "linalg_vecdot", "matrix_power", "orgqr", "pinverse", "qr",
    "slogdet", "svd",
    steps=costs.decomposition,
)  # fmt: skip

evaluated("_int_mm", "_scaled_mm", steps=costs.longest_axis)

# Everything else that is pure

evaluated("_stack", "diff", "norm_except_dim", "row_stack", "trace", result_size=costs.total)

evaluated(
    "_add_relu", "_aminmax", "_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int",
    "_cast_Long", "_cast_Short", "_chunk_cat", "_compute_linear_combination", "_conj_physical", "_conv_depthwise2d",
    "_convolution_mode", "_grouped_mm", "_logcumsumexp", "_masked_softmax", "_neg_view", "_pad_circular", "_pad_enum",
    "_pdist_forward", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell", "_to_cpu", "_unsafe_masked_index", "absolute",
    "addr", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "as_strided",
    "as_strided_scatter", "bitwise_left_shift", "bitwise_right_shift", "block_diag", "broadcast_in_dim",
    "cartesian_prod", "col2im", "conv_depthwise3d", "conv_tbc", "corrcoef", "cov", "cross", "cumulative_trapezoid",
    "dequantize", "diagflat", "dim", "dist", "fake_quantize_per_channel_affine",
    "fake_quantize_per_channel_affine_cachemask", "fake_quantize_per_tensor_affine_cachemask", "fft_fftshift",
    "fft_hfft", "fft_ifftshift", "fft_ihfft", "frexp", "frobenius_norm", "greater", "greater_equal", "histc",
    "huber_loss", "igamma", "igammac", "int_repr", "is_complex", "is_conj", "is_floating_point", "is_neg",
    "is_same_size", "isin", "isreal", "istft", "kl_div", "l1_loss", "lcm", "less", "less_equal", "lift",
    "log_sigmoid_forward", "logdet", "lu_solve", "lu_unpack", "mse_loss", "msort", "mvlgamma", "nanquantile",
    "negative", "nonzero_static", "not_equal", "nuclear_norm", "numel", "pairwise_distance", "polygamma", "quantile",
    "renorm", "repeat_interleave", "searchsorted", "signbit", "size", "special_entr", "special_erf", "special_erfc",
    "special_erfcx", "special_erfinv", "special_exp2", "special_expit", "special_gammaln", "special_i0", "special_i0e",
    "special_i1", "special_i1e", "special_log1p", "special_log_ndtr", "special_log_softmax", "special_logit",
    "special_logsumexp", "special_ndtr", "special_ndtri", "special_psi", "special_round", "special_sinc",
    "special_softmax", "special_xlog1py", "special_xlogy", "stft", "storage_offset", "stride", "sum_to_size",
    "sym_is_contiguous", "sym_storage_offset", "sym_stride", "trapezoid", "triangular_solve", "vander", "view_of",
)  # fmt: skip

# Random numbers, unless called outside of training

evaluated(
    "binomial", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "poisson", "rand",
    "randint", "randn", "random", "randperm", "rrelu_with_noise", "uniform",
    effect="random",
)  # fmt: skip

# Assertions, which held when the model was traced

evaluated(
    "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_functional_assert_async",
    "_functional_assert_scalar", "_functional_sym_constrain_range", "_functional_sym_constrain_range_for_size",
    "sym_constrain_range", "sym_constrain_range_for_size",
    effect="asserts",
)  # fmt: skip
