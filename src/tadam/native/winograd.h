// Winograd's F(4x4, 3x3): a 3x3 convolution with a quarter of the multiplications (Lavin and Gray, 2015).
//
// y = A' [ (G w G') . (B' d B) ] A for each 4x4 tile of the output, d being the 6x6 patch of the input
// around it. Here are the transforms of input, weights and output and their adjoints, on channels-last
// tensors with a border of zeros; see plan.h for the products in between.
#pragma once

#include "lanes.h"

constexpr int64_t TAPS = 36;  // values of a transformed tile

struct Shape {
    int64_t images, height, width, channels;
    int64_t tile_rows() const { return (height + 3) / 4; }
    int64_t tile_columns() const { return (width + 3) / 4; }
    int64_t tiles_per_image() const { return tile_rows() * tile_columns(); }
    int64_t tiles() const { return images * tiles_per_image(); }
    int64_t pixel(int64_t n, int64_t y, int64_t x) const {
        return ((n * height + y) * width + x) * channels;
    }
};

// A run of tiles in the order of images, rows, columns, and where their transforms are: 36 planes of
// panels of rows, one for each tile, of a panel's channels. A panel lies in one piece, so that a product
// finds what it needs side by side.
struct Tiles {
    int64_t first, count;
    float *values;
    int64_t channels;  // whole lanes
    int64_t panel, plane;  // floats from one to the next
    int64_t row() const { return std::min(PANEL, channels); }
    float *at(int64_t i, int64_t c) const {
        return values + c / PANEL * panel + i * row() + c % PANEL;
    }
};

struct Position {
    int64_t image, row, column;  // row and column of the tile's first pixel
};

INLINE Position position(const Shape &s, int64_t tile) {
    int64_t inside = tile % s.tiles_per_image();
    return {tile / s.tiles_per_image(), inside / s.tile_columns() * 4,
            inside % s.tile_columns() * 4};
}

// Whether a tile is not all of 4x4 pixels and all lanes.
INLINE bool at_edge(const Shape &s, const Position &p, int64_t c) {
    return p.row + 4 > s.height || p.column + 4 > s.width || c + LANES > s.channels;
}

INLINE int64_t panels(int64_t columns) { return (whole(columns) + PANEL - 1) / PANEL; }

INLINE int64_t panel_width(int64_t columns, int64_t panel) {
    return std::min(PANEL, whole(columns) - panel * PANEL);
}

// Packed weights: (36, panels, depth, columns of a panel)
INLINE int64_t packed_plane(int64_t depth, int64_t columns) { return spaced(depth * whole(columns)); }

// Each of these maps a column of values `in` apart to a column of values `out` apart.

// B': 6 -> 6
INLINE void transform_input(const Lanes *d, int in, Lanes *o, int out) {
    Lanes d0 = d[0], d1 = d[in], d2 = d[2 * in], d3 = d[3 * in], d4 = d[4 * in], d5 = d[5 * in];
    Lanes a = d4 - 4 * d2, b = d3 - 4 * d1, c = d4 - d2, e = 2 * (d3 - d1);
    o[0] = d4 - 5 * d2 + 4 * d0;
    o[out] = a + b;
    o[2 * out] = a - b;
    o[3 * out] = c + e;
    o[4 * out] = c - e;
    o[5 * out] = d5 - 5 * d3 + 4 * d1;
}

// B: 6 -> 6
INLINE void transform_input_adjoint(const Lanes *m, int in, Lanes *o, int out) {
    Lanes m0 = m[0], m5 = m[5 * in];
    Lanes p = m[in] + m[2 * in], q = m[in] - m[2 * in];
    Lanes r = m[3 * in] + m[4 * in], u = m[3 * in] - m[4 * in];
    o[0] = 4 * m0;
    o[out] = -4 * q - 2 * u + 4 * m5;
    o[2 * out] = -5 * m0 - 4 * p - r;
    o[3 * out] = q + 2 * u - 5 * m5;
    o[4 * out] = m0 + p + r;
    o[5 * out] = m5;
}

// A': 6 -> 4
INLINE void transform_output(const Lanes *m, int in, Lanes *o, int out) {
    Lanes p = m[in] + m[2 * in], q = m[in] - m[2 * in];
    Lanes r = m[3 * in] + m[4 * in], u = m[3 * in] - m[4 * in];
    o[0] = m[0] + p + r;
    o[out] = q + 2 * u;
    o[2 * out] = p + 4 * r;
    o[3 * out] = q + 8 * u + m[5 * in];
}

// A: 4 -> 6
INLINE void transform_output_adjoint(const Lanes *y, int in, Lanes *o, int out) {
    Lanes y0 = y[0], y1 = y[in], y2 = y[2 * in], y3 = y[3 * in];
    Lanes a = y0 + y2, b = y1 + y3, c = y0 + 4 * y2, e = 2 * y1 + 8 * y3;
    o[0] = y0;
    o[out] = a + b;
    o[2 * out] = a - b;
    o[3 * out] = c + e;
    o[4 * out] = c - e;
    o[5 * out] = y3;
}

// G: 3 -> 6
INLINE void transform_weight(const Lanes *w, int in, Lanes *o, int out) {
    Lanes a = (w[0] + w[2 * in]) * (1.0f / 6), b = w[in] * (1.0f / 6);
    Lanes c = w[0] * (1.0f / 24) + w[2 * in] * (1.0f / 6), e = w[in] * (1.0f / 12);
    o[0] = w[0] * 0.25f;
    o[out] = -a - b;
    o[2 * out] = b - a;
    o[3 * out] = c + e;
    o[4 * out] = c - e;
    o[5 * out] = w[2 * in];
}

// G': 6 -> 3
INLINE void transform_weight_adjoint(const Lanes *g, int in, Lanes *o, int out) {
    Lanes p = g[in] + g[2 * in], q = g[2 * in] - g[in];
    Lanes r = g[3 * in] + g[4 * in], u = g[3 * in] - g[4 * in];
    o[0] = g[0] * 0.25f - p * (1.0f / 6) + r * (1.0f / 24);
    o[out] = q * (1.0f / 6) + u * (1.0f / 12);
    o[2 * out] = (r - p) * (1.0f / 6) + g[5 * in];
}
