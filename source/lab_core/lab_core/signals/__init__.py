"""Signal processing of observations and actions: noise, modifiers, history and delay."""

from lab_core.signals.buffers import CircularBuffer, DelayBuffer
from lab_core.signals.modifiers import (
    BiasModifierCfg,
    ClipModifierCfg,
    DigitalFilterCfg,
    IntegratorCfg,
    Modifier,
    ModifierCfg,
    ScaleModifierCfg,
)
from lab_core.signals.noise import (
    ConstantNoiseCfg,
    GaussianNoiseCfg,
    Noise,
    NoiseCfg,
    NoiseWithBiasCfg,
    SampledNoiseCfg,
    UniformNoiseCfg,
)

__all__ = [
    "BiasModifierCfg",
    "CircularBuffer",
    "ClipModifierCfg",
    "ConstantNoiseCfg",
    "DelayBuffer",
    "DigitalFilterCfg",
    "GaussianNoiseCfg",
    "IntegratorCfg",
    "Modifier",
    "ModifierCfg",
    "Noise",
    "NoiseCfg",
    "NoiseWithBiasCfg",
    "SampledNoiseCfg",
    "ScaleModifierCfg",
    "UniformNoiseCfg",
]
