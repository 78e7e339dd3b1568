// What follows a convolution, in one pass over memory: batch norm and FiLM (together one scale and one
// shift for each task and channel), the residual sum, swish or relu, and 2x2 max-pool; and back.
//
// Tensors are channels last, seen as rows of channels, the rows of a task together. Sums are taken over
// fixed chunks of rows and added in their order, so they do not depend on the number of threads.
#include <vector>

#include "kernels.h"
#include "lanes.h"

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

// The value before the activation: scale * x + shift, plus the same of the shortcut if there is one.
struct Affine {
    const float *x, *scale, *shift;
};

struct Unit {
    Affine main, side;
    bool relu;
    int64_t channels;
};

struct Scales {
    Lanes scale, shift, side_scale{}, side_shift{};
};

INLINE void load_scales(Scales &s, const Unit &u, int64_t c, int64_t count) {
    load(s.scale, u.main.scale + c, count);
    load(s.shift, u.main.shift + c, count);
    if (u.side.x) {
        load(s.side_scale, u.side.scale + c, count);
        load(s.side_shift, u.side.shift + c, count);
    }
}

INLINE void before_activation(Lanes &out, const Unit &u, const Scales &s, int64_t at, int64_t count) {
    Lanes x;
    load(x, u.main.x + at, count);
    out = s.scale * x + s.shift;
    if (u.side.x) {
        load(x, u.side.x + at, count);
        out += s.side_scale * x + s.side_shift;
    }
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

// Sums of the gradient before the activation, alone and times both inputs: (3, channels), added to.
INLINE void add_sums(float *sums, const Lanes &gradient, const Unit &u, int64_t at, int64_t c,
                     int64_t count) {
    Lanes x;
    load(x, u.main.x + at, count);
    add_to(sums + c, gradient, count);
    add_to(sums + u.channels + c, gradient * x, count);
    if (u.side.x) {
        load(x, u.side.x + at, count);
        add_to(sums + 2 * u.channels + c, gradient * x, count);
    }
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

// Two rows of pixels that are pooled to one; at a lower edge in ceil mode there may be only one.
struct Pooled {
    int64_t width, out_width;
    int rows;
};

static void pooled_forward_row(const Unit *u, const Pooled *p, float *y) {
    for (int64_t z = 0; z < p->out_width; z++) {
        int columns = 2 * z + 1 < p->width ? 2 : 1;
        for_lanes(u->channels, WORK {
            Scales scales;
            Lanes most{};
            load_scales(scales, *u, c, count);
            for (int i = 0; i < p->rows; i++)
                for (int j = 0; j < columns; j++) {
                    Lanes value, out, slope;
                    Bits better;
                    int64_t at = (i * p->width + 2 * z + j) * u->channels + c;
                    before_activation(value, *u, scales, at, count);
                    activate(out, slope, value, u->relu);
                    if (i + j == 0) most = out;
                    beats(better, out, most);
                    replace(most, better, out);
                }
            store(y + z * u->channels + c, most, count);
        });
    }
}

// The gradient goes to the first of the largest; the pixels that no window covers get none.
static void pooled_backward_row(const Unit *u, const Pooled *p, const float *gradient, float *out,
                                float *sums) {
    for (int64_t z = 0; z < p->out_width; z++) {
        int columns = 2 * z + 1 < p->width ? 2 : 1;
        for_lanes(u->channels, WORK {
            Scales scales;
            Lanes most{}, slopes[4], g;
            Bits chosen{};
            load_scales(scales, *u, c, count);
            for (int i = 0; i < p->rows; i++)
                for (int j = 0; j < columns; j++) {
                    Lanes value, active;
                    Bits better;
                    int64_t at = (i * p->width + 2 * z + j) * u->channels + c;
                    before_activation(value, *u, scales, at, count);
                    activate(active, slopes[2 * i + j], value, u->relu);
                    if (i + j == 0) most = active;
                    beats(better, active, most);
                    replace(most, better, active);
                    replace(chosen, better, Bits{} + (2 * i + j));
                }
            load(g, gradient + z * u->channels + c, count);
            for (int i = 0; i < p->rows; i++)
                for (int j = 0; j < columns; j++) {
                    int64_t at = (i * p->width + 2 * z + j) * u->channels + c;
                    Bits here = ((chosen ^ (2 * i + j)) - 1) >> 31;
                    Lanes own = (Lanes)((Bits)(g * slopes[2 * i + j]) & here);
                    store(out + at, own, count);
                    add_sums(sums, own, *u, at, c, count);
                }
        });
    }
    int64_t covered = 2 * p->out_width, rest = std::max<int64_t>(0, p->width - covered);
    for (int i = 0; i < p->rows; i++)
        std::memset(out + (i * p->width + covered) * u->channels, 0,
                    rest * u->channels * sizeof(float));
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

// The unit of a task from place `at` on; kernels of norms name their arguments alike.
template <class Arguments>
Unit unit_at(const Arguments &a, int64_t task, int64_t at) {
    return {{a.x + at, a.scale + task * a.channels, a.shift + task * a.channels},
            {a.side ? a.side + at : nullptr, a.side_scale, a.side_shift},
            a.relu != 0,
            a.channels};
}

// (tasks, parts, 3, channels) -> (tasks, 3, channels)
void add_parts(const std::vector<float> &parts, float *sums, int64_t tasks, int64_t channels) {
    int64_t of_task = int64_t(parts.size()) / (tasks * 3 * channels);
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t i = 0; i < 3 * channels; i++) {
            double sum = 0;
            for (int64_t k = 0; k < of_task; k++) sum += parts[(t * of_task + k) * 3 * channels + i];
            sums[t * 3 * channels + i] = float(sum);
        }
}

}  // namespace

// Tensors are (tasks * rows, channels); scales and shifts (tasks, channels), those of the shortcut
// (channels,). A null shortcut leaves it out. Where there is a pool, rows are images of a task and
// `ceil` tells whether an odd last row or column is pooled too.
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

int64_t tadam_pooled_norm(const pooled_norm_arguments *a) {
    const int64_t height = a->height, width = a->width, channels = a->channels;
    const int64_t out_height = (height + a->ceil) / 2, out_width = (width + a->ceil) / 2;
#pragma omp parallel for collapse(2) schedule(static) num_threads(int(a->threads))
    for (int64_t n = 0; n < a->tasks * a->images; n++)
        for (int64_t r = 0; r < out_height; r++) {
            int64_t at = (n * height + 2 * r) * width * channels;
            Unit u = unit_at(*a, n / a->images, at);
            Pooled p{width, out_width, 2 * r + 1 < height ? 2 : 1};
            pooled_forward_row(&u, &p, a->y + (n * out_height + r) * out_width * channels);
        }
    return 0;
}

int64_t tadam_pooled_norm_backward(const pooled_norm_backward_arguments *a) {
    const int64_t height = a->height, width = a->width, channels = a->channels;
    const int64_t out_height = (height + a->ceil) / 2, out_width = (width + a->ceil) / 2;
    const int64_t images = a->tasks * a->images, row = width * channels;
    std::vector<float> parts(images * out_height * 3 * channels);
#pragma omp parallel for collapse(2) schedule(static) num_threads(int(a->threads))
    for (int64_t n = 0; n < images; n++)
        for (int64_t r = 0; r < out_height; r++) {
            int64_t at = (n * height + 2 * r) * row, part = n * out_height + r;
            Unit u = unit_at(*a, n / a->images, at);
            Pooled p{width, out_width, 2 * r + 1 < height ? 2 : 1};
            pooled_backward_row(&u, &p, a->gradient + part * out_width * channels, a->out + at,
                                parts.data() + part * 3 * channels);
            if (r == out_height - 1 && 2 * out_height < height)  // an odd last row, not pooled
                std::memset(a->out + at + 2 * row, 0, row * sizeof(float));
        }
    if (out_height == 0) std::memset(a->out, 0, images * height * row * sizeof(float));
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
