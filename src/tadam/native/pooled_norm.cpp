// The norms of norm.cpp with a 2x2 max-pool after the activation, in the same pass over memory; and back.
#include "kernels.h"
#include "unit.h"

namespace {

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

}  // namespace

// As in norm.cpp, but rows are images of a task. `ceil` tells whether an odd last row or column is pooled.
extern "C" {

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

}
