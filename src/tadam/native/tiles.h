// Transforms of runs of tiles: pixels to Winograd's domain and back; see winograd.h.
#pragma once

#include "winograd.h"

// Images, or what follows them: the activation of `scale * x + shift`, made anew wherever it is read.
struct Source {
    const float *x, *scale, *shift;  // scale and shift: (tasks, channels), null for x itself
    int64_t task_images;
    bool relu;
};

// `pixel(d, k, j)` gives the pixel in row k, column j of a patch of 6x6. Each pass of a transform goes from
// memory to memory: 36 values do not fit in the registers.
template <class Pixel>
INLINE void transform_patch(const Pixel &pixel, float *to, int64_t plane) {
    Lanes half[36];
    for (int k = 0; k < 6; k++) {
        Lanes d[6];
        for (int j = 0; j < 6; j++) pixel(d[j], k, j);
        transform_input(d, 1, half + 6 * k, 1);
    }
    for (int j = 0; j < 6; j++) {
        Lanes o[6];
        transform_input(half + j, 6, o, 1);
        for (int k = 0; k < 6; k++) store(to + (6 * k + j) * plane, o[k], LANES);
    }
}

#define PIXEL [&](Lanes & d, int k, int j) __attribute__((always_inline))

static void plain_tiles(const float *x, const Shape *s, const Tiles *tiles) {
    for (int64_t i = 0; i < tiles->count; i++) {
        Position p = position(*s, tiles->first + i);
        bool interior = p.row > 0 && p.column > 0 && p.row + 5 <= s->height && p.column + 5 <= s->width;
        for_lanes(s->channels, WORK {
            float *to = tiles->at(i, c);
            const float *from = x + s->pixel(p.image, p.row - 1, p.column - 1) + c;
            if (interior)
                transform_patch(PIXEL { load(d, from + (k * s->width + j) * s->channels, count); }, to,
                                tiles->plane);
            else
                transform_patch(PIXEL {
                    int64_t y = p.row - 1 + k, z = p.column - 1 + j;
                    if (y >= 0 && y < s->height && z >= 0 && z < s->width)
                        load(d, from + (k * s->width + j) * s->channels, count);
                    else
                        d = Lanes{};
                }, to, tiles->plane);
        });
    }
}

// The patches of neighbouring tiles overlap. Six rows of pixels follow the tiles down the image, with
// zeros around them: (channels / LANES, 6, span, LANES) floats.
INLINE int64_t rows_span(const Shape &s) { return 4 * s.tile_columns() + 2; }

INLINE int64_t rows_floats(const Shape &s) { return 6 * rows_span(s) * whole(s.channels); }

INLINE float *row_at(float *rows, const Shape &s, const Position &p, int k, int64_t c) {
    return rows + (c * 6 + (p.row + k) % 6 * LANES) * rows_span(s);
}

// Whole rows of tiles, in their order.
static void activated_tiles(const Source *source, const Shape *s, const Tiles *tiles, float *rows) {
    int64_t across = s->tile_columns(), span = rows_span(*s);
    for (int64_t i = 0; i < tiles->count; i += across) {
        Position p = position(*s, tiles->first + i);
        int64_t of_task = p.image / source->task_images * s->channels;
        for (int k = i == 0 || p.row == 0 ? 0 : 2; k < 6; k++) {
            int64_t y = p.row - 1 + k, inside = y < 0 || y >= s->height ? 0 : s->width;
            float *row = row_at(rows, *s, p, k, 0);
            const float *from = source->x + s->pixel(p.image, y, 0);
            for (int64_t c = 0; c < s->channels; c += LANES) {
                float *of_lanes = row + c * 6 * span;
                store(of_lanes, Lanes{}, LANES);
                std::memset(of_lanes + (inside + 1) * LANES, 0,
                            (span - inside - 1) * LANES * sizeof(float));
            }
            for (int64_t z = 0; z < inside; z++)
                for_lanes(s->channels, WORK {
                    Lanes value, scale, shift, out, slope;
                    load(value, from + z * s->channels + c, count);
                    load(scale, source->scale + of_task + c, count);
                    load(shift, source->shift + of_task + c, count);
                    activate(out, slope, scale * value + shift, source->relu);
                    store(row + c * 6 * span + (z + 1) * LANES, out, LANES);
                });
        }
        for (int64_t c = 0; c < s->channels; c += LANES)
            for (int64_t tile = 0; tile < across; tile++)
                transform_patch(PIXEL {
                    load(d, row_at(rows, *s, p, k, c) + (4 * tile + j) * LANES, LANES);
                }, tiles->at(i + tile, c), tiles->plane);
    }
}

static void input_tiles(const Source &source, const Shape &s, const Tiles &tiles, float *rows) {
    if (source.scale)
        activated_tiles(&source, &s, &tiles, rows);
    else
        plain_tiles(source.x, &s, &tiles);
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

// What becomes of a convolution's output before it is written.
struct Finish {
    const float *scale, *shift;  // (tasks, channels); null for 1 and 0
    const float *side, *side_scale;  // added before the activation, null for nothing; null for 1
    int64_t task_images;
    int64_t activation;  // 0 none, 1 swish, 2 relu
    int64_t pool;  // 2x2 maxima: 0 none, 1 sizes rounded down, 2 rounded up
};

// Sums of a run's outputs around the first of them, for the moments.
struct Sums {
    Lanes origin, sum, square;
    int64_t pixels;
};

// Whether a tile is not all of 4x4 pixels and all lanes.
INLINE bool at_edge(const Shape &s, const Position &p, int64_t c) {
    return p.row + 4 > s.height || p.column + 4 > s.width || c + LANES > s.channels;
}

INLINE void add_row(Sums &sums, const Lanes *o, int columns) {
    if (sums.pixels == 0) sums.origin = o[0];
    sums.pixels += columns;
    Lanes sum{}, square{};
    for (int j = 0; j < columns; j++) {
        Lanes off = o[j] - sums.origin;
        sum += off;
        square += off * off;
    }
    sums.sum += sum;
    sums.square += square;
}

template <bool EDGE>
INLINE void output_tile(const float *from, int64_t plane, const Shape &s, const Position &p, int64_t c,
                        const Finish &f, float *y, Sums *sums) {
    const int rows = EDGE ? int(std::min<int64_t>(4, s.height - p.row)) : 4;
    const int columns = EDGE ? int(std::min<int64_t>(4, s.width - p.column)) : 4;
    const int64_t count = EDGE ? std::min(LANES, s.channels - c) : LANES;
    int64_t pixel = s.pixel(p.image, p.row, p.column) + c;
    Lanes half[24], o[16];
    for (int j = 0; j < 6; j++) {
        Lanes d[6];
        for (int k = 0; k < 6; k++) load(d[k], from + (6 * k + j) * plane, LANES);
        transform_output(d, 1, half + j, 6);
    }
    for (int k = 0; k < 4; k++) {
        transform_output(half + 6 * k, 1, o + 4 * k, 1);
        if (sums && k < rows) add_row(*sums, o + 4 * k, columns);
    }
    int64_t of_task = p.image / f.task_images * s.channels + c;
    if (f.scale) {
        Lanes scale;
        load(scale, f.scale + of_task, count);
        for (int k = 0; k < 16; k++) o[k] *= scale;
    }
    if (f.shift) {
        Lanes shift;
        load(shift, f.shift + of_task, count);
        for (int k = 0; k < 16; k++) o[k] += shift;
    }
    if (f.side) {
        Lanes side, side_scale = Lanes{} + 1.0f;
        if (f.side_scale) load(side_scale, f.side_scale + c, count);
        for (int k = 0; k < rows; k++)
            for (int j = 0; j < columns; j++) {
                load(side, f.side + pixel + (k * s.width + j) * s.channels, count);
                o[4 * k + j] += side_scale * side;
            }
    }
    if (f.activation)
        for (int k = 0; k < 16; k++) {
            Lanes slope;
            activate(o[k], slope, Lanes(o[k]), f.activation == 2);
        }
    if (!f.pool) {
        for (int k = 0; k < rows; k++)
            for (int j = 0; j < columns; j++)
                store(y + pixel + (k * s.width + j) * s.channels, o[4 * k + j], count);
        return;
    }
    int64_t odd = f.pool - 1, height = (s.height + odd) / 2, width = (s.width + odd) / 2;
    float *to = y + ((p.image * height + p.row / 2) * width + p.column / 2) * s.channels + c;
    for (int k = 0; k < (odd ? rows : rows - 1); k += 2)
        for (int j = 0; j < (odd ? columns : columns - 1); j += 2) {
            Lanes most = o[4 * k + j];
            for (int other : {1, 4, 5}) {
                if ((other & 1 && j + 1 >= columns) || (other & 4 && k + 1 >= rows)) continue;
                const Lanes &next = o[4 * k + j + other];
                Bits better;
                beats(better, next, most);
                replace(most, better, next);
            }
            store(to + (k / 2 * width + j / 2) * s.channels, most, count);
        }
}

// Some channels of the output, whole panels of them. `moments` is null or takes, for each channel, the
// mean and the sum of squares around it, then the number of pixels.
static void output_tiles(const Tiles *tiles, const Shape *s, const Finish *f, float *y,
                         float *moments, int64_t channel, int64_t end) {
    for (int64_t panel = channel; panel < end; panel += PANEL) {
        Sums sums[2] = {};
        int64_t last = std::min(panel + PANEL, end);
        for (int64_t i = 0; i < tiles->count; i++) {
            Position p = position(*s, tiles->first + i);
            Sums *own = sums;
            for (int64_t c = panel; c < last; c += LANES, own++) {
                const float *from = tiles->at(i, c);
                if (at_edge(*s, p, c))
                    output_tile<true>(from, tiles->plane, *s, p, c, *f, y, moments ? own : nullptr);
                else
                    output_tile<false>(from, tiles->plane, *s, p, c, *f, y, moments ? own : nullptr);
            }
        }
        for (int64_t c = panel; moments && c < last; c += LANES) {
            const Sums &own = sums[(c - panel) / LANES];
            Lanes mean = own.sum / float(own.pixels);
            store(moments + c, own.origin + mean, LANES);
            store(moments + whole(s->channels) + c, own.square - own.sum * mean, LANES);
            moments[2 * whole(s->channels)] = float(own.pixels);
        }
    }
}

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

static void output_adjoint_tiles(const Incoming *g, const Shape *s,
                                                const Tiles *tiles) {
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
