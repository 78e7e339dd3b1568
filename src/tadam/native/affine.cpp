// Batch norm and FiLM as one scale and one shift for each task and channel, and the gradients of what they
// are made of. Vectors are small; what is saved here is the cost of twenty separate operations on them.
#include <cmath>
#include <cstdint>

#ifndef TADAM_SOURCES
#define TADAM_SOURCES ""
#endif

extern "C" {

// What the kernels were built from.
const char *tadam_sources() { return TADAM_SOURCES; }

// moments: mean, 1/std, scale and shift of each channel, (4, channels), the mean given; the running
// statistics move by `momentum`. gamma and beta are (tasks, channels) or null.
void tadam_affine(float *moments, const float *variance, const float *weight, const float *bias,
                  float *running_mean, float *running_variance, const float *gamma,
                  const float *beta, float *scale, float *shift, double epsilon, double momentum,
                  int64_t count, int64_t tasks, int64_t channels) {
    float *mean = moments, *invstd = mean + channels, *own = invstd + channels, *off = own + channels;
    double unbiased = count > 1 ? double(count) / double(count - 1) : 1.0;
    for (int64_t c = 0; c < channels; c++) {
        invstd[c] = float(1.0 / std::sqrt(double(variance[c]) + epsilon));
        own[c] = weight[c] * invstd[c];
        off[c] = bias[c] - mean[c] * own[c];
        running_mean[c] += float(momentum * (mean[c] - running_mean[c]));
        running_variance[c] += float(momentum * (variance[c] * unbiased - running_variance[c]));
        for (int64_t t = 0; t < tasks; t++) {
            int64_t at = t * channels + c;
            scale[at] = gamma ? gamma[at] * own[c] : own[c];
            shift[at] = gamma ? gamma[at] * off[c] + beta[at] : off[c];
        }
    }
}

// sums: (tasks, 3, channels), of the gradient behind norm and FiLM, and of its products with the norm's
// input at place `input`. gradients: of weight and bias, and the input's as `scale * gradient + b * x + d`:
// (4, channels) = weight, bias, b, d. film: the gradients of gamma and beta, (2, tasks, channels), or null.
void tadam_affine_backward(const float *sums, int64_t input, const float *moments,
                           const float *gamma, float *gradients, float *film, int64_t count,
                           int64_t tasks, int64_t channels) {
    const float *mean = moments, *invstd = mean + channels, *own = invstd + channels,
                *off = own + channels;
    for (int64_t c = 0; c < channels; c++) {
        double total = 0, product = 0;
        for (int64_t t = 0; t < tasks; t++) {
            double sum = sums[t * 3 * channels + c], with = sums[(t * 3 + input) * channels + c];
            double factor = gamma ? gamma[t * channels + c] : 1.0;
            total += factor * sum;
            product += factor * with;
            if (film) {
                film[t * channels + c] = float(own[c] * with + off[c] * sum);
                film[(tasks + t) * channels + c] = float(sum);
            }
        }
        double of_weight = invstd[c] * (product - mean[c] * total);
        double b = -own[c] * invstd[c] * of_weight / double(count);
        gradients[c] = float(of_weight);
        gradients[channels + c] = float(total);
        gradients[2 * channels + c] = float(b);
        gradients[3 * channels + c] = float(-own[c] * total / double(count) - b * mean[c]);
    }
}

}
