/* An example of the model "$name": $compile && ./example */
#include <stdio.h>
#include <stdlib.h>

#include "$file_header_name"

/* Print what an error means, and stop. */
static void check(int32_t code, const char *where) {
    if (code == 0) return;
    fprintf(stderr, "%s: %s\n", where, ${name}_file_message(code));
    exit(1);
}

int main($arguments) {
$path    /* The block begins at a multiple of 64 bytes. */
    char *room = (char *)malloc(${NAME}_MEMORY_BYTES + ${NAME}_ALIGNMENT);
    void *memory;
    if (!room) return 1;
    memory = room + (${NAME}_ALIGNMENT - (uintptr_t)room % ${NAME}_ALIGNMENT);
    check(${name}_init(memory, ${NAME}_MEMORY_BYTES), "init");
    check($load, "load");
$calls
    free(room);
    return 0;
}
