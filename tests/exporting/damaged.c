/* Loads files: the arguments are a state, a good file, one with all cases behind their sizes, and a path to write to.
 *
 * Prints the code of each case. The block must not change where a case is refused, and be that of the good file where it
 * is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_file.h"

static void *prepared(void) {
    /* Exactly the stated size, so that AddressSanitizer sees accesses of this file beyond it. */
    void *memory = aligned_alloc(MODEL_ALIGNMENT, MODEL_MEMORY_BYTES);
    if (!memory || model_init(memory, MODEL_MEMORY_BYTES)) exit(2);
    return memory;
}

static void put(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) exit(3);
}

int main(int count, char **arguments) {
    static char bytes[1 << 20];
    void *memory = prepared(), *state = prepared(), *good = prepared();
    unsigned char head[4];
    FILE *cases = count == 5 ? fopen(arguments[3], "rb") : NULL;
    if (!cases || model_load(NULL, arguments[1]) != MODEL_FILE_OPEN || model_load(memory, "missing") != MODEL_FILE_OPEN) {
        return 4;
    }
    if (model_load(state, arguments[1]) || model_load(good, arguments[2]) || model_load(memory, arguments[1])) return 5;
    while (fread(head, 1, 4, cases) == 4) {
        size_t size = head[0] + 256u * head[1] + 65536u * head[2];
        int32_t code;
        if (size > sizeof bytes || fread(bytes, 1, size, cases) != size) return 6;
        put(arguments[4], bytes, size);
        code = model_load(memory, arguments[4]);
        printf("%d\n", (int)code);
        if (memcmp(memory, code ? state : good, MODEL_MEMORY_BYTES)) return 7;
        if (!code && model_load(memory, arguments[1])) return 8;
    }
    fclose(cases);
    if (model_save(good, arguments[4]) || model_load(memory, arguments[4])) return 9;
    if (memcmp(memory, good, MODEL_MEMORY_BYTES)) return 10;
    free(memory);
    free(state);
    free(good);
    return 0;
}
