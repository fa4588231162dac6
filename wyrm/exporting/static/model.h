/* The model "$name", compiled for $triple by wyrm $release.
 *
 * It needs no other code than the C library's. All its memory is one block of ${NAME}_MEMORY_BYTES bytes that begins at
 * a multiple of 64 bytes, and that its caller owns. Threads may use the model at the same time, each with its own block.
 *
 *   1. ${name}_init(memory, size) prepares a block.
 *   2. ${name}_load(memory, path) of ${name}_file.h reads the tensors; or write them to their places in the block, and
 *      call ${name}_ready(memory). Without tensors that are good, the functions refuse the block.
 *   3. Call the functions below. Arrays are row-major. Each function returns 0, or the code of an error; the block then
 *      holds the last good state.
 */
#ifndef ${NAME}_H
#define ${NAME}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Differs for other models, other layouts of the block, other functions, and other versions of wyrm. */
#define ${NAME}_VERSION UINT64_C($version)
#define ${NAME}_MEMORY_BYTES INT64_C($memory)
#define ${NAME}_ALIGNMENT 64
/* The most rows of a batch, and of a call. */
#define ${NAME}_MOST_ROWS $most

enum {
$codes
};

/* Return what an error code means. */
static inline const char *${name}_message(int32_t code) {
    switch (code) {
$messages
    default: return "unknown error";
    }
}

/* An array that is saved: its name, its type as in a safetensors file, its shape, and its place in the block. */
typedef struct {
    const char *name;
    const char *type;
    const char *shape;
    int64_t offset;
    int64_t bytes;
} ${name}_tensor;

#define ${NAME}_TENSOR_COUNT $tensor_count
$tensors
$functions
/* The name above has the version, so that a program with the header of another export than its object file is not
 * linked, and says so: "undefined reference to ${name}_init_..." means that the program must be compiled again with the
 * header beside the object file. Languages that do not read this header call that name. */
static inline int32_t ${name}_init(void *memory, int64_t size) {
    return $symbol(memory, size);
}

#ifdef __cplusplus
}
#endif

#endif
