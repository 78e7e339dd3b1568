// Adjoints of the transforms, for gradients: of the output's tiles, of the input's, of the weights.
#pragma once

#include "input_tiles.h"

// The gradient of a convolution's output: `scale * values + other_scale * other + shift`.
struct Incoming {
    const float *values, *scale;  // scale: (tasks, channels)
    const float *other, *other_scale, *shift;  // as values; (channels,); (channels,)
    int64_t task_images;
};

template <bool EDGE>
INLINE void output_adjoint_tile(const Incoming &g, const Shape &s, const Position &p, int64_t c,
                                float *to, int64_t plane) {
    const int rows = EDGE ? int(std::min<int64_t>(4, s.height - p.row)) : 4;
    const int columns = EDGE ? int(std::min<int64_t>(4, s.width - p.column)) : 4;
    const int64_t count = EDGE ? std::min(LANES, s.channels - c) : LANES;
    int64_t pixel = s.pixel(p.image, p.row, p.column) + c;
    Lanes half[24], scale, other_scale, shift;
    load(scale, g.scale + p.image / g.task_images * s.channels + c, count);
    load(other_scale, g.other_scale + c, count);
    load(shift, g.shift + c, count);
    for (int j = 0; j < 4; j++) {
        Lanes d[4] = {};
        for (int k = 0; k < rows && j < columns; k++) {
            int64_t at = pixel + (k * s.width + j) * s.channels;
            Lanes value, other;
            load(value, g.values + at, count);
            load(other, g.other + at, count);
            d[k] = scale * value + (other_scale * other + shift);
        }
        transform_output_adjoint(d, 1, half + j, 4);
    }
    for (int k = 0; k < 6; k++) {
        Lanes o[6];
        transform_output_adjoint(half + 4 * k, 1, o, 1);
        for (int j = 0; j < 6; j++) store(to + (6 * k + j) * plane, o[j], LANES);
    }
}

static void output_adjoint_tiles(const Incoming *g, const Shape *s, const Tiles *tiles) {
    for (int64_t panel = 0; panel < s->channels; panel += PANEL)
        for (int64_t i = 0; i < tiles->count; i++) {
            Position p = position(*s, tiles->first + i);
            for (int64_t c = panel; c < std::min(panel + PANEL, s->channels); c += LANES) {
                float *to = tiles->at(i, c);
                if (at_edge(*s, p, c))
                    output_adjoint_tile<true>(*g, *s, p, c, to, tiles->plane);
                else
                    output_adjoint_tile<false>(*g, *s, p, c, to, tiles->plane);
            }
        }
}

// Adds the patches of a row of tiles to the six rows of pixels that they cover.
INLINE void add_patches(const Tiles &tiles, int64_t first, int64_t across, const Shape &s,
                        const Position &p, float *rows) {
    for (int64_t c = 0; c < s.channels; c += LANES) {
        float *row[6];
        for (int k = 0; k < 6; k++) {
            row[k] = row_at(rows, s, p, k, c);
            if (p.row == 0 || k > 1) std::memset(row[k], 0, rows_span(s) * LANES * sizeof(float));
        }
        for (int64_t tile = 0; tile < across; tile++) {
            const float *from = tiles.at(first + tile, c);
            Lanes half[36];
            for (int j = 0; j < 6; j++) {
                Lanes d[6];
                for (int k = 0; k < 6; k++) load(d[k], from + (6 * k + j) * tiles.plane, LANES);
                transform_input_adjoint(d, 1, half + j, 6);
            }
            for (int k = 0; k < 6; k++) {
                float *to = row[k] + tile * 4 * LANES;
                Lanes sum[6], old[6];
                transform_input_adjoint(half + 6 * k, 1, sum, 1);
                for (int j = 0; j < 6; j++) load(old[j], to + j * LANES, LANES);
                for (int j = 0; j < 6; j++) store(to + j * LANES, old[j] + sum[j], LANES);
            }
        }
    }
}

// Whole rows of tiles, in their order; writes the rows of the source's gradient that are complete: that
// of x itself, or that of `scale * x + shift` with its sums, alone and times x: (images, 2, channels).
static void input_adjoint_tiles(const Tiles *tiles, const Shape *s, float *rows,
                                const Source *source, float *gradient, float *sums) {
    int64_t across = s->tile_columns(), span = rows_span(*s), channels = whole(s->channels);
    for (int64_t i = 0; i < tiles->count; i += across) {
        Position p = position(*s, tiles->first + i);
        add_patches(*tiles, i, across, *s, p, rows);
        int64_t of_task = p.image / source->task_images * s->channels;
        float *own = sums + p.image * 2 * channels;
        if (source->scale && p.row == 0) std::memset(own, 0, 2 * channels * sizeof(float));
        bool last = p.row + 4 >= s->height;
        for (int k = 0; k < (last ? 5 : 4); k++) {
            int64_t y = p.row - 1 + k;
            if (y < 0 || y >= s->height) continue;
            const float *row = row_at(rows, *s, p, k, 0) + LANES;
            for (int64_t z = 0; z < s->width; z++)
                for_lanes(s->channels, WORK {
                    int64_t at = s->pixel(p.image, y, z) + c;
                    Lanes value;
                    load(value, row + c * 6 * span + z * LANES, LANES);
                    if (source->scale) {
                        Lanes x, scale, shift, out, slope;
                        load(x, source->x + at, count);
                        load(scale, source->scale + of_task + c, count);
                        load(shift, source->shift + of_task + c, count);
                        activate(out, slope, scale * x + shift, source->relu);
                        value *= slope;
                        add_to(own + c, value, LANES);
                        add_to(own + channels + c, value * x, LANES);
                    }
                    store(gradient + at, value, count);
                });
        }
    }
}

// Gradients of a filter's transformed weights: `count` shares to be added up, each of 36 planes.
struct Shares {
    const float *values;
    int64_t count, share, plane;
};

// The first `count` of a filter's channels.
static void unpack_filter(const Shares *s, float *w, int64_t channels, int64_t count) {
    for (int64_t c = 0; c < count; c += LANES) {
        Lanes full[36], half[18], taps[9], more;
        for (int q = 0; q < 36; q++) {
            const float *from = s->values + q * s->plane + c;
            load(full[q], from, LANES);
            for (int64_t i = 1; i < s->count; i++) {
                load(more, from + i * s->share, LANES);
                full[q] += more;
            }
        }
        for (int i = 0; i < 6; i++) transform_weight_adjoint(full + i, 6, half + i, 6);
        for (int i = 0; i < 3; i++) transform_weight_adjoint(half + 6 * i, 1, taps + 3 * i, 1);
        for (int i = 0; i < 9; i++)
            store(w + i * channels + c, taps[i], std::min(LANES, count - c));
    }
}
