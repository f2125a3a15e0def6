"""Kernels of the sampler of clips.

Sums over environments and bins are whole numbers, which do not depend on the order in which threads add to them.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

STEPS = wp.constant(wp.float64(2.0**32))
"""Resolution of all sums. Those of a step are at most a few thousand, those over bins at most a few million."""


@wp.struct
class Bins:
    """The constants of :class:`lab_core.mdp.ClipSampler`: C clips and B bins."""

    lengths: wp.array[wp.int64]
    """(C,) frames of clips."""
    counts: wp.array[wp.int64]
    """(C,) their bins."""
    offsets: wp.array[wp.int64]
    """(C,) their first bins."""
    clips: wp.array[wp.int64]
    """(B,) clip of each bin."""
    first: wp.array[wp.int64]
    """(B,) its first frame."""
    widths: wp.array[wp.int64]
    """(B,) in how many frames of it episodes may begin."""
    following: wp.array2d[wp.int64]
    """(B, L) itself and the next ones."""
    shares: wp.array2d[wp.float32]
    """(B, L) how much their weights count."""
    frames: wp.int64
    """Frames of a whole bin."""


@wp.func
def find_bin(bins: Bins, clip: wp.int64, frame: wp.int64) -> wp.int32:
    """Twin of :meth:`lab_core.mdp.ClipSampler.bins`."""
    return wp.int32(bins.offsets[clip] + wp.min(frame / bins.frames, bins.counts[clip] - wp.int64(1)))


@wp.func
def add(sums: wp.array2d[wp.int64], row: wp.int32, column: wp.int32, value: wp.float64):
    wp.atomic_add(sums, row, column, wp.int64(wp.round(value * STEPS)))


@wp.kernel
def add_step(
    bins: Bins,
    clip: wp.array[wp.int64],
    frame: wp.array[wp.int64],
    score: wp.array[wp.float32],
    failed: wp.array[wp.bool],
    sums: wp.array2d[wp.int64],
):
    """Adds visits with what was missed, scores, failures and visits to ``sums`` (B, 4). Launch over N."""
    env = wp.tid()
    part = wp.float64(1.0) / wp.float64(bins.frames)
    own = find_bin(bins, clip[env], frame[env])
    value = score[env]
    if not wp.isfinite(value):
        value = 0.0
    add(sums, own, 1, part * wp.float64(value))
    add(sums, own, 3, part)
    visited = wp.float64(1.0)
    if failed[env]:
        later = wp.min(frame[env] + bins.frames, bins.lengths[clip[env]] - wp.int64(1))
        next_bin = find_bin(bins, clip[env], later)
        after = wp.int64(0)
        if next_bin != own:
            after = wp.max(later - bins.first[next_bin] + wp.int64(1), wp.int64(0))
        visited += wp.float64(later - frame[env] - after)
        add(sums, next_bin, 0, part * wp.float64(after))
        add(sums, own, 2, wp.float64(1.0))
    add(sums, own, 0, part * visited)


@wp.func
def moved(average: wp.float32, total: wp.float64, mass: wp.float64, rate: wp.float64) -> wp.float32:
    share = wp.float64(1.0) - wp.pow(wp.float64(1.0) - rate, mass)
    mean = total / wp.max(mass, wp.float64(1.0e-12))
    return average + wp.float32(share * (mean - wp.float64(average)))


@wp.kernel
def learn(
    rate: wp.float64,
    sums: wp.array2d[wp.int64],
    returns: wp.array[wp.float32],
    failures: wp.array[wp.float32],
    visits: wp.array[wp.float64],
):
    """Moves the averages and empties ``sums`` (B, 4). Launch over B."""
    place = wp.tid()
    mass = wp.float64(sums[place, 0]) / STEPS
    total = wp.float64(sums[place, 1]) / STEPS
    count = wp.float64(sums[place, 2]) / STEPS
    seen = wp.float64(sums[place, 3]) / STEPS
    returns[place] = moved(returns[place], total, mass, rate)
    failures[place] = moved(failures[place], count, seen + count, rate)
    visits[place] = visits[place] + seen
    for column in range(4):
        sums[place, column] = wp.int64(0)


@wp.kernel
def weigh(
    bins: Bins,
    failure_weight: wp.float64,
    returns: wp.array[wp.float32],
    failures: wp.array[wp.float32],
    weights: wp.array[wp.float64],
    totals: wp.array2d[wp.int64],
    tree: wp.array[wp.int64],
):
    """Weights of bins, their total in ``totals`` (1, 3), and an empty ``tree``. Launch over B."""
    place = wp.tid()
    weight = wp.float64(0.0)
    for lead in range(bins.following.shape[1]):
        other = bins.following[place, lead]
        lack = wp.float64(1.0) - wp.float64(returns[other])
        own = lack * lack + failure_weight * wp.float64(failures[other])
        weight += own * wp.float64(bins.shares[place, lead])
    # All could be 0: the smallest that still counts in the total.
    weights[place] = wp.max(weight, wp.float64(1.0) / STEPS)
    add(totals, 0, 0, weights[place])
    tree[place] = wp.int64(0)


@wp.kernel
def limit(
    uniform_share: wp.float64,
    max_share: wp.float64,
    weights: wp.array[wp.float64],
    totals: wp.array2d[wp.int64],
):
    """Weights -> probabilities of at most ``max_share`` / B; adds up these, and what is left below the limit. Launch
    over B."""
    place = wp.tid()
    even = wp.float64(1.0) / wp.float64(weights.shape[0])
    share = weights[place] / (wp.float64(totals[0, 0]) / STEPS)
    weights[place] = wp.min((wp.float64(1.0) - uniform_share) * share + uniform_share * even, max_share * even)
    add(totals, 0, 1, weights[place])
    add(totals, 0, 2, max_share * even - weights[place])


@wp.kernel
def plant(
    max_share: wp.float64,
    weights: wp.array[wp.float64],
    totals: wp.array2d[wp.int64],
    tree: wp.array[wp.int64],
):
    """Gives what the limit cut off to the other bins, and adds each bin to the sums of a Fenwick tree (B,): that at
    place i holds the bins of as many places up to i + 1 as the lowest bit of i + 1 says. Launch over B."""
    place = wp.tid()
    room = wp.float64(totals[0, 2]) / STEPS
    missing = wp.float64(1.0) - wp.float64(totals[0, 1]) / STEPS
    given = (max_share / wp.float64(weights.shape[0]) - weights[place]) / wp.max(room, wp.float64(1.0e-12))
    value = wp.int64(wp.round((weights[place] + given * missing) * STEPS))
    node = place + 1
    while node <= tree.shape[0]:
        wp.atomic_add(tree, node - 1, value)
        node += node & -node


@wp.kernel
def draw(
    mask: wp.array[wp.bool],
    bins: Bins,
    tree: wp.array[wp.int64],
    rng_state: wp.array[wp.uint32],
    clip: wp.array[wp.int64],
    frame: wp.array[wp.int64],
):
    """Draws a bin, descending the tree of :func:`plant`, and a frame in it. Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    # Two draws: float32 has 24 bits, and rare bins need more.
    coarse = wp.float64(wp.randu(rng))
    fine = wp.float64(wp.randu(rng)) * wp.float64(2.0**-32.0)
    within = wp.randf(rng)
    rng_state[env] = rng
    count = tree.shape[0]
    total = wp.int64(0)
    node = count
    while node > 0:
        total += tree[node - 1]
        node -= node & -node
    rest = wp.int64((coarse + fine) * wp.float64(2.0**-32.0) * wp.float64(total))
    place = wp.int32(0)
    step = wp.int32(1)
    while 2 * step <= count:
        step = 2 * step
    while step > 0:
        if place + step <= count:
            below = tree[place + step - 1]
            if below <= rest:
                rest -= below
                place += step
        step = step // 2
    place = wp.min(place, count - 1)
    width = wp.int32(bins.widths[place])
    clip[env] = bins.clips[place]
    frame[env] = bins.first[place] + wp.int64(wp.min(wp.int32(within * wp.float32(width)), width - 1))
