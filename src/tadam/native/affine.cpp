// Batch norm and FiLM as one scale and one shift for each task and channel, and the gradients of what they
// are made of. Vectors are small; what is saved here is the cost of twenty separate operations on them.
#include <cmath>

#include "kernels.h"

extern "C" {

// moments: mean, 1/std, scale and shift of each channel, (4, channels), the mean given; the running
// statistics move by `momentum`. gamma and beta are (tasks, channels) or null.
int64_t tadam_affine(const affine_arguments *a) {
    const int64_t channels = a->channels;
    float *mean = a->moments, *invstd = mean + channels, *own = invstd + channels,
          *off = own + channels;
    double unbiased = a->count > 1 ? double(a->count) / double(a->count - 1) : 1.0;
    for (int64_t c = 0; c < channels; c++) {
        invstd[c] = float(1.0 / std::sqrt(double(a->variance[c]) + a->epsilon));
        own[c] = a->weight[c] * invstd[c];
        off[c] = a->bias[c] - mean[c] * own[c];
        a->running_mean[c] += float(a->momentum * (mean[c] - a->running_mean[c]));
        a->running_variance[c] +=
            float(a->momentum * (a->variance[c] * unbiased - a->running_variance[c]));
        for (int64_t t = 0; t < a->tasks; t++) {
            int64_t at = t * channels + c;
            a->scale[at] = a->gamma ? a->gamma[at] * own[c] : own[c];
            a->shift[at] = a->gamma ? a->gamma[at] * off[c] + a->beta[at] : off[c];
        }
    }
    return 0;
}

// sums: (tasks, 3, channels), of the gradient behind norm and FiLM, and of its products with the norm's
// input at place `place`. gradients: of weight and bias, and the input's as `scale * gradient + b * x + d`:
// (4, channels) = weight, bias, b, d. film: the gradients of gamma and beta, (2, tasks, channels), or null.
int64_t tadam_affine_backward(const affine_backward_arguments *a) {
    const int64_t channels = a->channels, tasks = a->tasks;
    const float *mean = a->moments, *invstd = mean + channels, *own = invstd + channels,
                *off = own + channels;
    for (int64_t c = 0; c < channels; c++) {
        double total = 0, product = 0;
        for (int64_t t = 0; t < tasks; t++) {
            double sum = a->sums[t * 3 * channels + c];
            double with = a->sums[(t * 3 + a->place) * channels + c];
            double factor = a->gamma ? a->gamma[t * channels + c] : 1.0;
            total += factor * sum;
            product += factor * with;
            if (a->film) {
                a->film[t * channels + c] = float(own[c] * with + off[c] * sum);
                a->film[(tasks + t) * channels + c] = float(sum);
            }
        }
        double of_weight = invstd[c] * (product - mean[c] * total);
        double b = -own[c] * invstd[c] * of_weight / double(a->count);
        a->gradients[c] = float(of_weight);
        a->gradients[channels + c] = float(total);
        a->gradients[2 * channels + c] = float(b);
        a->gradients[3 * channels + c] = float(-own[c] * total / double(a->count) - b * mean[c]);
    }
    return 0;
}

}
