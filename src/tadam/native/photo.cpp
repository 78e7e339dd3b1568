// The middle square of a photo, scaled by a triangle filter and normalised, in one pass: what a network takes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels.h"
#include "lanes.h"

// One pixel's channels, and a float that is not used.
typedef float Pixel __attribute__((vector_size(16)));

INLINE void load_pixel(Pixel &pixel, const float *from) { std::memcpy(&pixel, from, sizeof(Pixel)); }

// Adds a row of bytes, times a weight. GCC makes vectors of this loop.
static void add_row(float *__restrict__ sum, const uint8_t *__restrict__ row, float weight,
                    int64_t count) {
    for (int64_t i = 0; i < count; i++) sum[i] += weight * float(row[i]);
}

extern "C" {

// pixels: (height, width, 3). weights: (size, 1 + taps): the first pixel that goes into one of the result, and
// the weights from it on, the same down and across; those past the last pixel of the image are zero.
// y: (3, size, size) if planes, else (size, size, 3).
int64_t tadam_photo(const photo_arguments *a) {
    const int64_t side = std::min(a->height, a->width), size = a->size, taps = a->taps;
    const int64_t top = (a->height - side) / 2, left = (a->width - side) / 2;
    const uint8_t *corner = a->pixels + (top * a->width + left) * 3;
    const Pixel mean{a->mean[0], a->mean[1], a->mean[2], 0};
    const Pixel std{a->std[0], a->std[1], a->std[2], 1};
    const int64_t next_pixel = a->planes ? 1 : 3, next_channel = a->planes ? size * size : 1;
    std::vector<float> row((side + taps) * 3 + 1);  // what lies past the last pixel stays zero
    for (int64_t i = 0; i < size; i++) {
        std::fill(row.begin(), row.begin() + side * 3, 0.0f);
        const float *down = a->weights + i * (1 + taps);
        const int64_t first = int64_t(down[0]), rows = std::min(taps, side - first);
        for (int64_t t = 0; t < rows; t++)
            add_row(row.data(), corner + (first + t) * a->width * 3, down[1 + t], side * 3);
        float *out = a->y + i * size * next_pixel;
        for (int64_t j = 0; j < size; j++, out += next_pixel) {
            const float *across = a->weights + j * (1 + taps);
            const float *from = row.data() + int64_t(across[0]) * 3;
            Pixel sum{}, pixel;
            for (int64_t t = 0; t < taps; t++) {
                load_pixel(pixel, from + 3 * t);
                sum += across[1 + t] * pixel;
            }
            sum = (sum - mean) / std;
            for (int64_t c = 0; c < 3; c++) out[c * next_channel] = sum[c];
        }
    }
    return 0;
}

}
