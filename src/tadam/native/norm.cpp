// What follows a convolution, in one pass over memory: batch norm and FiLM (together one scale and one
// shift for each task and channel), the residual sum, swish or relu; and back. pooled_norm.cpp adds max-pool.
//
// Tensors are channels last, seen as rows of channels, the rows of a task together. Sums are taken over
// fixed chunks of rows and added in their order, so they do not depend on the number of threads.
#include "kernels.h"
#include "unit.h"

namespace {

constexpr int64_t CHUNK = 256;  // rows

int64_t chunks_of(int64_t rows) { return (rows + CHUNK - 1) / CHUNK; }

// sums: (2, channels), of the distances from `origin` and of their squares, added to.
static void moments_chunk(const float *x, const float *origin, float *sums, int64_t rows,
                          int64_t channels) {
    for (int64_t r = 0; r < rows; r++)
        for_lanes(channels, WORK {
            Lanes value, from;
            load(value, x + r * channels + c, count);
            load(from, origin + c, count);
            value -= from;
            add_to(sums + c, value, count);
            add_to(sums + channels + c, value * value, count);
        });
}

static void forward_chunk(const Unit *u, float *y, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for_lanes(u->channels, WORK {
            int64_t at = r * u->channels + c;
            Scales scales;
            Lanes value, out, slope;
            load_scales(scales, *u, c, count);
            before_activation(value, *u, scales, at, count);
            activate(out, slope, value, u->relu);
            store(y + at, out, count);
        });
}

static void backward_chunk(const Unit *u, const float *gradient, float *out, float *sums,
                           int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for_lanes(u->channels, WORK {
            int64_t at = r * u->channels + c;
            Scales scales;
            Lanes value, active, slope, g;
            load_scales(scales, *u, c, count);
            before_activation(value, *u, scales, at, count);
            activate(active, slope, value, u->relu);
            load(g, gradient + at, count);
            g *= slope;
            store(out + at, g, count);
            add_sums(sums, g, *u, at, c, count);
        });
}

static void combine_chunk(const float *g, const float *x, const float *a, const float *b,
                          const float *d, float *out, int64_t rows, int64_t channels) {
    for (int64_t r = 0; r < rows; r++)
        for_lanes(channels, WORK {
            int64_t at = r * channels + c;
            Lanes gradient, value, p, q, s;
            load(gradient, g + at, count);
            load(value, x + at, count);
            load(p, a + c, count);
            load(q, b + c, count);
            load(s, d + c, count);
            store(out + at, p * gradient + q * value + s, count);
        });
}

}  // namespace

// Tensors are (tasks * rows, channels); scales and shifts (tasks, channels), those of the shortcut
// (channels,). A null shortcut leaves it out.
extern "C" {

// mean and biased variance of each channel over all rows
int64_t tadam_moments(const moments_arguments *a) {
    const int64_t rows = a->rows, channels = a->channels, chunks = chunks_of(rows);
    std::vector<float> parts(chunks * 2 * channels);
#pragma omp parallel for schedule(static) num_threads(int(a->threads))
    for (int64_t k = 0; k < chunks; k++)
        moments_chunk(a->x + k * CHUNK * channels, a->x, parts.data() + k * 2 * channels,
                      std::min(CHUNK, rows - k * CHUNK), channels);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, square = 0;
        for (int64_t k = 0; k < chunks; k++) {
            sum += parts[(2 * k) * channels + c];
            square += parts[(2 * k + 1) * channels + c];
        }
        double offset = sum / rows;  // from the first row, which keeps the square small
        a->mean[c] = float(a->x[c] + offset);
        a->variance[c] = float(std::max(square / rows - offset * offset, 0.0));
    }
    return 0;
}

int64_t tadam_norm(const norm_arguments *a) {
    const int64_t rows = a->rows, chunks = chunks_of(rows);
#pragma omp parallel for collapse(2) schedule(static) num_threads(int(a->threads))
    for (int64_t t = 0; t < a->tasks; t++)
        for (int64_t k = 0; k < chunks; k++) {
            int64_t at = (t * rows + k * CHUNK) * a->channels;
            Unit u = unit_at(*a, t, at);
            forward_chunk(&u, a->y + at, std::min(CHUNK, rows - k * CHUNK));
        }
    return 0;
}

// sums: (tasks, 3, channels): of the gradient before the activation, and of its products with x and side
int64_t tadam_norm_backward(const norm_backward_arguments *a) {
    const int64_t rows = a->rows, channels = a->channels, chunks = chunks_of(rows);
    std::vector<float> parts(a->tasks * chunks * 3 * channels);
#pragma omp parallel for collapse(2) schedule(static) num_threads(int(a->threads))
    for (int64_t t = 0; t < a->tasks; t++)
        for (int64_t k = 0; k < chunks; k++) {
            int64_t at = (t * rows + k * CHUNK) * channels;
            Unit u = unit_at(*a, t, at);
            backward_chunk(&u, a->gradient + at, a->out + at,
                           parts.data() + (t * chunks + k) * 3 * channels,
                           std::min(CHUNK, rows - k * CHUNK));
        }
    add_parts(parts, a->sums, a->tasks, channels);
    return 0;
}

// out = a * gradient + b * x + d, with a (tasks, channels), b and d (channels,)
int64_t tadam_combine(const combine_arguments *a) {
    const int64_t rows = a->rows, channels = a->channels, chunks = chunks_of(rows);
#pragma omp parallel for collapse(2) schedule(static) num_threads(int(a->threads))
    for (int64_t t = 0; t < a->tasks; t++)
        for (int64_t k = 0; k < chunks; k++) {
            int64_t at = (t * rows + k * CHUNK) * channels;
            combine_chunk(a->gradient + at, a->x + at, a->a + t * channels, a->b, a->d,
                          a->out + at, std::min(CHUNK, rows - k * CHUNK), channels);
        }
    return 0;
}

}
