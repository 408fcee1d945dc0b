"""Tiny models of many Hugging Face families: text, images and sound. Name -> class and configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.formats.torch.hf_models import transformers

SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
}  # fmt: skip
WORDS: dict[str, Any] = {
    "vocab_size": 40, "max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BERT = {**SIZES, **WORDS, "type_vocab_size": 2}
LLAMA = {**SIZES, **WORDS, "num_key_value_heads": 1}
EXPERTS = {
    **LLAMA, "num_hidden_layers": 1, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
}  # fmt: skip
LATENT = {
    **EXPERTS, "num_key_value_heads": 2, "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 0,
    "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8,
}  # fmt: skip
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, **WORDS}
PAIR = {
    **WORDS, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_start_token_id": 0,
}  # fmt: skip
T5 = {
    "vocab_size": 40, "d_model": 16, "d_kv": 8, "num_heads": 2, "num_layers": 2, "d_ff": 32,
    "decoder_start_token_id": 0,
}  # fmt: skip
IMAGES = {**SIZES, "image_size": 16, "patch_size": 8, "num_labels": 3}
PYRAMID = {
    "num_labels": 3, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "embedding_size": 8, "image_size": 64,
    "num_attention_heads": [1, 1, 2, 2], "sr_ratios": [2, 2, 1, 1], "decoder_hidden_size": 16,
    "mlp_ratios": [2, 2, 2, 2],
}  # fmt: skip
SOUND = {
    **SIZES, "vocab_size": 20, "conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2],
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    name: str
    config: dict[str, Any]

    def build(self) -> Any:
        made = getattr(transformers, self.name)
        return made(made.config_class(**self.config))


FAMILIES: dict[str, Family] = {
    "llama": Family("LlamaForCausalLM", LLAMA),
    "mistral": Family("MistralForCausalLM", {**LLAMA, "head_dim": 8}),
    "qwen2": Family("Qwen2ForCausalLM", LLAMA),
    "qwen3": Family("Qwen3ForCausalLM", {**LLAMA, "head_dim": 8}),
    "gemma": Family("GemmaForCausalLM", {**LLAMA, "head_dim": 8}),
    "gemma2": Family("Gemma2ForCausalLM", {**LLAMA, "head_dim": 8}),
    "gemma3": Family("Gemma3ForCausalLM", {**LLAMA, "head_dim": 8}),
    "phi": Family("PhiForCausalLM", {**LLAMA, "num_key_value_heads": 2}),
    "phi3": Family("Phi3ForCausalLM", LLAMA),
    "falcon": Family("FalconForCausalLM", {**SIZES, **WORDS}),
    "gpt2": Family("GPT2LMHeadModel", GPT),
    "gptj": Family("GPTJForCausalLM", {**GPT, "rotary_dim": 4}),
    "gpt_neox": Family("GPTNeoXForCausalLM", {**SIZES, **WORDS}),
    "gpt_bigcode": Family("GPTBigCodeForCausalLM", GPT),
    "codegen": Family("CodeGenForCausalLM", {**GPT, "n_head": 4, "rotary_dim": 4}),
    "opt": Family("OPTForCausalLM", {**SIZES, **WORDS, "ffn_dim": 32, "word_embed_proj_dim": 16}),
    "bloom": Family("BloomForCausalLM", {"hidden_size": 16, "n_layer": 2, "n_head": 2, **WORDS}),
    "stablelm": Family("StableLmForCausalLM", LLAMA),
    "starcoder2": Family("Starcoder2ForCausalLM", LLAMA),
    "cohere": Family("CohereForCausalLM", LLAMA),
    "olmo2": Family("Olmo2ForCausalLM", LLAMA),
    "granite": Family("GraniteForCausalLM", LLAMA),
    "nemotron": Family("NemotronForCausalLM", LLAMA),
    "persimmon": Family("PersimmonForCausalLM", {**SIZES, **WORDS}),
    "glm": Family("GlmForCausalLM", {**LLAMA, "head_dim": 8}),
    "xglm": Family("XGLMForCausalLM", {**WORDS, "d_model": 16, "num_layers": 2, "attention_heads": 2, "ffn_dim": 32}),
    "mamba": Family("MambaForCausalLM", {**WORDS, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}),
    "mamba2": Family(
        "Mamba2ForCausalLM",
        {
            **WORDS, "hidden_size": 16, "num_hidden_layers": 1,
            "state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 1,
        },
    ),
    "falcon_mamba": Family(
        "FalconMambaForCausalLM", {**WORDS, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    ),
    "bamba": Family(
        "BambaForCausalLM",
        {
            **LLAMA, "mamba_d_state": 4, "mamba_n_heads": 4,
            "mamba_d_head": 8, "mamba_n_groups": 1, "attn_layer_indices": [1],
        },
    ),
    "recurrent_gemma": Family("RecurrentGemmaForCausalLM", {**LLAMA, "head_dim": 8, "lru_width": 16}),
    "mixtral": Family("MixtralForCausalLM", EXPERTS),
    "qwen2_moe": Family("Qwen2MoeForCausalLM", {**EXPERTS, "shared_expert_intermediate_size": 12}),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", {**EXPERTS, "head_dim": 8}),
    "deepseek_v2": Family("DeepseekV2ForCausalLM", LATENT),
    "deepseek_v3": Family("DeepseekV3ForCausalLM", LATENT),
    "olmoe": Family("OlmoeForCausalLM", EXPERTS),
    "phimoe": Family("PhimoeForCausalLM", EXPERTS),
    "minimax": Family("MiniMaxForCausalLM", {**EXPERTS, "head_dim": 8}),
    "glm4_moe": Family("Glm4MoeForCausalLM", {**LATENT, "num_key_value_heads": 1, "head_dim": 8}),
    "ernie4_5_moe": Family(
        "Ernie4_5_MoeForCausalLM", {**EXPERTS, "num_hidden_layers": 2, "moe_num_experts": 4, "moe_k": 2}
    ),
    "jamba": Family(
        "JambaForCausalLM",
        {
            **EXPERTS, "num_hidden_layers": 2, "mamba_d_state": 4, "mamba_dt_rank": 4, "attn_layer_period": 2,
            "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "use_mamba_kernels": False,
        },
    ),
    "jetmoe": Family("JetMoeForCausalLM", {**EXPERTS, "kv_channels": 8}),
    "gpt_oss": Family("GptOssForCausalLM", {**EXPERTS, "head_dim": 8}),
    "granitemoe": Family("GraniteMoeForCausalLM", EXPERTS),
    "llama4": Family("Llama4ForCausalLM", {**EXPERTS, "head_dim": 8, "intermediate_size_mlp": 32}),
    "bert": Family("BertForSequenceClassification", BERT),
    "roberta": Family("RobertaForSequenceClassification", BERT),
    "albert": Family("AlbertForMaskedLM", {**BERT, "embedding_size": 8}),
    "distilbert": Family(
        "DistilBertForSequenceClassification",
        {**WORDS, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    ),
    "electra": Family("ElectraForSequenceClassification", {**BERT, "embedding_size": 8}),
    "deberta": Family("DebertaModel", {**BERT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "deberta_v2": Family("DebertaV2Model", {**BERT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "mpnet": Family("MPNetModel", BERT),
    "longformer": Family("LongformerModel", {**BERT, "attention_window": 4}),
    "xlnet": Family("XLNetModel", {"vocab_size": 40, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}),
    "funnel": Family(
        "FunnelModel",
        {"vocab_size": 40, "block_sizes": [1, 1], "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32},
    ),
    "esm": Family("EsmForMaskedLM", {**BERT, "mask_token_id": 3}),
    "fnet": Family("FNetModel", BERT),
    "mobilebert": Family(
        "MobileBertModel",
        {**BERT, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    ),
    "modernbert": Family("ModernBertForMaskedLM", {**SIZES, **WORDS, "cls_token_id": 1, "sep_token_id": 2}),
    "nystromformer": Family("NystromformerModel", BERT),
    "rembert": Family("RemBertModel", {**BERT, "input_embedding_size": 8, "output_embedding_size": 8}),
    "roformer": Family("RoFormerModel", {**BERT, "embedding_size": 8}),
    "convbert": Family("ConvBertModel", {**BERT, "embedding_size": 8}),
    "canine": Family("CanineModel", BERT),
    "t5": Family("T5ForConditionalGeneration", T5),
    "switch_transformers": Family(
        "SwitchTransformersForConditionalGeneration",
        {
            **T5, "num_experts": 2,
            "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "num_decoder_layers": 2,
        },
    ),
    "bart": Family("BartForConditionalGeneration", PAIR),
    "marian": Family("MarianMTModel", PAIR),
    "pegasus": Family("PegasusForConditionalGeneration", PAIR),
    "m2m_100": Family("M2M100ForConditionalGeneration", PAIR),
    "vit": Family("ViTForImageClassification", IMAGES),
    "deit": Family("DeiTForImageClassification", IMAGES),
    "beit": Family("BeitForImageClassification", IMAGES),
    "swin": Family(
        "SwinForImageClassification",
        {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4},
    ),
    "swinv2": Family(
        "Swinv2ForImageClassification",
        {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4},
    ),
    "dinov2": Family("Dinov2ForImageClassification", IMAGES),
    "vit_mae": Family("ViTMAEModel", IMAGES),
    "vit_msn": Family("ViTMSNModel", IMAGES),
    "siglip_vision": Family("SiglipVisionModel", IMAGES),
    "clip": Family(
        "CLIPModel", {"text_config": BERT, "vision_config": IMAGES, "projection_dim": 8},
    ),
    "convnext": Family("ConvNextForImageClassification", {**PYRAMID, "num_stages": 4}),
    "convnextv2": Family("ConvNextV2ForImageClassification", {**PYRAMID, "num_stages": 4}),
    "resnet": Family("ResNetForImageClassification", PYRAMID),
    "regnet": Family("RegNetForImageClassification", {**PYRAMID, "groups_width": 8}),
    "segformer": Family("SegformerForImageClassification", PYRAMID),
    "poolformer": Family("PoolFormerForImageClassification", PYRAMID),
    "pvt": Family("PvtForImageClassification", {**PYRAMID, "sequence_reduction_ratios": [2, 2, 1, 1]}),
    "levit": Family(
        "LevitForImageClassification",
        {
            "image_size": 64, "hidden_sizes": [16, 16, 16],
            "depths": [1, 1, 1], "num_attention_heads": [2, 2, 2], "key_dim": [8, 8, 8],
        },
    ),
    "mobilenet_v1": Family("MobileNetV1ForImageClassification", {"image_size": 32, "depth_multiplier": 0.25}),
    "mobilenet_v2": Family("MobileNetV2ForImageClassification", {"image_size": 32, "depth_multiplier": 0.25}),
    "mobilevit": Family(
        "MobileViTForImageClassification",
        {
            "image_size": 64, "hidden_sizes": [8, 8, 8],
            "neck_hidden_sizes": [8, 8, 8, 8, 8, 8, 16], "num_attention_heads": 2,
        },
    ),
    "superpoint": Family(
        "SuperPointForKeypointDetection",
        {"encoder_hidden_sizes": [8, 8, 8, 8], "decoder_hidden_size": 8, "descriptor_decoder_dim": 8},
    ),
    "bit": Family("BitForImageClassification", {**PYRAMID, "num_groups": 4}),
    "wav2vec2": Family("Wav2Vec2ForCTC", SOUND),
    "hubert": Family("HubertForCTC", SOUND),
    "wavlm": Family("WavLMForCTC", SOUND),
    "whisper": Family(
        "WhisperForConditionalGeneration",
        {**PAIR, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16},
    ),
    "audio_spectrogram_transformer": Family(
        "ASTForAudioClassification",
        {**SIZES, "patch_size": 8, "max_length": 24, "num_mel_bins": 16, "time_stride": 8, "frequency_stride": 8},
    ),
    "speech_to_text": Family(
        "Speech2TextForConditionalGeneration",
        {
            **PAIR, "input_feat_per_channel": 8,
            "conv_channels": 16, "max_source_positions": 32, "max_target_positions": 16,
        },
    ),
}  # fmt: skip
