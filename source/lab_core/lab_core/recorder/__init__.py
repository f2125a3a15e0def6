"""Recording of every step: what to record, the running episodes, and who receives those that have ended."""

from lab_core.datasets.errors import RecorderError
from lab_core.recorder.config import RecorderCfg, RecorderTermCfg, RetentionCfg
from lab_core.recorder.hooks import HookPart, RecorderHooks
from lab_core.recorder.manager import RecorderManager
from lab_core.recorder.presets import (
    SUBSTEP_CONTACTS,
    action_state_terms,
    physics_step_terms,
    task_terms,
    transition_terms,
)
from lab_core.recorder.ring import EpisodeRing
from lab_core.recorder.rows import RecordField
from lab_core.recorder.sinks import EpisodeBatch, EpisodeCollector, EpisodeSink
from lab_core.recorder.terms import SubstepContacts, SubstepEfforts, SubstepSensorValues, SubstepStates, sensor_values
from lab_core.recorder.transition import MaskedRows, Transition, flatten

__all__ = [
    "SUBSTEP_CONTACTS",
    "EpisodeBatch",
    "EpisodeCollector",
    "EpisodeRing",
    "EpisodeSink",
    "HookPart",
    "MaskedRows",
    "RecordField",
    "RecorderCfg",
    "RecorderError",
    "RecorderHooks",
    "RecorderManager",
    "RecorderTermCfg",
    "RetentionCfg",
    "SubstepContacts",
    "SubstepEfforts",
    "SubstepSensorValues",
    "SubstepStates",
    "Transition",
    "action_state_terms",
    "flatten",
    "physics_step_terms",
    "sensor_values",
    "task_terms",
    "transition_terms",
]
