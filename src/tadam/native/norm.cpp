// What follows a convolution, in one pass over memory instead of four: batch norm and FiLM (together one
// scale and one shift for each task and channel), the residual sum and swish; forward and backward.
//
// Tensors are channels last, seen as rows of channels, the rows of a task together. Sums are taken over
// fixed chunks of rows and added in their order, so they do not depend on the number of threads.
#include <vector>

#include "lanes.h"

namespace {

constexpr int64_t CHUNK = 256;  // rows; 64 channels of them stay in the first-level cache

int64_t chunks_of(int64_t rows) { return (rows + CHUNK - 1) / CHUNK; }

MULTIVERSIONED void moments_chunk(const float *x, const float *shift, double *sums, int64_t rows,
                                  int64_t channels) {
    for (int64_t c = 0; c < channels; c += LANES) {
        int64_t count = std::min(LANES, channels - c);
        Lanes sum{}, square{}, origin, value;
        load(origin, shift + c, count);
        for (int64_t r = 0; r < rows; r++) {
            load(value, x + r * channels + c, count);
            value -= origin;
            sum += value;
            square += value * value;
        }
        for (int64_t i = 0; i < count; i++) {
            sums[c + i] = sum[i];
            sums[channels + c + i] = square[i];
        }
    }
}

// The value before swish: scale * x + shift, plus the same of the shortcut if there is one.
struct Affine {
    const float *x, *scale, *shift;
};

INLINE void before_swish(Lanes &out, const Affine &main, const Affine &side, int64_t at, int64_t c,
                         int64_t count) {
    Lanes x, scale, shift;
    load(x, main.x + at, count);
    load(scale, main.scale + c, count);
    load(shift, main.shift + c, count);
    out = scale * x + shift;
    if (side.x) {
        load(x, side.x + at, count);
        load(scale, side.scale + c, count);
        load(shift, side.shift + c, count);
        out += scale * x + shift;
    }
}

MULTIVERSIONED void forward_chunk(const Affine *main, const Affine *side, float *y, int64_t rows,
                                  int64_t channels) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c += LANES) {
            int64_t count = std::min(LANES, channels - c);
            Lanes value, gate;
            before_swish(value, *main, *side, r * channels + c, c, count);
            sigmoid(gate, value);
            store(y + r * channels + c, value * gate, count);
        }
}

// Writes the gradient before swish; sums it, and its products with both inputs, for each channel.
MULTIVERSIONED void backward_chunk(const Affine *main, const Affine *side, const float *gradient,
                                   float *out, float *sums, int64_t rows, int64_t channels) {
    for (int64_t c = 0; c < channels; c += LANES) {
        int64_t count = std::min(LANES, channels - c);
        Lanes sum{}, with_main{}, with_side{};
        for (int64_t r = 0; r < rows; r++) {
            int64_t at = r * channels + c;
            Lanes value, gate, g, x;
            before_swish(value, *main, *side, at, c, count);
            sigmoid(gate, value);
            load(g, gradient + at, count);
            g *= gate * (1.0f + value * (1.0f - gate));
            store(out + at, g, count);
            load(x, main->x + at, count);
            sum += g;
            with_main += g * x;
            if (side->x) {
                load(x, side->x + at, count);
                with_side += g * x;
            }
        }
        store(sums + c, sum, count);
        store(sums + channels + c, with_main, count);
        store(sums + 2 * channels + c, with_side, count);
    }
}

MULTIVERSIONED void combine_chunk(const float *g, const float *x, const float *a, const float *b,
                                  const float *d, float *out, int64_t rows, int64_t channels) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < channels; c += LANES) {
            int64_t count = std::min(LANES, channels - c), at = r * channels + c;
            Lanes gradient, value, p, q, s;
            load(gradient, g + at, count);
            load(value, x + at, count);
            load(p, a + c, count);
            load(q, b + c, count);
            load(s, d + c, count);
            store(out + at, p * gradient + q * value + s, count);
        }
}

}  // namespace

// Tensors are (tasks * rows, channels); scales and shifts (tasks, channels), those of the shortcut
// (channels,). A null shortcut leaves it out.
extern "C" {

// mean and biased variance of each channel over all rows
void tadam_moments(const float *x, float *mean, float *variance, int64_t rows, int64_t channels) {
    int64_t chunks = chunks_of(rows);
    std::vector<double> parts(chunks * 2 * channels);
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < chunks; k++)
        moments_chunk(x + k * CHUNK * channels, x, parts.data() + k * 2 * channels,
                      std::min(CHUNK, rows - k * CHUNK), channels);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, square = 0;
        for (int64_t k = 0; k < chunks; k++) {
            sum += parts[(2 * k) * channels + c];
            square += parts[(2 * k + 1) * channels + c];
        }
        double offset = sum / rows;  // from the first row, which keeps the square small
        mean[c] = float(x[c] + offset);
        variance[c] = float(std::max(square / rows - offset * offset, 0.0));
    }
}

void tadam_norm_swish(const float *x, const float *scale, const float *shift, const float *side,
                      const float *side_scale, const float *side_shift, float *y, int64_t tasks,
                      int64_t rows, int64_t channels) {
    int64_t chunks = chunks_of(rows);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t k = 0; k < chunks; k++) {
            int64_t at = (t * rows + k * CHUNK) * channels;
            Affine main{x + at, scale + t * channels, shift + t * channels};
            Affine other{side ? side + at : nullptr, side_scale, side_shift};
            forward_chunk(&main, &other, y + at, std::min(CHUNK, rows - k * CHUNK), channels);
        }
}

// sums: (tasks, 3, channels): of the gradient before swish, and of its products with x and the shortcut
void tadam_norm_swish_backward(const float *gradient, const float *x, const float *scale,
                               const float *shift, const float *side, const float *side_scale,
                               const float *side_shift, float *out, float *sums, int64_t tasks,
                               int64_t rows, int64_t channels) {
    int64_t chunks = chunks_of(rows);
    std::vector<float> parts(tasks * chunks * 3 * channels);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t k = 0; k < chunks; k++) {
            int64_t at = (t * rows + k * CHUNK) * channels;
            Affine main{x + at, scale + t * channels, shift + t * channels};
            Affine other{side ? side + at : nullptr, side_scale, side_shift};
            backward_chunk(&main, &other, gradient + at, out + at,
                           parts.data() + (t * chunks + k) * 3 * channels,
                           std::min(CHUNK, rows - k * CHUNK), channels);
        }
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t i = 0; i < 3 * channels; i++) {
            double sum = 0;
            for (int64_t k = 0; k < chunks; k++) sum += parts[(t * chunks + k) * 3 * channels + i];
            sums[t * 3 * channels + i] = float(sum);
        }
}

// out = a * gradient + b * x + d, with a (tasks, channels), b and d (channels,)
void tadam_combine(const float *gradient, const float *x, const float *a, const float *b,
                   const float *d, float *out, int64_t tasks, int64_t rows, int64_t channels) {
    int64_t chunks = chunks_of(rows);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t k = 0; k < chunks; k++) {
            int64_t at = (t * rows + k * CHUNK) * channels;
            combine_chunk(gradient + at, x + at, a + t * channels, b, d, out + at,
                          std::min(CHUNK, rows - k * CHUNK), channels);
        }
}

}
