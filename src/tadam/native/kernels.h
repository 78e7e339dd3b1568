// Every kernel that Python calls, with its arguments: the only place where the C++ side declares them.
//
// A kernel takes a pointer to a struct of its arguments and returns an int64_t, which is 0 where there is
// nothing to say. signatures.cpp turns the same table into text, and signatures.py has its own copy: Python
// refuses a library whose text differs from its own.
//
// IN and OUT are pointers to floats, MAYBE_IN and MAYBE_OUT those that may be null; INT is an int64_t, REAL a
// double, BYTES a pointer to bytes. Layouts are described in README.md, the arguments where a kernel is defined.
#pragma once

#include <cstdint>

#define TADAM_KERNELS(KERNEL)                                                          \
    KERNEL(packed_floats) KERNEL(pack_weights) KERNEL(conv_scratch)                    \
    KERNEL(conv_backward_scratch) KERNEL(conv) KERNEL(conv_backward)                   \
    KERNEL(moments) KERNEL(affine) KERNEL(affine_backward) KERNEL(norm)                \
    KERNEL(norm_backward) KERNEL(pooled_norm) KERNEL(pooled_norm_backward) KERNEL(combine) \
    KERNEL(photo)

#define CONV_SIZES(INT) \
    INT(threads) INT(images) INT(height) INT(width) INT(channels) INT(filters)
#define ROW_SIZES(INT) INT(tasks) INT(rows) INT(channels) INT(threads)
#define POOL_SIZES(INT) \
    INT(tasks) INT(images) INT(height) INT(width) INT(ceil) INT(channels) INT(threads)
#define CONV_SOURCE(IN, MAYBE_IN, INT) \
    IN(x) MAYBE_IN(x_scale) MAYBE_IN(x_shift) INT(x_tasks) INT(x_relu)
#define NORM_SOURCE(IN, MAYBE_IN, INT)                                     \
    IN(x) IN(scale) IN(shift) MAYBE_IN(side) MAYBE_IN(side_scale) MAYBE_IN(side_shift) \
    INT(relu)

#define ARGUMENTS_packed_floats(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) INT(depth) INT(columns)

#define ARGUMENTS_pack_weights(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) \
    IN(weight) OUT(packed) INT(depth) INT(columns) INT(turned) INT(threads)

#define ARGUMENTS_conv_scratch(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) CONV_SIZES(INT)

#define ARGUMENTS_conv_backward_scratch(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) CONV_SIZES(INT)

#define ARGUMENTS_conv(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES)                      \
    CONV_SOURCE(IN, MAYBE_IN, INT)                                                   \
    IN(packed) OUT(y) MAYBE_OUT(mean) MAYBE_OUT(variance) MAYBE_IN(scale) MAYBE_IN(shift) \
    MAYBE_IN(side) MAYBE_IN(side_scale) INT(tasks) INT(activation) INT(pool) OUT(scratch) \
    CONV_SIZES(INT)

#define ARGUMENTS_conv_backward(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES)                      \
    IN(gradient) IN(scale) IN(other) IN(other_scale) IN(shift) INT(tasks)                     \
    CONV_SOURCE(IN, MAYBE_IN, INT)                                                            \
    MAYBE_IN(packed) MAYBE_OUT(gradient_x) MAYBE_OUT(sums) OUT(gradient_weight) OUT(scratch)  \
    CONV_SIZES(INT)

#define ARGUMENTS_moments(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) \
    IN(x) OUT(mean) OUT(variance) INT(rows) INT(channels) INT(threads)

#define ARGUMENTS_affine(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES)                      \
    OUT(moments) IN(variance) IN(weight) IN(bias) OUT(running_mean) OUT(running_variance) \
    MAYBE_IN(gamma) MAYBE_IN(beta) OUT(scale) OUT(shift) REAL(epsilon) REAL(momentum)     \
    INT(count) INT(tasks) INT(channels)

#define ARGUMENTS_affine_backward(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES)   \
    IN(sums) INT(place) IN(moments) MAYBE_IN(gamma) OUT(gradients) MAYBE_OUT(film) \
    INT(count) INT(tasks) INT(channels)

#define ARGUMENTS_norm(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) \
    NORM_SOURCE(IN, MAYBE_IN, INT) OUT(y) ROW_SIZES(INT)

#define ARGUMENTS_norm_backward(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) \
    IN(gradient) NORM_SOURCE(IN, MAYBE_IN, INT) OUT(out) OUT(sums) ROW_SIZES(INT)

#define ARGUMENTS_pooled_norm(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) \
    NORM_SOURCE(IN, MAYBE_IN, INT) OUT(y) POOL_SIZES(INT)

#define ARGUMENTS_pooled_norm_backward(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) \
    IN(gradient) NORM_SOURCE(IN, MAYBE_IN, INT) OUT(out) OUT(sums) POOL_SIZES(INT)

#define ARGUMENTS_combine(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES) \
    IN(gradient) IN(x) IN(a) IN(b) IN(d) OUT(out) ROW_SIZES(INT)

#define ARGUMENTS_photo(IN, MAYBE_IN, OUT, MAYBE_OUT, INT, REAL, BYTES)                       \
    BYTES(pixels) IN(weights) IN(mean) IN(std) OUT(y) INT(height) INT(width) INT(size) INT(taps) \
    INT(planes)

#define TADAM_IN(name) const float *name;
#define TADAM_OUT(name) float *name;
#define TADAM_INT(name) int64_t name;
#define TADAM_REAL(name) double name;
#define TADAM_BYTES(name) const uint8_t *name;
#define TADAM_DECLARE(kernel)                                                                \
    struct kernel##_arguments {                                                              \
        ARGUMENTS_##kernel(TADAM_IN, TADAM_IN, TADAM_OUT, TADAM_OUT, TADAM_INT, TADAM_REAL,  \
                           TADAM_BYTES)                                                      \
    };                                                                                       \
    extern "C" int64_t tadam_##kernel(const kernel##_arguments *a);

TADAM_KERNELS(TADAM_DECLARE)

extern "C" const char *tadam_signatures();
extern "C" const char *tadam_sources();
