// The backward pass of convolution.cpp: gradients of the input and of the weights.
#include "adjoints.h"
#include "kernels.h"
#include "plan.h"

namespace {

constexpr int64_t FILTERS = 128;  // of a thread's turn, together
constexpr int64_t TILES = 128;  // of a product for the weights: two panels of them stay in the cache

// share = out' * in, or added to it: one of the 36 products, some filters, one panel of channels.
// share is that of the first filter and channel, and filters are `row` apart in it.
void multiply_for_weights(const Tiles &out, int64_t filter, int64_t end, const Tiles &in, int64_t n,
                          int64_t q, float *share, int64_t row, bool add) {
    for (int64_t i = 0; i < in.count; i += TILES)
        for (int64_t k = filter; k < end; k += PANEL) {
            const float *ahead = k + PANEL < end ? out.at(i, k + PANEL) + q * out.plane
                                                 : in.at(i, (n + 1) * PANEL) + q * in.plane;
            product({out.at(i, k) + q * out.plane, 1, out.row(), 0, in.count,
                     in.at(i, n * PANEL) + q * in.plane, in.row(), share + (k - filter) * row, row,
                     std::min(PANEL, end - k), std::min(TILES, in.count - i),
                     panel_width(in.channels, n), add || i > 0, ahead});
        }
}

// The gradient of a block of filters and a panel of channels, from all tiles.
void weights_at_once(const Tiles &out, int64_t filter, int64_t filters, const Tiles &in, int64_t n,
                     int64_t channels, float *block, float *gradient_w) {
    int64_t end = std::min(filter + BLOCK, filters), plane = BLOCK * PANEL;
    for (int64_t q = 0; q < TAPS; q++)
        multiply_for_weights(out, filter, end, in, n, q, block + q * plane, PANEL, false);
    for (int64_t k = filter; k < end; k++) {
        const Shares own{block + (k - filter) * PANEL, 1, 0, plane};
        unpack_filter(&own, gradient_w + k * 9 * channels + n * PANEL, channels,
                      std::min(PANEL, channels - n * PANEL));
    }
}

// (images, 2, whole channels) -> (tasks, 3, channels), the last of the three not used
void total_sums(const Plan &plan, const float *of_images, float *sums, int64_t tasks) {
    int64_t channels = plan.in.channels, images = plan.in.images / tasks;
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t i = 0; i < 2; i++)
            for (int64_t c = 0; c < channels; c++) {
                double sum = 0;
                for (int64_t n = t * images; n < (t + 1) * images; n++)
                    sum += of_images[(2 * n + i) * plan.in_channels + c];
                sums[(3 * t + i) * channels + c] = float(sum);
            }
}

}  // namespace

// Images are (images, height, width, channels), weights (filters, 3, 3, channels).
extern "C" {

int64_t tadam_conv_backward_scratch(const conv_backward_scratch_arguments *a) {
    return Plan(*a).backward_floats();
}

// The gradient of the output is `scale * gradient + other_scale * other + shift`. x is as in tadam_conv, and
// gradient_x, which may be null, is that of x, or of `x_scale * x + x_shift` with its sums: (x_tasks, 3,
// channels), alone and times x, the last not used.
int64_t tadam_conv_backward(const conv_backward_arguments *a) {
    const Plan plan(*a);
    const Incoming incoming{a->gradient,    a->scale, a->other,
                            a->other_scale, a->shift, a->images / a->tasks};
    const Source source{a->x, a->x_scale, a->x_shift, a->images / a->x_tasks, a->x_relu != 0};
    const int64_t threads = a->threads, images = a->images;
    const int64_t channels = a->channels, filters = a->filters;
    const float *packed = a->packed;
    float *gradient_x = a->gradient_x, *gradient_w = a->gradient_weight, *scratch = a->scratch;
    const int64_t columns = panels(channels), per_image = plan.in.tiles_per_image();
    int64_t workers = 1;
    float *shares = scratch + plan.base_floats();
    float *rows = shares + plan.shares() * plan.share_floats();
    float *of_images = rows + threads * rows_floats(plan.in);
    if (plan.alone) {
        int64_t group = std::max<int64_t>(1, plan.run / per_image);  // images
#pragma omp parallel num_threads(int(threads))
        {
#pragma omp single nowait
            workers = omp_get_num_threads();
            float *own = scratch + omp_get_thread_num() * plan.tile_floats();
            float *share = shares + omp_get_thread_num() * plan.share_floats();
            float *own_rows = rows + omp_get_thread_num() * rows_floats(plan.in);
            bool add = false;
#pragma omp for schedule(static)
            for (int64_t image = 0; image < images; image += group) {  // tiles overlap in an image
                int64_t end = std::min(image + group, images) * per_image;
                for (int64_t first = image * per_image; first < end; first += plan.run) {
                    int64_t count = std::min(plan.run, end - first);
                    Tiles v = plan.in_tiles(own, first, count);
                    Tiles m = plan.out_tiles(own, first, count);
                    output_adjoint_tiles(&incoming, &plan.out, &m);
                    input_tiles(source, plan.in, v, plan.own_rows(scratch));
                    for (int64_t q = 0; q < TAPS; q++) {
                        float *plane = share + q * plan.share_plane();
                        for (int64_t n = 0; n < columns; n++)
                            multiply_for_weights(m, 0, filters, v, n, q, plane + n * PANEL,
                                                 plan.in_channels, add);
                        for (int64_t n = 0; n < columns && gradient_x; n++)
                            multiply(m, filters, packed, v, q, n);
                    }
                    if (gradient_x)
                        input_adjoint_tiles(&v, &plan.in, own_rows, &source, gradient_x, of_images);
                    add = true;
                }
            }
            if (!add) std::memset(share, 0, plan.share_floats() * sizeof(float));
        }
    } else {
        for (int64_t first = 0; first < plan.tiles(); first += plan.run) {
            int64_t count = std::min(plan.run, plan.tiles() - first);
            Tiles v = plan.in_tiles(scratch, first, count), m = plan.out_tiles(scratch, first, count);
#pragma omp parallel num_threads(int(threads))
            {
                float *own_rows = rows + omp_get_thread_num() * rows_floats(plan.in);
#pragma omp for schedule(guided)
                for (int64_t i = 0; i < count; i += plan.few()) {
                    Tiles few = some_of(m, i, plan.few());
                    output_adjoint_tiles(&incoming, &plan.out, &few);
                    input_tiles(source, plan.in, some_of(v, i, plan.few()), plan.own_rows(scratch));
                }
                if (plan.at_once()) {
#pragma omp for collapse(2) schedule(guided)
                    for (int64_t k = 0; k < filters; k += BLOCK)
                        for (int64_t n = 0; n < columns; n++)
                            weights_at_once(m, k, filters, v, n, channels,
                                            shares + omp_get_thread_num() * plan.share_floats(),
                                            gradient_w);
                } else {
#pragma omp for collapse(2) schedule(guided)
                    for (int64_t q = 0; q < TAPS; q++)
                        for (int64_t k = 0; k < filters; k += FILTERS)
                            for (int64_t n = 0; n < columns; n++)
                                multiply_for_weights(
                                    m, k, std::min(k + FILTERS, filters), v, n, q,
                                    shares + q * plan.share_plane() + k * plan.in_channels + n * PANEL,
                                    plan.in_channels, first > 0);
                }
                if (gradient_x) {
#pragma omp for collapse(2) schedule(guided)
                    for (int64_t q = 0; q < TAPS; q++)
                        for (int64_t n = 0; n < columns; n++) multiply(m, filters, packed, v, q, n);
#pragma omp for schedule(guided)
                    for (int64_t i = 0; i < count; i += per_image) {
                        Tiles image = some_of(v, i, per_image);
                        input_adjoint_tiles(&image, &plan.in, own_rows, &source, gradient_x, of_images);
                    }
                }
            }
        }
    }
    if (!plan.at_once()) {
#pragma omp parallel for schedule(static) num_threads(int(threads))
        for (int64_t k = 0; k < filters; k++) {
            const Shares all{shares + k * plan.in_channels, workers, plan.share_floats(),
                             plan.share_plane()};
            unpack_filter(&all, gradient_w + k * 9 * channels, channels, channels);
        }
    }
    if (gradient_x && a->x_scale) total_sums(plan, of_images, a->sums, a->x_tasks);
    return 0;
}

}
