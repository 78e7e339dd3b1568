// Transforms runs of tiles of a convolution's input from pixels to Winograd's domain; see winograd.h.
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
