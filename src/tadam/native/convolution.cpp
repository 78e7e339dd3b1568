// 3x3 convolution with a border of zeros by Winograd's transform: forward, data and weight gradient.
//
// Where the transformed weights stay in the cache, each thread takes runs of tiles all the way from
// pixels to pixels ("alone"). Where they are large or tiles are few, the threads share each stage
// ("together"): tiles to transform, then products to multiply, then tiles to transform back.
#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num() { return 0; }
static int omp_get_num_threads() { return 1; }
#endif

#include "kernels.h"
#include "tiles.h"
#include "weights.h"

namespace {

constexpr int64_t ENOUGH = 128;  // tiles for each thread to work alone
constexpr int64_t RUN_FLOATS = 4096;  // of each plane of the tiles that a thread takes alone, if they
constexpr int64_t RUN[] = {32, 64};  // are at least and at most so many
constexpr int64_t SMALL_WEIGHTS = 640 * 1024;  // floats of transformed weights that stay in the cache
constexpr int64_t SHARED_FLOATS = 8 * 1024 * 1024;  // of transformed tiles at a time, together
constexpr int64_t FEW = 32;  // tiles of a thread's turn, together, or a whole row of them
constexpr int64_t FILTERS = 128;  // of a thread's turn, together
constexpr int64_t BLOCK = 64;  // filters whose gradient is made at once, if tiles are so few that
constexpr int64_t BLOCK_TILES = 96;  // theirs stay in the cache
constexpr int64_t DEPTH = 256;  // of a product at a time: a panel of weights stays in the cache
constexpr int64_t TILES = 128;  // of a product for the weights: two panels of them stay in the cache

struct Plan {
    Shape in, out;
    int64_t threads, in_channels, out_channels;  // whole lanes of them
    bool alone;
    int64_t run;  // tiles at a time: whole rows of them alone, whole images together

    // Of the arguments of any kernel that has a convolution's sizes.
    template <class Arguments>
    explicit Plan(const Arguments &a)
        : in{a.images, a.height, a.width, a.channels}, out{a.images, a.height, a.width, a.filters},
          threads(a.threads), in_channels(whole(a.channels)), out_channels(whole(a.filters)) {
        alone = TAPS * in_channels * out_channels <= SMALL_WEIGHTS && tiles() >= ENOUGH * threads;
        int64_t unit = alone ? in.tile_columns() : in.tiles_per_image();
        int64_t both = in_channels + out_channels;
        int64_t most = alone ? std::clamp(RUN_FLOATS / both, RUN[0], RUN[1])
                             : SHARED_FLOATS / (TAPS * both);
        run = std::min(std::max<int64_t>(1, most / unit) * unit, tiles());
    }
    int64_t tiles() const { return in.tiles(); }
    int64_t workers() const { return alone ? threads : 1; }
    bool at_once() const { return !alone && run == tiles() && run <= BLOCK_TILES; }

    // Scratch memory: each worker's tiles and each thread's rows; then the moments of each part of the
    // output, or each thread's gradient of the weights and other rows, and the sums of each image.
    int64_t panel() const { return spaced(run * PANEL); }
    int64_t in_plane() const { return panels(in_channels) * panel(); }
    int64_t out_plane() const { return panels(out_channels) * panel(); }
    int64_t tile_floats() const { return TAPS * (in_plane() + out_plane()); }
    Tiles in_tiles(float *own, int64_t first, int64_t count) const {
        return {first, count, own, in_channels, panel(), in_plane()};
    }
    Tiles out_tiles(float *own, int64_t first, int64_t count) const {
        return {first, count, own + TAPS * in_plane(), out_channels, panel(), out_plane()};
    }
    // Panels one after the other at the same place, which stays in the cache.
    Tiles out_panel(float *own, int64_t first, int64_t count) const {
        return {first, count, own + TAPS * in_plane(), out_channels, 0, panel()};
    }
    // Each worker's gradient of the transformed weights, or each thread's block of it.
    int64_t share_plane() const { return at_once() ? BLOCK * PANEL : spaced(out.channels * in_channels); }
    int64_t share_floats() const { return TAPS * share_plane(); }
    int64_t shares() const { return at_once() ? threads : workers(); }
    int64_t few() const { return std::max<int64_t>(1, FEW / in.tile_columns()) * in.tile_columns(); }
    int64_t part() const { return alone ? run : few(); }  // tiles
    int64_t parts_of_run() const { return (run + part() - 1) / part(); }
    int64_t parts() const { return (tiles() + run - 1) / run * parts_of_run(); }
    int64_t part_floats() const { return 2 * out_channels + LANES; }
    int64_t base_floats() const { return workers() * tile_floats() + threads * rows_floats(in); }
    int64_t forward_floats() const { return base_floats() + parts() * part_floats(); }
    int64_t backward_floats() const {
        return base_floats() + shares() * share_floats() + threads * rows_floats(in) +
               in.images * 2 * in_channels;
    }
    float *own_rows(float *scratch) const {
        return scratch + workers() * tile_floats() + omp_get_thread_num() * rows_floats(in);
    }
};

Tiles some_of(const Tiles &tiles, int64_t start, int64_t count) {
    return {tiles.first + start, std::min(count, tiles.count - start), tiles.at(start, 0),
            tiles.channels, tiles.panel, tiles.plane};
}

// to = from * weights: one of the 36 products, one panel of columns.
void multiply(const Tiles &from, int64_t depth, const float *packed, const Tiles &to, int64_t q,
              int64_t panel) {
    int64_t columns = panel_width(to.channels, panel);
    const float *weights = packed + q * packed_plane(depth, to.channels) + panel * PANEL * depth;
    for (int64_t k = 0; k < depth; k += DEPTH)
        product({from.at(0, k) + q * from.plane, from.row(), 1, from.panel, PANEL,
                 weights + k * columns, columns, to.at(0, panel * PANEL) + q * to.plane, to.row(),
                 from.count, std::min(DEPTH, depth - k), columns, k > 0,
                 weights + std::min(k + DEPTH, depth) * columns});
}

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

// Puts the parts' means and sums of squares together.
void total_moments(const Plan &plan, const float *moments, float *mean, float *variance) {
    for (int64_t c = 0; c < plan.out.channels; c++) {
        double pixels = 0, average = 0, squares = 0;
        for (int64_t i = 0; i < plan.parts(); i++) {
            const float *part = moments + i * plan.part_floats();
            double count = part[2 * plan.out_channels], total = pixels + count;
            if (count == 0) continue;
            double off = part[c] - average;
            average += off * count / total;
            squares += part[plan.out_channels + c] + off * off * pixels * count / total;
            pixels = total;
        }
        mean[c] = float(average);
        variance[c] = float(std::max(squares / pixels, 0.0));
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

int64_t tadam_packed_floats(const packed_floats_arguments *a) {
    return TAPS * packed_plane(a->depth, a->columns);
}

// For the forward pass depth is the channels and the weights are turned; for the data gradient depth
// is the filters.
int64_t tadam_pack_weights(const pack_weights_arguments *a) {
    const int64_t depth = a->depth, columns = a->columns;
#pragma omp parallel for collapse(2) schedule(static) num_threads(int(a->threads))
    for (int64_t c = 0; c < columns; c += LANES)
        for (int64_t k = 0; k < depth; k += LANES)
            pack_block(a->weight, a->packed, depth, columns, k, c, a->turned != 0,
                       TAPS * depth * columns > SMALL_WEIGHTS);
    return 0;
}

int64_t tadam_conv_scratch(const conv_scratch_arguments *a) { return Plan(*a).forward_floats(); }

int64_t tadam_conv_backward_scratch(const conv_backward_scratch_arguments *a) {
    return Plan(*a).backward_floats();
}

// What is convolved is x, or the activation of `x_scale * x + x_shift`, (x_tasks, channels) each; see Source.
// Mean and biased variance of each channel of y go where they are asked for.
int64_t tadam_conv(const conv_arguments *a) {
    const Plan plan(*a);
    const Finish finish{a->scale,      a->shift,        a->side, a->side_scale, a->images / a->tasks,
                        a->activation, a->pool};
    const Source source{a->x, a->x_scale, a->x_shift, a->images / a->x_tasks, a->x_relu != 0};
    const int64_t threads = a->threads, channels = a->channels, filters = a->filters;
    const float *packed = a->packed;
    float *y = a->y, *mean = a->mean, *scratch = a->scratch;
    float *moments = mean ? scratch + plan.base_floats() : nullptr;
    if (mean) std::memset(moments, 0, plan.parts() * plan.part_floats() * sizeof(float));
    auto finished = [&](const Tiles &m, int64_t first, int64_t start, int64_t channel, int64_t end) {
        int64_t part = first / plan.run * plan.parts_of_run() + start / plan.part();
        output_tiles(&m, &plan.out, &finish, y, mean ? moments + part * plan.part_floats() : nullptr,
                     channel, std::min(end, filters));
    };
    if (plan.alone) {
#pragma omp parallel for schedule(guided) num_threads(int(threads))
        for (int64_t first = 0; first < plan.tiles(); first += plan.run) {
            float *own = scratch + omp_get_thread_num() * plan.tile_floats();
            int64_t count = std::min(plan.run, plan.tiles() - first);
            Tiles v = plan.in_tiles(own, first, count), m = plan.out_panel(own, first, count);
            input_tiles(source, plan.in, v, plan.own_rows(scratch));
            for (int64_t n = 0; n < panels(filters); n++) {
                for (int64_t q = 0; q < TAPS; q++) multiply(v, channels, packed, m, q, n);
                finished(m, first, 0, n * PANEL, (n + 1) * PANEL);
            }
        }
    } else {
        for (int64_t first = 0; first < plan.tiles(); first += plan.run) {
            int64_t count = std::min(plan.run, plan.tiles() - first);
            Tiles v = plan.in_tiles(scratch, first, count), m = plan.out_tiles(scratch, first, count);
#pragma omp parallel num_threads(int(threads))
            {
#pragma omp for schedule(guided)
                for (int64_t i = 0; i < count; i += plan.few())
                    input_tiles(source, plan.in, some_of(v, i, plan.few()), plan.own_rows(scratch));
#pragma omp for collapse(2) schedule(guided)
                for (int64_t q = 0; q < TAPS; q++)
                    for (int64_t n = 0; n < panels(filters); n++)
                        multiply(v, channels, packed, m, q, n);
#pragma omp for schedule(guided)
                for (int64_t i = 0; i < count; i += plan.few())
                    finished(some_of(m, i, plan.few()), first, i, 0, filters);
            }
        }
    }
    if (mean) total_moments(plan, moments, mean, a->variance);
    return 0;
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
