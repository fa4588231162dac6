/* Tries damaged files and blocks: the arguments are a good file, and a path to write to. Prints what it found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_file.h"

static void *memory;

static int32_t load(const char *path) {
    return model_load(memory, path);
}

static void put(const char *path, const unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) exit(2);
}

int main(int count, char **arguments) {
    static unsigned char good[1 << 20], bad[1 << 20];
    const char *path = arguments[count > 2 ? 2 : 0];
    FILE *file = fopen(arguments[1], "rb");
    size_t size = file ? fread(good, 1, sizeof good, file) : 0;
    size_t header = 8 + good[0] + 256 * good[1] + 65536 * good[2];
    int refused = 0, taken = 0, changed = 0;
    unsigned seed = 1;
    if (size < 8) return 2;
    fclose(file);
    /* Exactly the stated size, so that AddressSanitizer sees accesses of this file beyond it. */
    memory = aligned_alloc(MODEL_ALIGNMENT, MODEL_MEMORY_BYTES);
    if (model_init(memory, MODEL_MEMORY_BYTES) || load(arguments[1])) return 3;
    if (load("missing") != MODEL_FILE_OPEN || model_load(NULL, arguments[1]) != MODEL_FILE_OPEN) return 4;
    for (size_t length = 0; length < size; length += length < header ? 5 : 397) {
        put(path, good, length);
        if (load(path) == 0) return 5;
        refused++;
    }
    memcpy(bad, good, size);
    put(path, bad, size + 1);
    if (load(path) != MODEL_FILE_SHORT) return 6;
    for (size_t place = 0; place < header; place += 4) {
        memcpy(bad, good, size);
        seed = 1664525 * seed + 1013904223;
        bad[place] ^= (unsigned char)(1 + (seed >> 24) % 255);
        put(path, bad, size);
        if (load(path)) refused++;
        else taken++; /* a space, or metadata of others */
        if (model_ready(memory)) changed++;
    }
    if (load(arguments[1]) || model_save(memory, path)) return 7;
    if (sizeof bad < MODEL_MEMORY_BYTES) return 8;
    memcpy(bad, memory, MODEL_MEMORY_BYTES);
    if (model_init(memory, MODEL_MEMORY_BYTES) || load(path) || memcmp(bad, memory, MODEL_MEMORY_BYTES)) return 9;
    printf("%d refused, %d taken, %d changed\n", refused, taken, changed);
    free(memory);
    return strcmp(model_message(MODEL_OK), "no error") != 0;
}
