// 3x3 convolution with a border of zeros by Winograd's transform: packs the weights, runs the forward pass.
#include "kernels.h"
#include "output_tiles.h"
#include "plan.h"
#include "weights.h"

namespace {

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

}
