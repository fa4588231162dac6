/* What the processor can do: this file is compiled for the oldest one of its kind. */
#include <stdint.h>

/* Write the four words of CPUID; of leaf 0xFFFFFFFF, which registers the system saves. */
#if defined(_WIN32)
__declspec(dllexport)
#endif
void ${name}_processor(uint32_t leaf, uint32_t subleaf, uint32_t *words) {
    if (leaf == UINT32_MAX) {
        __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(words[0]), "=d"(words[3]) : "c"(0));
        return;
    }
    __asm__ volatile("cpuid"
                     : "=a"(words[0]), "=b"(words[1]), "=c"(words[2]), "=d"(words[3])
                     : "0"(leaf), "2"(subleaf));
}
