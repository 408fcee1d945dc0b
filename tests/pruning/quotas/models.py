"""The layers of the paper's models, for which reference values of quotas are known."""

from __future__ import annotations

from effsparse_cli.pruning.quotas import LayerSize

VGG16 = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
VGG19 = (64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512, 512)


def linear(fan_in: int, out: int) -> LayerSize:
    return LayerSize(f"linear {fan_in}-{out}", (out, fan_in), "linear")


def conv(fan_in: int, out: int, kernel: int) -> LayerSize:
    return LayerSize(f"conv {fan_in}-{out}", (out, fan_in, kernel, kernel), "conv2d")


def lenet_300_100() -> list[LayerSize]:
    return [linear(784, 300), linear(300, 100), linear(100, 10)]


def lenet_5() -> list[LayerSize]:
    return [conv(3, 6, 5), conv(6, 16, 5), linear(400, 120), linear(120, 84), linear(84, 10)]


def vgg(widths: tuple[int, ...], classes: int) -> list[LayerSize]:
    pairs = zip((3, *widths), widths, strict=False)
    return [*(conv(fan_in, out, 3) for fan_in, out in pairs), linear(widths[-1], classes)]


def resnet_18(classes: int) -> list[LayerSize]:
    """Return ResNet-18 with a 3x3 stem for small images."""
    layers, channels = [conv(3, 64, 3)], 64
    for width in (64, 128, 256, 512):
        layers += [conv(channels, width, 3), conv(width, width, 3)]
        if width != channels:
            layers.append(conv(channels, width, 1))
        layers += [conv(width, width, 3), conv(width, width, 3)]
        channels = width
    return [*layers, linear(512, classes)]


def resnet_50() -> list[LayerSize]:
    layers, channels = [conv(3, 64, 7)], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            layers += [conv(channels, width, 1), conv(width, width, 3), conv(width, 4 * width, 1)]
            if block == 0:
                layers.append(conv(channels, 4 * width, 1))
            channels = 4 * width
    return [*layers, linear(2048, 1000)]
