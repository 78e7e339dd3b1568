// Winograd's F(4x4, 3x3): a 3x3 convolution with a quarter of the multiplications (Lavin and Gray, 2015).
//
// y = A' [ (G w G') . (B' d B) ] A for each 4x4 tile of the output, d being the 6x6 patch of the input
// around it. Here are the transforms of input and output and their adjoints, on channels-last tensors
// with a border of zeros; the products in between are 36 matrix products, left to the BLAS.
#include "lanes.h"

namespace {

struct Shape {
    int64_t images, height, width, channels;
    int64_t tile_rows() const { return (height + 3) / 4; }
    int64_t tile_columns() const { return (width + 3) / 4; }
    int64_t tiles() const { return images * tile_rows() * tile_columns(); }
    int64_t tile(int64_t n, int64_t row, int64_t column) const {
        return (n * tile_rows() + row) * tile_columns() + column;
    }
    int64_t pixel(int64_t n, int64_t y, int64_t x) const {
        return ((n * height + y) * width + x) * channels;
    }
};

// Each of these maps a column of values `in` apart to a column of values `out` apart.

// B': 6 -> 6
INLINE void transform_input(const Lanes *d, int in, Lanes *o, int out) {
    Lanes d0 = d[0], d1 = d[in], d2 = d[2 * in], d3 = d[3 * in], d4 = d[4 * in], d5 = d[5 * in];
    Lanes a = d4 - 4 * d2, b = d3 - 4 * d1, c = d4 - d2, e = 2 * (d3 - d1);
    o[0] = 4 * d0 - 5 * d2 + d4;
    o[out] = a + b;
    o[2 * out] = a - b;
    o[3 * out] = c + e;
    o[4 * out] = c - e;
    o[5 * out] = 4 * d1 - 5 * d3 + d5;
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

// Each of these does one row of tiles of one image.

MULTIVERSIONED void input_row(const float *x, float *v, const Shape *s, int64_t n, int64_t row) {
    int64_t plane = s->tiles() * s->channels;
    for (int64_t column = 0; column < s->tile_columns(); column++) {
        float *to = v + s->tile(n, row, column) * s->channels;
        for (int64_t c = 0; c < s->channels; c += LANES) {
            int64_t count = std::min(LANES, s->channels - c);
            Lanes d[36], t[36];
            for (int i = 0; i < 6; i++)
                for (int j = 0; j < 6; j++) {
                    int64_t py = 4 * row - 1 + i, px = 4 * column - 1 + j;
                    bool inside = py >= 0 && py < s->height && px >= 0 && px < s->width;
                    if (inside)
                        load(d[6 * i + j], x + s->pixel(n, py, px) + c, count);
                    else
                        d[6 * i + j] = Lanes{};
                }
            for (int j = 0; j < 6; j++) transform_input(d + j, 6, t + j, 6);
            for (int i = 0; i < 6; i++) transform_input(t + 6 * i, 1, d + 6 * i, 1);
            for (int q = 0; q < 36; q++) store(to + q * plane + c, d[q], count);
        }
    }
}

// Adds to x, which must be zero at first: the patches of neighbouring tiles overlap.
MULTIVERSIONED void input_adjoint_row(const float *v, float *x, const Shape *s, int64_t n,
                                      int64_t row) {
    int64_t plane = s->tiles() * s->channels;
    for (int64_t column = 0; column < s->tile_columns(); column++) {
        const float *from = v + s->tile(n, row, column) * s->channels;
        for (int64_t c = 0; c < s->channels; c += LANES) {
            int64_t count = std::min(LANES, s->channels - c);
            Lanes d[36], t[36];
            for (int q = 0; q < 36; q++) load(d[q], from + q * plane + c, count);
            for (int j = 0; j < 6; j++) transform_input_adjoint(d + j, 6, t + j, 6);
            for (int i = 0; i < 6; i++) transform_input_adjoint(t + 6 * i, 1, d + 6 * i, 1);
            for (int i = 0; i < 6; i++)
                for (int j = 0; j < 6; j++) {
                    int64_t py = 4 * row - 1 + i, px = 4 * column - 1 + j;
                    if (py < 0 || py >= s->height || px < 0 || px >= s->width) continue;
                    float *to = x + s->pixel(n, py, px) + c;
                    Lanes sum;
                    load(sum, to, count);
                    store(to, sum + d[6 * i + j], count);
                }
        }
    }
}

MULTIVERSIONED void output_row(const float *m, float *y, const Shape *s, int64_t n, int64_t row) {
    int64_t plane = s->tiles() * s->channels;
    for (int64_t column = 0; column < s->tile_columns(); column++) {
        const float *from = m + s->tile(n, row, column) * s->channels;
        for (int64_t c = 0; c < s->channels; c += LANES) {
            int64_t count = std::min(LANES, s->channels - c);
            Lanes d[36], t[24], o[16];
            for (int q = 0; q < 36; q++) load(d[q], from + q * plane + c, count);
            for (int j = 0; j < 6; j++) transform_output(d + j, 6, t + j, 6);
            for (int i = 0; i < 4; i++) transform_output(t + 6 * i, 1, o + 4 * i, 1);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) {
                    int64_t py = 4 * row + i, px = 4 * column + j;
                    if (py < s->height && px < s->width)
                        store(y + s->pixel(n, py, px) + c, o[4 * i + j], count);
                }
        }
    }
}

MULTIVERSIONED void output_adjoint_row(const float *y, float *m, const Shape *s, int64_t n,
                                       int64_t row) {
    int64_t plane = s->tiles() * s->channels;
    for (int64_t column = 0; column < s->tile_columns(); column++) {
        float *to = m + s->tile(n, row, column) * s->channels;
        for (int64_t c = 0; c < s->channels; c += LANES) {
            int64_t count = std::min(LANES, s->channels - c);
            Lanes d[16], t[24], o[36];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) {
                    int64_t py = 4 * row + i, px = 4 * column + j;
                    if (py < s->height && px < s->width)
                        load(d[4 * i + j], y + s->pixel(n, py, px) + c, count);
                    else
                        d[4 * i + j] = Lanes{};
                }
            for (int j = 0; j < 4; j++) transform_output_adjoint(d + j, 4, t + j, 4);
            for (int i = 0; i < 6; i++) transform_output_adjoint(t + 4 * i, 1, o + 6 * i, 1);
            for (int q = 0; q < 36; q++) store(to + q * plane + c, o[q], count);
        }
    }
}

}  // namespace

// x, y: (images, height, width, channels). v, m: (36, tiles, channels).
extern "C" {

void tadam_winograd_input(const float *x, float *v, int64_t images, int64_t height, int64_t width,
                          int64_t channels) {
    Shape s{images, height, width, channels};
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < images; n++)
        for (int64_t row = 0; row < (height + 3) / 4; row++) input_row(x, v, &s, n, row);
}

void tadam_winograd_input_adjoint(const float *v, float *x, int64_t images, int64_t height,
                                  int64_t width, int64_t channels) {
    Shape s{images, height, width, channels};
#pragma omp parallel for schedule(static)  // not over rows: their patches overlap
    for (int64_t n = 0; n < images; n++) {
        std::memset(x + s.pixel(n, 0, 0), 0, height * width * channels * sizeof(float));
        for (int64_t row = 0; row < s.tile_rows(); row++) input_adjoint_row(v, x, &s, n, row);
    }
}

void tadam_winograd_output(const float *m, float *y, int64_t images, int64_t height, int64_t width,
                           int64_t channels) {
    Shape s{images, height, width, channels};
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < images; n++)
        for (int64_t row = 0; row < (height + 3) / 4; row++) output_row(m, y, &s, n, row);
}

void tadam_winograd_output_adjoint(const float *y, float *m, int64_t images, int64_t height,
                                   int64_t width, int64_t channels) {
    Shape s{images, height, width, channels};
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < images; n++)
        for (int64_t row = 0; row < (height + 3) / 4; row++) output_adjoint_row(y, m, &s, n, row);
}

}
