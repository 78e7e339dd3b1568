// What the norms share: the value before the activation, and the sums of its gradient.
#pragma once

#include <vector>

#include "lanes.h"

namespace {

// The value before the activation: scale * x + shift, plus the same of the shortcut if there is one.
struct Affine {
    const float *x, *scale, *shift;
};

struct Unit {
    Affine main, side;
    bool relu;
    int64_t channels;
};

struct Scales {
    Lanes scale, shift, side_scale{}, side_shift{};
};

INLINE void load_scales(Scales &s, const Unit &u, int64_t c, int64_t count) {
    load(s.scale, u.main.scale + c, count);
    load(s.shift, u.main.shift + c, count);
    if (u.side.x) {
        load(s.side_scale, u.side.scale + c, count);
        load(s.side_shift, u.side.shift + c, count);
    }
}

INLINE void before_activation(Lanes &out, const Unit &u, const Scales &s, int64_t at, int64_t count) {
    Lanes x;
    load(x, u.main.x + at, count);
    out = s.scale * x + s.shift;
    if (u.side.x) {
        load(x, u.side.x + at, count);
        out += s.side_scale * x + s.side_shift;
    }
}

// Sums of the gradient before the activation, alone and times both inputs: (3, channels), added to.
INLINE void add_sums(float *sums, const Lanes &gradient, const Unit &u, int64_t at, int64_t c,
                     int64_t count) {
    Lanes x;
    load(x, u.main.x + at, count);
    add_to(sums + c, gradient, count);
    add_to(sums + u.channels + c, gradient * x, count);
    if (u.side.x) {
        load(x, u.side.x + at, count);
        add_to(sums + 2 * u.channels + c, gradient * x, count);
    }
}

// The unit of a task from place `at` on; kernels of norms name their arguments alike.
template <class Arguments>
Unit unit_at(const Arguments &a, int64_t task, int64_t at) {
    return {{a.x + at, a.scale + task * a.channels, a.shift + task * a.channels},
            {a.side ? a.side + at : nullptr, a.side_scale, a.side_shift},
            a.relu != 0,
            a.channels};
}

// (tasks, parts, 3, channels) -> (tasks, 3, channels)
void add_parts(const std::vector<float> &parts, float *sums, int64_t tasks, int64_t channels) {
    int64_t of_task = int64_t(parts.size()) / (tasks * 3 * channels);
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t i = 0; i < 3 * channels; i++) {
            double sum = 0;
            for (int64_t k = 0; k < of_task; k++) sum += parts[(t * of_task + k) * 3 * channels + i];
            sums[t * 3 * channels + i] = float(sum);
        }
}

}  // namespace
