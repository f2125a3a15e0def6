"""Kernels of the managers. N environments, K terms."""

from __future__ import annotations

import warp as wp

from lab_warp.timers_kernels import ran_out

wp.set_module_options({"enable_backward": False})

# Actions --------------------------------------------------------------------------------------------------------------


@wp.kernel
def take_action(
    given: wp.array2d[wp.float32],
    action: wp.array2d[wp.float32],
    prev_action: wp.array2d[wp.float32],
    non_finite: wp.array2d[wp.bool],
):
    """Shifts the actions by a step; numbers that are not finite become 0 and are remembered. Launch over (N, A)."""
    env, column = wp.tid()
    value = given[env, column]
    prev_action[env, column] = action[env, column]
    if not wp.isfinite(value):
        non_finite[env, column] = True
        value = 0.0
    action[env, column] = value


@wp.kernel
def clear_actions(mask: wp.array[wp.bool], action: wp.array2d[wp.float32], prev_action: wp.array2d[wp.float32]):
    """Launch over (N, A)."""
    env, column = wp.tid()
    if mask[env]:
        action[env, column] = 0.0
        prev_action[env, column] = 0.0


# Terminations ---------------------------------------------------------------------------------------------------------


@wp.kernel
def join_terminations(
    rows: wp.array2d[wp.bool],
    is_time_out: wp.array[wp.bool],
    non_finite: wp.array[wp.bool],
    flags: wp.array2d[wp.bool],
    term_dones: wp.array2d[wp.bool],
    last_episode_dones: wp.array2d[wp.bool],
    reset_mask: wp.array[wp.bool],
    reset_count: wp.array[wp.int32],
):
    """Terms (K, N) -> flags (4, N): terminated, time-outs, either, cut off before their end. Launch over N."""
    env = wp.tid()
    terms = is_time_out.shape[0]
    terminated = non_finite[env]
    time_out = wp.bool(False)
    for term in range(terms):
        value = rows[term, env]
        term_dones[env, term] = value
        if value:
            if is_time_out[term]:
                time_out = True
            else:
                terminated = True
    term_dones[env, terms] = non_finite[env]
    done = terminated or time_out
    flags[0, env] = terminated
    flags[1, env] = time_out
    flags[2, env] = done
    flags[3, env] = time_out and not terminated
    reset_mask[env] = done
    if done:
        wp.atomic_add(reset_count, 0, 1)
        for column in range(terms + 1):
            last_episode_dones[env, column] = term_dones[env, column]


@wp.kernel
def shares(flags: wp.array2d[wp.bool], count: wp.array[wp.int32], out: wp.array[wp.float32]):
    """Share of environments whose flag is set, per column, if anything was reset. Launch tiled over K."""
    column, lane = wp.tid()
    number = wp.int32(0)
    for env in range(lane, flags.shape[0], wp.block_dim()):
        if flags[env, column]:
            number += 1
    total = wp.tile_sum(wp.tile(number))
    set_flags = total[0]  # a tile is read by all lanes together
    if lane == 0 and count[0] > 0:
        out[column] = float(set_flags) / float(flags.shape[0])


# Rewards --------------------------------------------------------------------------------------------------------------


@wp.kernel
def sum_rewards(
    values: wp.array2d[wp.float32],
    weights: wp.array[wp.float32],
    dt: wp.float32,
    step_reward: wp.array2d[wp.float32],
    episode_sums: wp.array2d[wp.float32],
    reward: wp.array[wp.float32],
):
    """Terms (K, N) -> weighted terms, their sums over the episode, and the reward. Launch over N."""
    env = wp.tid()
    total = wp.float32(0.0)
    for term in range(weights.shape[0]):
        weighted = wp.float32(0.0)
        if weights[term] != 0.0:
            weighted = values[term, env] * weights[term]
        step_reward[env, term] = weighted
        episode_sums[env, term] = episode_sums[env, term] + weighted * dt
        total += weighted
    reward[env] = total * dt


@wp.kernel
def clear_rows(mask: wp.array[wp.bool], values: wp.array2d[wp.float32]):
    """Launch over (N, K)."""
    env, column = wp.tid()
    if mask[env]:
        values[env, column] = 0.0


# Metrics --------------------------------------------------------------------------------------------------------------

MEAN = wp.constant(0)
LAST = wp.constant(1)
MAX = wp.constant(2)
SUM = wp.constant(3)


@wp.kernel
def follow_metrics(
    rows: wp.array2d[wp.float32],
    modes: wp.array[wp.int32],
    values: wp.array2d[wp.float32],
    steps: wp.array[wp.int64],
):
    """Takes in the values (K, N) of a step. Launch over N."""
    env = wp.tid()
    first = steps[env] == wp.int64(0)
    steps[env] = steps[env] + wp.int64(1)
    for term in range(modes.shape[0]):
        value = rows[term, env]
        so_far = values[env, term]
        if modes[term] == MEAN:
            values[env, term] = so_far + (value - so_far) / float(steps[env])
        elif modes[term] == SUM:
            values[env, term] = so_far + value
        elif modes[term] == LAST or first or wp.isnan(value) or value > so_far:
            values[env, term] = value  # also a NaN, which then stays


@wp.kernel
def clear_metrics(mask: wp.array[wp.bool], values: wp.array2d[wp.float32], steps: wp.array[wp.int64]):
    """Launch over N."""
    env = wp.tid()
    if mask[env]:
        for term in range(values.shape[1]):
            values[env, term] = 0.0
        steps[env] = wp.int64(0)


# Events ---------------------------------------------------------------------------------------------------------------


@wp.kernel
def choose_due(
    reset_mask: wp.array[wp.bool],
    step_count: wp.array[wp.int64],
    min_steps: wp.array[wp.int64],
    last_step: wp.array2d[wp.int64],
    due: wp.array2d[wp.bool],
):
    """Which reset terms (K, N) act on which environments. Launch over (K, N)."""
    term, env = wp.tid()
    last = last_step[term, env]
    now = step_count[0]
    pause = min_steps[term]
    # Without a pause always, also where somebody has set the counter back.
    acts = reset_mask[env] and (pause == wp.int64(0) or last == wp.int64(-1) or now - last >= pause)
    due[term, env] = acts
    if acts:
        last_step[term, env] = now


@wp.kernel
def tick_timers(
    dt: wp.float32,
    ranges: wp.array[wp.vec2],
    state: wp.array[wp.uint32],
    time_left: wp.array2d[wp.float32],
    expired: wp.array2d[wp.bool],
):
    """Moves interval timers (K, N) on; those that ran out are drawn anew. Launch over N, or over 1 for shared ones."""
    env = wp.tid()
    rng = state[env]
    for term in range(ranges.shape[0]):
        left = time_left[term, env] - dt
        out = ran_out(left, dt)
        if out:
            left = wp.randf(rng, ranges[term][0], ranges[term][1])
        time_left[term, env] = left
        expired[term, env] = out
    state[env] = rng


@wp.kernel
def draw_timers(
    mask: wp.array[wp.bool],
    redrawn: wp.array[wp.bool],
    ranges: wp.array[wp.vec2],
    state: wp.array[wp.uint32],
    time_left: wp.array2d[wp.float32],
):
    """Draws the timers of reset environments. Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = state[env]
    for term in range(ranges.shape[0]):
        if redrawn[term]:
            time_left[term, env] = wp.randf(rng, ranges[term][0], ranges[term][1])
    state[env] = rng


@wp.kernel
def spread(flag: wp.array[wp.bool], out: wp.array[wp.bool]):
    """One flag (1,) for all environments. Launch over N."""
    out[wp.tid()] = flag[0]


# Observations ---------------------------------------------------------------------------------------------------------

NO_NOISE = wp.constant(0)
CONSTANT = wp.constant(1)
UNIFORM = wp.constant(2)
GAUSSIAN = wp.constant(3)
ADD = wp.constant(0)
SCALE = wp.constant(1)
REPLACE = wp.constant(2)


@wp.kernel
def finish_observation(
    mask: wp.array[wp.bool],
    kind: wp.array[wp.int32],
    operation: wp.array[wp.int32],
    first: wp.array[wp.float32],
    second: wp.array[wp.float32],
    low: wp.array[wp.float32],
    high: wp.array[wp.float32],
    scale: wp.array[wp.float32],
    ahead: wp.int32,
    state: wp.array[wp.uint32],
    values: wp.array2d[wp.float32],
):
    """Noise, clip and scale of all columns, in place. Launch over (N, D).

    ``first`` and ``second``: bias; low and high; mean and standard deviation. ``mask`` None: all environments. A column
    draws from a stream that branches off the environment's, ``ahead`` numbers from now; that one stays where it is: see
    :func:`advance_streams`.
    """
    env, column = wp.tid()
    if mask:
        if not mask[env]:
            return
    value = values[env, column]
    if kind[column] != NO_NOISE:
        rng = state[env]
        for _ in range(ahead):
            wp.randu(rng)
        rng = wp.rand_init(wp.int32(rng), column)
        sample = first[column]
        if kind[column] == UNIFORM:
            sample = wp.randf(rng, first[column], second[column])
        elif kind[column] == GAUSSIAN:
            sample = first[column] + second[column] * wp.randn(rng)
        if operation[column] == ADD:
            value = value + sample
        elif operation[column] == SCALE:
            value = value * sample
        else:
            value = sample
    # A NaN stays one.
    if value < low[column]:
        value = low[column]
    elif value > high[column]:
        value = high[column]
    values[env, column] = value * scale[column]


@wp.kernel
def advance_streams(mask: wp.array[wp.bool], state: wp.array[wp.uint32]):
    """Moves each environment's stream on by one number, after columns have drawn. Launch over N."""
    env = wp.tid()
    if mask:
        if not mask[env]:
            return
    rng = state[env]
    wp.randu(rng)
    state[env] = rng


# Environment ----------------------------------------------------------------------------------------------------------


@wp.kernel
def count_step(episode_length: wp.array[wp.int64], step_count: wp.array[wp.int64], reset_count: wp.array[wp.int32]):
    """Launch over N."""
    env = wp.tid()
    episode_length[env] = episode_length[env] + wp.int64(1)
    if env == 0:
        step_count[0] = step_count[0] + wp.int64(1)
        reset_count[0] = 0


@wp.kernel
def clear_counter(mask: wp.array[wp.bool], counter: wp.array[wp.int64]):
    """Launch over N."""
    env = wp.tid()
    if mask[env]:
        counter[env] = wp.int64(0)
