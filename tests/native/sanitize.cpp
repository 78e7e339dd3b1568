// Every kernel on small and odd shapes, in buffers of exactly the right size, to be built with the address
// and undefined-behaviour sanitizers. Convolutions are checked against the obvious loops as well.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../src/tadam/native/kernels.h"

typedef std::vector<float> Floats;

static Floats draw(int64_t count) {
    Floats values(count);
    for (float &value : values) value = float(rand() % 2001 - 1000) / 1000;
    return values;
}

static void check(bool good, const char *what) {
    if (good) return;
    std::printf("wrong: %s\n", what);
    std::exit(1);
}

template <class Arguments>
static void set_sizes(Arguments &a, const conv_scratch_arguments &sizes) {
    a.threads = sizes.threads;
    a.images = sizes.images;
    a.height = sizes.height;
    a.width = sizes.width;
    a.channels = sizes.channels;
    a.filters = sizes.filters;
}

static void convolution(int64_t images, int64_t height, int64_t width, int64_t channels,
                        int64_t filters, int64_t threads) {
    int64_t pixels = images * height * width, tasks = images % 2 ? 1 : 2;
    Floats x = draw(pixels * channels), w = draw(filters * 9 * channels), y(pixels * filters);
    const packed_floats_arguments forward_sizes{channels, filters}, back_sizes{filters, channels};
    Floats forward(tadam_packed_floats(&forward_sizes)), back(tadam_packed_floats(&back_sizes));
    const pack_weights_arguments pack_forward{w.data(), forward.data(), channels, filters, 1, threads};
    const pack_weights_arguments pack_back{w.data(), back.data(), filters, channels, 0, threads};
    tadam_pack_weights(&pack_forward);
    tadam_pack_weights(&pack_back);
    const conv_scratch_arguments sizes{threads, images, height, width, channels, filters};
    Floats scratch(tadam_conv_scratch(&sizes)), mean(filters), variance(filters);
    conv_arguments conv{};
    conv.x = x.data();
    conv.x_tasks = conv.tasks = 1;
    conv.packed = forward.data();
    conv.y = y.data();
    conv.mean = mean.data();
    conv.variance = variance.data();
    conv.scratch = scratch.data();
    set_sizes(conv, sizes);
    tadam_conv(&conv);
    for (int64_t i = 0; i < pixels * filters; i += 1 + pixels * filters / 500) {
        int64_t k = i % filters, z = i / filters % width, r = i / filters / width % height;
        int64_t n = i / filters / width / height;
        double sum = 0;
        for (int64_t dy = -1; dy < 2; dy++)
            for (int64_t dx = -1; dx < 2; dx++) {
                if (r + dy < 0 || r + dy >= height || z + dx < 0 || z + dx >= width) continue;
                for (int64_t c = 0; c < channels; c++)
                    sum += x[((n * height + r + dy) * width + z + dx) * channels + c] *
                           w[(k * 9 + (dy + 1) * 3 + dx + 1) * channels + c];
            }
        check(std::fabs(sum - y[i]) < 1e-3 * (1 + std::sqrt(double(channels))), "convolution");
    }
    Floats x_scale = draw(tasks * channels), x_shift = draw(tasks * channels);
    Floats scale = draw(tasks * filters), shift = draw(tasks * filters), side_scale = draw(filters);
    for (int64_t pool = 0; pool < 3; pool++) {
        Floats out(images * (pool ? (height + pool - 1) / 2 : height) *
                   (pool ? (width + pool - 1) / 2 : width) * filters);
        conv.x_scale = x_scale.data();
        conv.x_shift = x_shift.data();
        conv.x_tasks = conv.tasks = tasks;
        conv.x_relu = pool % 2;
        conv.y = out.data();
        conv.mean = conv.variance = nullptr;
        conv.scale = scale.data();
        conv.shift = shift.data();
        conv.side = y.data();
        conv.side_scale = side_scale.data();
        conv.activation = 1 + pool % 2;
        conv.pool = pool;
        tadam_conv(&conv);
    }
    Floats gradient = draw(pixels * filters), zero(filters), ones(filters, 1.0f);
    Floats gx(pixels * channels), gw(filters * 9 * channels);
    const conv_backward_scratch_arguments backward_sizes{threads, images, height, width, channels, filters};
    Floats room(tadam_conv_backward_scratch(&backward_sizes));
    Floats sums(tasks * 3 * channels);
    const float *scales[] = {x_scale.data(), nullptr, nullptr};
    float *targets[] = {gx.data(), nullptr, gx.data()};
    conv_backward_arguments backward{};
    backward.gradient = gradient.data();
    backward.scale = ones.data();
    backward.other = y.data();
    backward.other_scale = backward.shift = zero.data();
    backward.tasks = 1;
    backward.x = x.data();
    backward.x_shift = x_shift.data();
    backward.x_tasks = tasks;
    backward.packed = back.data();
    backward.sums = sums.data();
    backward.gradient_weight = gw.data();
    backward.scratch = room.data();
    set_sizes(backward, sizes);
    for (int i = 0; i < 3; i++) {
        backward.x_scale = scales[i];
        backward.gradient_x = targets[i];
        tadam_conv_backward(&backward);
    }
    // The adjoint: <g, conv(x, w)> = <gx, x> = <gw, w>.
    double outer = 0, by_x = 0, by_w = 0;
    for (int64_t i = 0; i < pixels * filters; i++) outer += double(gradient[i]) * y[i];
    for (int64_t i = 0; i < pixels * channels; i++) by_x += double(gx[i]) * x[i];
    for (int64_t i = 0; i < filters * 9 * channels; i++) by_w += double(gw[i]) * w[i];
    double size = 1e-3 * std::sqrt(double(pixels * filters * channels)) + 1e-3;
    check(std::fabs(outer - by_x) < size, "data gradient");
    check(std::fabs(outer - by_w) < size, "weight gradient");
}

static void norm(int64_t tasks, int64_t images, int64_t height, int64_t width, int64_t channels,
                 int64_t threads) {
    int64_t rows = images * height * width, values = tasks * rows * channels;
    Floats x = draw(values), side = draw(values), g = draw(values), y(values), sums(tasks * 3 * channels);
    Floats moments(4 * channels), variance(channels), weight = draw(channels), bias = draw(channels);
    Floats running_mean(channels), running_variance(channels), gamma = draw(tasks * channels);
    Floats scale(tasks * channels), shift(tasks * channels), gradients(4 * channels);
    Floats film(2 * tasks * channels);
    const moments_arguments of_x{x.data(), moments.data(), variance.data(), tasks * rows, channels, threads};
    tadam_moments(&of_x);
    const affine_arguments affine{
        moments.data(), variance.data(), weight.data(), bias.data(), running_mean.data(),
        running_variance.data(), gamma.data(), gamma.data(), scale.data(), shift.data(), 1e-3, 0.05,
        tasks * rows, tasks, channels};
    tadam_affine(&affine);
    for (int64_t relu = 0; relu < 2; relu++)
        for (const float *other : {(const float *)side.data(), (const float *)nullptr}) {
            const norm_arguments forward{
                x.data(), scale.data(), shift.data(), other, weight.data(), bias.data(), relu,
                y.data(), tasks, rows, channels, threads};
            const norm_backward_arguments backward{
                g.data(), x.data(), scale.data(), shift.data(), other, weight.data(), bias.data(),
                relu, y.data(), sums.data(), tasks, rows, channels, threads};
            tadam_norm(&forward);
            tadam_norm_backward(&backward);
            for (int64_t up = 0; up < 2; up++) {
                Floats pooled(tasks * images * ((height + up) / 2) * ((width + up) / 2) * channels);
                const pooled_norm_arguments pool{
                    x.data(), scale.data(), shift.data(), other, weight.data(), bias.data(), relu,
                    pooled.data(), tasks, images, height, width, up, channels, threads};
                const pooled_norm_backward_arguments pool_backward{
                    pooled.data(), x.data(), scale.data(), shift.data(), other, weight.data(),
                    bias.data(), relu, y.data(), sums.data(), tasks, images, height, width, up,
                    channels, threads};
                tadam_pooled_norm(&pool);
                tadam_pooled_norm_backward(&pool_backward);
            }
        }
    const affine_backward_arguments affine_backward{
        sums.data(), 1, moments.data(), gamma.data(), gradients.data(), film.data(), tasks * rows,
        tasks, channels};
    const combine_arguments combine{
        g.data(), x.data(), scale.data(), weight.data(), bias.data(), y.data(), tasks, rows, channels,
        threads};
    tadam_affine_backward(&affine_backward);
    tadam_combine(&combine);
}

// Without arguments: shapes chosen by hand. Otherwise "conv N H W C F THREADS" and
// "norm TASKS N H W C THREADS", any number of them, one after the other.
// Halves or doubles a photo, with a filter of two pixels.
static void photo(int64_t height, int64_t width, int64_t size) {
    int64_t side = std::min(height, width), taps = 2;
    std::vector<uint8_t> pixels(height * width * 3);
    for (uint8_t &pixel : pixels) pixel = uint8_t(rand() % 256);
    Floats weights(size * (1 + taps)), mean = draw(3), std(3, 2.0f);
    for (int64_t i = 0; i < size; i++) {
        int64_t first = i * side / size;
        weights[i * (1 + taps)] = float(first);
        weights[i * (1 + taps) + 1] = first + 1 < side ? 0.25f : 1.0f;
        weights[i * (1 + taps) + 2] = first + 1 < side ? 0.75f : 0.0f;
    }
    Floats y(3 * size * size), planes(3 * size * size);
    photo_arguments a{pixels.data(), weights.data(), mean.data(), std.data(), y.data(), height, width,
                      size, taps, 0};
    tadam_photo(&a);
    a.y = planes.data();
    a.planes = 1;
    tadam_photo(&a);
    int64_t top = (height - side) / 2, left = (width - side) / 2;
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j < size; j++)
            for (int64_t c = 0; c < 3; c++) {
                double sum = 0;
                for (int64_t r = 0; r < taps; r++)
                    for (int64_t s = 0; s < taps; s++) {
                        int64_t down = i * side / size + r, across = j * side / size + s;
                        if (down >= side || across >= side) continue;
                        sum += double(weights[i * 3 + 1 + r]) * weights[j * 3 + 1 + s] *
                               pixels[((top + down) * width + left + across) * 3 + c];
                    }
                double expected = (sum - mean[c]) / 2;
                check(std::fabs(expected - y[(i * size + j) * 3 + c]) < 1e-3, "photo");
                check(y[(i * size + j) * 3 + c] == planes[(c * size + i) * size + j], "planes");
            }
}

int main(int count, char **words) {
    for (int i = 1; i + 6 < count; i += 7) {
        int64_t n[6];
        for (int k = 0; k < 6; k++) n[k] = std::atoll(words[i + 1 + k]);
        if (words[i][0] == 'c')
            convolution(n[0], n[1], n[2], n[3], n[4], n[5]);
        else
            norm(n[0], n[1], n[2], n[3], n[4], n[5]);
    }
    if (count > 1) {
        std::printf("fine\n");
        return 0;
    }
    const int64_t shapes[][5] = {{1, 1, 1, 1, 1},    {2, 8, 8, 16, 16},   {3, 9, 6, 5, 7},
                                 {40, 17, 9, 20, 36}, {1, 4, 300, 16, 16}, {2, 7, 8, 272, 130},
                                 {300, 4, 4, 40, 20}, {2, 2, 3, 33, 1}};
    for (auto &s : shapes)
        for (int64_t threads = 1; threads < 4; threads++)
            convolution(s[0], s[1], s[2], s[3], s[4], threads);
    for (int64_t channels : {1, 5, 8, 16, 35})
        for (int64_t size : {1, 2, 7, 16}) norm(2, 3, size, size + 1, channels, 2);
    for (int64_t side : {1, 2, 5, 33})
        for (int64_t size : {1, 4, 16}) {
            photo(side, side + 7, size);
            photo(side + 2, side, size);
        }
    std::printf("fine\n");
}
