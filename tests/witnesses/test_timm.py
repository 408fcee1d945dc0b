"""Architectures of timm, pruned at random: changing inactive stored weights does not change the output."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.torchvision_models import models
from tests.witnesses.stored import examine, of_module, thin

Record = Callable[[str, object], None]
SIZES: dict[str, int] = {
    "bat_resnext26ts": 256, "botnet26t_256": 256, "cait_xxs24_224": 64, "coat_tiny": 64, "coatnet_pico_rw_224": 224,
    "convit_tiny": 64, "convmixer_768_32": 28, "convnext_atto": 64, "convnextv2_atto": 64, "crossvit_tiny_240": 240,
    "cs3darknet_s": 64, "cspresnet50": 64, "darknet17": 64, "davit_tiny": 64, "deit_tiny_patch16_224": 64,
    "densenet121": 64, "dla34": 64, "dpn48b": 64, "eca_nfnet_l0": 64, "edgenext_xx_small": 64,
    "efficientformer_l1": 224, "efficientformerv2_s0": 224, "efficientnet_b0": 64, "efficientnet_cc_b0_4e": 64,
    "efficientvit_b0": 64, "fastvit_t8": 64, "fbnetc_100": 64, "focalnet_tiny_srf": 64, "gcvit_xxtiny": 224,
    "gernet_s": 64, "ghostnet_100": 64, "gmlp_ti16_224": 224, "halonet26t": 256, "hardcorenas_a": 64,
    "hgnetv2_b0": 64, "hrnet_w18_small": 64, "inception_next_atto": 64, "inception_v3": 96, "lambda_resnet26t": 64,
    "lcnet_050": 64, "legacy_xception": 96, "levit_128s": 224, "maxvit_rmlp_pico_rw_256": 256, "mixer_s32_224": 224,
    "mixnet_s": 64, "mnasnet_050": 64, "mobilenetv3_small_050": 64, "mobilenetv4_conv_small_035": 64,
    "mobileone_s0": 64, "mobilevit_xxs": 64, "mobilevitv2_050": 64, "nest_tiny": 224, "nf_regnet_b0": 64,
    "nf_resnet26": 64, "nfnet_l0": 64, "pit_ti_224": 224, "poolformer_s12": 64, "pvt_v2_b0": 64, "regnetx_002": 64,
    "regnety_002": 64, "repghostnet_050": 64, "repvgg_a0": 64, "repvit_m0_9": 64, "res2net50_48w_2s": 64,
    "resmlp_12_224": 224, "resnest14d": 64, "resnet10t": 64, "resnetv2_50x1_bit": 64, "resnetv2_50": 64,
    "rexnet_100": 64, "selecsls42": 64, "semnasnet_075": 64, "sequencer2d_s": 64, "seresnext26ts": 64,
    "skresnet18": 64, "spnasnet_100": 64, "starnet_s050": 64, "swin_tiny_patch4_window7_224": 224,
    "swinv2_cr_tiny_224": 224, "tf_efficientnetv2_b0": 64, "tiny_vit_5m_224": 224, "tinynet_e": 64,
    "tnt_s_legacy_patch16_224": 224, "tresnet_m": 64, "twins_svt_small": 224, "vit_small_r26_s32_224": 224,
    "vit_tiny_r_s16_p8_224": 224, "visformer_tiny": 224, "volo_d1_224": 224, "vovnet39a": 64,
    "xcit_nano_12_p16_224": 64,
}  # fmt: skip
"""Image sizes: small if the model accepts them."""


def build(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the model, in float64 if it can run in it."""
    models()  # timm imports torchvision
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    size = SIZES[name]
    try:
        model = timm.create_model(name, num_classes=10, img_size=size)
    except TypeError:
        model = timm.create_model(name, num_classes=10)
    model = model.eval()
    x = torch.randn(1, 3, size, size)
    try:
        with torch.no_grad():
            model.double()(x.double())
        return model, (x.double(),)
    except RuntimeError:
        return model.float(), (x,)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_architectures(name: str, record_property: Record) -> None:
    model, args = build(name)
    thin(model, args)
    subject = of_module(model, args)
    assert subject.found
    seen = examine(subject)
    record_property("witness: 3 timm, architectures", 1)
    record_property("witness: 3 timm, inactive changed", seen.inactive)
    record_property("witness: 3 timm, active changed singly", seen.tried)
    record_property("witness: 3 timm, active that moved the output", seen.moved)
    assert seen.inactive
