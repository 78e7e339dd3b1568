// What the library says of itself: its kernels with their arguments, and the sources it was built from.
#include <string>

#include "kernels.h"

#ifndef TADAM_SOURCES
#define TADAM_SOURCES ""
#endif

#define NAME_IN(name) " in:" #name
#define NAME_MAYBE_IN(name) " in?:" #name
#define NAME_OUT(name) " out:" #name
#define NAME_MAYBE_OUT(name) " out?:" #name
#define NAME_INT(name) " int:" #name
#define NAME_REAL(name) " real:" #name
#define NAME_BYTES(name) " bytes:" #name
#define DESCRIBE(kernel)                                                     \
    text += #kernel " " + std::to_string(sizeof(kernel##_arguments)) +       \
            ARGUMENTS_##kernel(NAME_IN, NAME_MAYBE_IN, NAME_OUT, NAME_MAYBE_OUT, NAME_INT, NAME_REAL, \
                               NAME_BYTES) "\n";

static std::string described() {
    std::string text;
    TADAM_KERNELS(DESCRIBE)
    return text;
}

extern "C" {

// A line for each kernel: its name, the bytes of its arguments, then kind and name of each of them.
const char *tadam_signatures() {
    static const std::string text = described();
    return text.c_str();
}

const char *tadam_sources() { return TADAM_SOURCES; }

}
