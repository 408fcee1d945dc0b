"""The operators that a model file may name: those that compute their results from their arguments and do nothing
else. Everything that the lowering knows is one of them; further ones are listed here by name."""

from __future__ import annotations

from functools import cache

import torch

from effsparse_cli.formats.torch.registry import TABLE

NAMESPACES = ("aten", "prims")

CREATING = {
    "arange", "bartlett_window", "blackman_window", "empty", "empty_permuted", "empty_strided", "eye", "fft_fftfreq",
    "fft_rfftfreq", "full", "hamming_window", "hann_window", "kaiser_window", "linspace", "logspace", "ones", "range",
    "scalar_tensor", "tril_indices", "triu_indices", "zeros", "iota",
}  # fmt: skip
COMPUTING = {
    "_add_relu", "_aminmax", "_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int",
    "_cast_Long", "_cast_Short", "_chunk_cat", "_compute_linear_combination", "_conj_physical", "_conv_depthwise2d",
    "_convolution_mode", "_grouped_mm", "_int_mm", "_is_all_true", "_is_any_true", "_linalg_det", "_linalg_eigh",
    "_linalg_slogdet", "_linalg_solve_ex", "_linalg_svd", "_local_scalar_dense", "_logcumsumexp", "_masked_softmax",
    "_neg_view", "_pad_circular", "_pad_enum", "_pdist_forward", "_scaled_mm", "_stack", "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell", "_to_cpu", "_unsafe_masked_index", "_weight_norm", "_weight_norm_interface", "absolute",
    "addr", "allclose", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argwhere",
    "as_strided", "as_strided_scatter", "bincount", "bitwise_left_shift", "bitwise_right_shift", "block_diag",
    "cartesian_prod", "chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve", "col2im", "conv_depthwise3d",
    "conv_tbc", "corrcoef", "cov", "cross", "cumulative_trapezoid", "dequantize", "det", "diagflat", "diff", "dim",
    "dist", "equal", "fake_quantize_per_channel_affine", "fake_quantize_per_channel_affine_cachemask",
    "fake_quantize_per_tensor_affine_cachemask", "fft_fftshift", "fft_hfft", "fft_ifftshift", "fft_ihfft", "frexp",
    "frobenius_norm", "greater", "greater_equal", "histc", "huber_loss", "igamma", "igammac", "int_repr", "inverse",
    "is_complex", "is_conj", "is_floating_point", "is_neg", "is_nonzero", "is_same_size", "isin", "isreal", "item",
    "kl_div", "kron", "l1_loss", "lcm", "less", "less_equal", "lift", "linalg_cholesky", "linalg_cholesky_ex",
    "linalg_cross", "linalg_det", "linalg_eigh", "linalg_eigvalsh", "linalg_householder_product", "linalg_inv",
    "linalg_inv_ex", "linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex", "linalg_lu_solve", "linalg_matmul",
    "linalg_matrix_exp", "linalg_matrix_norm", "linalg_matrix_power", "linalg_multi_dot", "linalg_norm", "linalg_pinv",
    "linalg_qr", "linalg_slogdet", "linalg_solve", "linalg_solve_ex", "linalg_solve_triangular", "linalg_svd",
    "linalg_svdvals", "linalg_vecdot", "log_sigmoid_forward", "logdet", "lu_solve", "lu_unpack", "masked_select",
    "matrix_exp", "matrix_power", "mse_loss", "msort", "mvlgamma", "nanquantile", "negative", "nonzero",
    "nonzero_numpy", "nonzero_static", "norm_except_dim", "not_equal", "nuclear_norm", "numel", "orgqr",
    "pairwise_distance", "pinverse", "polygamma", "qr", "quantile", "renorm", "repeat_interleave", "row_stack",
    "searchsorted", "signbit", "size", "slogdet", "special_entr", "special_erf", "special_erfc", "special_erfcx",
    "special_erfinv", "special_exp2", "special_expit", "special_gammaln", "special_i0", "special_i0e", "special_i1",
    "special_i1e", "special_log1p", "special_log_ndtr", "special_log_softmax", "special_logit", "special_logsumexp",
    "special_ndtr", "special_ndtri", "special_psi", "special_round", "special_sinc", "special_softmax",
    "special_xlog1py", "special_xlogy", "std", "stft", "istft", "storage_offset", "stride", "sum_to_size", "svd",
    "sym_is_contiguous", "sym_storage_offset", "sym_stride", "trace", "trapezoid", "triangular_solve", "unique_dim",
    "_unique2", "unique_consecutive", "vander", "linalg_vander", "broadcast_in_dim", "view_of",
}  # fmt: skip
RANDOM = {
    "alpha_dropout", "bernoulli", "binomial", "cauchy", "dropout", "exponential", "feature_alpha_dropout",
    "feature_dropout", "geometric", "log_normal", "multinomial", "native_dropout", "normal", "poisson", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "random", "randperm", "rrelu", "rrelu_with_noise",
    "uniform",
}  # fmt: skip
"""Their results differ from run to run, unless they are told that this is no training."""
ASSERTING = {
    "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_functional_assert_async",
    "_functional_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size",
    "_functional_sym_constrain_range", "_functional_sym_constrain_range_for_size",
}  # fmt: skip
TEXTS = {
    "approximate", "assert_msg", "driver", "equation", "indexing", "interpolation", "mode", "norm", "ord", "pad_mode",
    "padding", "reduce", "rounding_mode", "side", "UPLO",
}  # fmt: skip
"""The arguments that may be text: each names one of a few ways to compute."""


@cache
def _pure() -> frozenset[str]:
    from effsparse_cli.formats.torch import ops  # noqa: F401  fills the table

    known = {name.partition(".")[0] for name in TABLE if "::" not in name}
    return frozenset((known | CREATING | COMPUTING) - RANDOM)


@cache
def is_pure(target: torch._ops.OpOverload) -> bool:
    """Same arguments, same results, and nothing else happens. An in-place form counts as the operator itself."""
    return _is_in(target, _pure())


@cache
def may_be_named(target: torch._ops.OpOverload) -> bool:
    """Whether a file's graph may call it: what is pure, random numbers, and assertions."""
    return _is_in(target, _pure() | RANDOM | ASSERTING)


def _is_in(target: torch._ops.OpOverload, names: frozenset[str]) -> bool:
    name = target.overloadpacket.__name__
    forms = (name, name.removesuffix("_"), name.removesuffix("_copy"))
    writes_out = any(argument.is_out for argument in target._schema.arguments)
    return target.namespace in NAMESPACES and not writes_out and any(form in names for form in forms)
