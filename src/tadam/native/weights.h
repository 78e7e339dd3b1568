// Winograd's transform of weights, packed for the products, and its adjoint.
#pragma once

#include "product.h"
#include "winograd.h"

// Planes are a little more than a power of two apart, or they would compete for the same cache lines.
INLINE int64_t spaced(int64_t plane) { return plane + LANES; }

INLINE int64_t panels(int64_t columns) { return (whole(columns) + PANEL - 1) / PANEL; }

INLINE int64_t panel_width(int64_t columns, int64_t panel) {
    return std::min(PANEL, whole(columns) - panel * PANEL);
}

// (36, panels, depth, columns of a panel)
INLINE int64_t packed_plane(int64_t depth, int64_t columns) { return spaced(depth * whole(columns)); }

// Packs LANES x LANES of the weights (depth, 3, 3, columns), or of (columns, 3, 3, depth) if `turned`.
MULTIVERSIONED static void pack_block(const float *w, float *packed, int64_t depth, int64_t columns,
                                      int64_t k, int64_t c, bool turned) {
    int64_t rows = std::min(LANES, depth - k), count = std::min(LANES, columns - c);
    int64_t panel = c / PANEL, width = panel_width(columns, panel);
    float block[LANES][9][LANES] = {};
    if (turned)
        for (int64_t j = 0; j < count; j++)
            for (int i = 0; i < 9; i++)
                for (int64_t r = 0; r < rows; r++)
                    block[r][i][j] = w[((c + j) * 9 + i) * depth + k + r];
    else
        for (int64_t r = 0; r < rows; r++)
            for (int i = 0; i < 9; i++)
                std::memcpy(block[r][i], w + ((k + r) * 9 + i) * columns + c, count * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        Lanes taps[9], half[18], full[36];
        for (int i = 0; i < 9; i++) load(taps[i], block[r][i], LANES);
        for (int j = 0; j < 3; j++) transform_weight(taps + j, 3, half + j, 3);
        for (int i = 0; i < 6; i++) transform_weight(half + 3 * i, 1, full + 6 * i, 1);
        float *to = packed + panel * PANEL * depth + (k + r) * width + c % PANEL;
        for (int q = 0; q < 36; q++) store(to + q * packed_plane(depth, columns), full[q], LANES);
    }
}

// Gradients of transformed weights, one share for each worker: (workers, 36, filters, channels).
struct Shares {
    const float *values;
    int64_t workers, filters, channels;
};

INLINE int64_t share_plane(int64_t filters, int64_t channels) { return spaced(filters * whole(channels)); }

// Writes the gradient of filter k, (3, 3, channels).
MULTIVERSIONED static void unpack_filter(const Shares *shares, int64_t k, float *w) {
    int64_t channels = shares->channels, plane = share_plane(shares->filters, channels);
    for (int64_t c = 0; c < channels; c += LANES) {
        Lanes full[36], half[18], taps[9], share;
        for (int q = 0; q < 36; q++) {
            const float *from = shares->values + q * plane + k * whole(channels) + c;
            load(full[q], from, LANES);
            for (int64_t i = 1; i < shares->workers; i++) {
                load(share, from + i * TAPS * plane, LANES);
                full[q] += share;
            }
        }
        for (int j = 0; j < 6; j++) transform_weight_adjoint(full + j, 6, half + j, 6);
        for (int i = 0; i < 3; i++) transform_weight_adjoint(half + 6 * i, 1, taps + 3 * i, 1);
        for (int i = 0; i < 9; i++)
            store(w + (k * 9 + i) * channels + c, taps[i], std::min(LANES, channels - c));
    }
}
