// Small matrix products with all operands in the cache: out = a * b, or out += a * b.
#pragma once

#include "lanes.h"

struct Product {
    const float *a;  // rows x depth
    int64_t a_row, a_depth;  // distances between rows, and between columns: one is 1, the other a Tiles::row()
    int64_t a_panel, a_columns;  // distance between panels of so many columns
    const float *b;  // depth x columns
    int64_t b_depth;  // distance between rows
    float *out;  // rows x columns
    int64_t out_row;
    int64_t rows, depth, columns;  // columns: LANES or 2 * LANES
    bool add;
    const float *ahead;  // as much as b, to be asked for meanwhile
};

// ROWS x (WIDE * LANES) values of the result, kept in registers. Distances in a are known to the compiler,
// which otherwise spends registers on them.
template <int ROWS, int WIDE, int A_ROW, int A_DEPTH>
INLINE void product_tile(const Product &p, int64_t row) {
    Lanes sum[ROWS][WIDE];
    const float *a = p.a + row * A_ROW, *b = p.b;
    float *out = p.out + row * p.out_row;
    const float *ahead = p.ahead + row * p.depth * PANEL / p.rows;
    const int64_t step = ROWS * PANEL / p.rows;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDE; j++)
            if (p.add)
                load(sum[i][j], out + i * p.out_row + j * LANES, LANES);
            else
                sum[i][j] = Lanes{};
    for (int64_t first = 0; first < p.depth; first += p.a_columns, a += p.a_panel) {
        int64_t columns = std::min(p.a_columns, p.depth - first);
        for (int64_t k = 0; k < columns; k++, b += p.b_depth) {
            Lanes right[WIDE];
            __builtin_prefetch(ahead, 0, 3);
            ahead += step;
#pragma GCC unroll 2
            for (int j = 0; j < WIDE; j++) load(right[j], b + j * LANES, LANES);
#pragma GCC unroll 16
            for (int i = 0; i < ROWS; i++) {
                float left = a[i * A_ROW + k * A_DEPTH];
#pragma GCC unroll 2
                for (int j = 0; j < WIDE; j++) sum[i][j] += left * right[j];
            }
        }
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDE; j++) store(out + i * p.out_row + j * LANES, sum[i][j], LANES);
}

template <int ROWS, int WIDE, int A_ROW, int A_DEPTH>
INLINE void product_rows(const Product &p) {
    int64_t row = 0;
    for (; row + ROWS <= p.rows; row += ROWS)
        product_tile<ROWS, WIDE, A_ROW, A_DEPTH>(p, row);
    for (; row + 4 <= p.rows; row += 4) product_tile<4, WIDE, A_ROW, A_DEPTH>(p, row);
    for (; row < p.rows; row++) product_tile<1, WIDE, A_ROW, A_DEPTH>(p, row);
}

template <int ROWS, int WIDE>
INLINE void product_columns(const Product &p) {
    if (p.a_row == 1 && p.a_depth == PANEL)
        product_rows<ROWS, WIDE, 1, PANEL>(p);
    else if (p.a_row == 1)
        product_rows<ROWS, WIDE, 1, LANES>(p);
    else if (p.a_row == PANEL)
        product_rows<ROWS, WIDE, PANEL, 1>(p);
    else
        product_rows<ROWS, WIDE, LANES, 1>(p);
}

static void product(const Product &p) {
#if defined(__AVX512F__) || defined(__aarch64__)
    constexpr int ROWS = 8;  // with two columns of registers for each, half of 32
#else
    constexpr int ROWS = 6;
#endif
    if (p.columns == PANEL)
        product_columns<ROWS, 2>(p);
    else
        product_columns<2 * ROWS, 1>(p);
}
