// Winograd's transform of weights, packed for the products.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "winograd.h"

// Past the caches, for what is too large to stay there: saves reading the lines that are written over.
INLINE void store_past_caches(float *to, const Lanes &lanes) {
#if defined(__SSE__)
    typedef float Quarter __attribute__((vector_size(16)));
    Quarter parts[LANES / 4];
    std::memcpy(parts, &lanes, sizeof(Lanes));
    for (int i = 0; i < LANES / 4; i++) _mm_stream_ps(to + 4 * i, (__m128)parts[i]);
#else
    store(to, lanes, LANES);
#endif
}

// Packs LANES x LANES of the weights (depth, 3, 3, columns), or of (columns, 3, 3, depth) if `turned`.
static void pack_block(const float *w, float *packed, int64_t depth, int64_t columns,
                                      int64_t k, int64_t c, bool turned, bool large) {
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
        for (int q = 0; q < 36; q++) {
            if (large)
                store_past_caches(to + q * packed_plane(depth, columns), full[q]);
            else
                store(to + q * packed_plane(depth, columns), full[q], LANES);
        }
    }
#if defined(__SSE__)
    if (large) _mm_sfence();
#endif
}
