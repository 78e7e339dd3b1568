// Transforms runs of tiles of a convolution's output from Winograd's domain to pixels, and finishes them.
#pragma once

#include "winograd.h"

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
