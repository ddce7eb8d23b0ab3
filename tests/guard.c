/* A malloc that gives NumPy and Numba's runtime blocks that end, or begin, at a page that may not be touched: a step
   that reads or writes past one stops the process and says where. tests/guard.py builds it, loads it before all other
   libraries, and describes its use. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), __libc_free(void *), *__libc_realloc(void *, size_t);
extern void *__libc_calloc(size_t, size_t);

#define PAGE ((uintptr_t)4096)
/* Addresses are never used twice, so that what was freed stays out of reach: 8 TiB of them, or as many as there are. */
#define MOST_ROOM ((size_t)1 << 43)
/* More live blocks than the kernel has mappings for come from the C library, and so does what others ask for. */
#define MOST_LIVE 15000
#define MAGIC 0x6775617264656421ull
/* For an array Numba's runtime asks for twice its alignment more than it needs, and puts a header before the data. */
#define NUMBA_HEADER 48
/* tests/guard.py lets compiled code call these, so that it is known which blocks are arrays. */
typedef void *(*array_maker)(size_t, unsigned);
array_maker guard_real_aligned, guard_real_safe_aligned;
static _Thread_local unsigned array_align;

static void *make_array(array_maker real, size_t size, unsigned align) {
  array_align = align;
  void *made = real(size, align);
  array_align = 0;
  return made;
}
void *guard_aligned(size_t size, unsigned align) { return make_array(guard_real_aligned, size, align); }
void *guard_safe_aligned(size_t size, unsigned align) { return make_array(guard_real_safe_aligned, size, align); }

/* A block: a page with this header, a page that may not be touched, the data, and another such page. */
typedef struct { uint64_t magic; uintptr_t at; size_t size; size_t pages; } header;

static uintptr_t arena, arena_end;
static atomic_uintptr_t taken;
static atomic_long live;
static int low_side;

enum { OTHER, NUMPY, NUMBA };

/* Who called, by the library that the return address lies in. */
static int caller_of(void *address) {
  static _Thread_local void *last[1024];
  static _Thread_local char kinds[1024];
  unsigned slot = ((uintptr_t)address >> 2) & 1023;
  if (last[slot] == address) return kinds[slot];
  Dl_info info;
  int kind = OTHER;
  if (dladdr(address, &info) && info.dli_fname) {
    if (strstr(info.dli_fname, "_multiarray_umath")) kind = NUMPY;
    else if (strstr(info.dli_fname, "_nrt_python")) kind = NUMBA;
  }
  last[slot] = address, kinds[slot] = kind;
  return kind;
}

static void *get(size_t size, int caller) {
  size_t used = size, align = 16, shift = 0;
  if (caller == NUMPY && (size & (align - 1))) align = size & -size; /* elements of 2**n bytes need no more */
  if (caller == NUMBA && array_align) {
    used -= 2 * array_align, align = array_align;
    shift = (align - NUMBA_HEADER % align) % align; /* the data are aligned, not the header */
  }
  size_t pages = (used + shift + PAGE - 1) / PAGE; /* the block begins in the first of them */
  uintptr_t begin = atomic_fetch_add(&taken, (pages + 3) * PAGE), data = begin + 2 * PAGE, end = data + pages * PAGE;
  uintptr_t at = low_side ? data : ((end - used - shift) & ~(align - 1)) + shift;
  if (end + PAGE > arena_end || mprotect((void *)begin, PAGE, PROT_READ | PROT_WRITE) ||
      mprotect((void *)data, pages * PAGE, PROT_READ | PROT_WRITE))
    return errno = ENOMEM, NULL;
  *(header *)begin = (header){MAGIC, at, used, pages};
  memset((void *)at, 0xA5, end - at); /* what nobody wrote should not be zero */
  atomic_fetch_add(&live, 1);
  return (void *)at;
}

static header *header_of(void *pointer) {
  uintptr_t at = (uintptr_t)pointer;
  if (!arena || at < arena || at >= arena_end) return NULL;
  return (header *)((at & ~(PAGE - 1)) - 2 * PAGE);
}

static int guarded(size_t size, void *address) {
  return arena && size && atomic_load(&live) < MOST_LIVE ? caller_of(address) : OTHER;
}

static void *allocate(size_t size, void *address) {
  int caller = guarded(size, address);
  return caller == OTHER ? __libc_malloc(size) : get(size, caller);
}

void *malloc(size_t size) { return allocate(size, __builtin_return_address(0)); }

void free(void *pointer) {
  header *found = header_of(pointer);
  if (!found) return __libc_free(pointer);
  size_t length = (found->pages + 3) * PAGE;
  atomic_fetch_sub(&live, 1);
  /* A fresh mapping gives the memory back, and joins its neighbours: the kernel counts one. */
  mmap(found, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void *calloc(size_t count, size_t each) {
  size_t size;
  if (__builtin_mul_overflow(count, each, &size)) return errno = ENOMEM, NULL;
  int caller = guarded(size, __builtin_return_address(0));
  if (caller == OTHER) return __libc_calloc(count, each);
  void *pointer = get(size, caller);
  return pointer ? memset(pointer, 0, size) : NULL;
}

void *realloc(void *pointer, size_t size) {
  header *found = header_of(pointer);
  if (!found) return pointer ? __libc_realloc(pointer, size) : allocate(size, __builtin_return_address(0));
  void *moved = allocate(size ? size : 1, __builtin_return_address(0));
  if (moved) memcpy(moved, pointer, found->size < size ? found->size : size), free(pointer);
  return moved;
}

size_t malloc_usable_size(void *pointer) {
  header *found = header_of(pointer);
  if (found) return found->size;
  static size_t (*real)(void *);
  if (!real) real = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
  return real(pointer);
}

/* Find the block that ends before an address, or on the low side the one that begins behind it. Pages are read through
   the kernel, since they may be out of reach. */
static int find(uintptr_t fault, header *found) {
  uintptr_t page = (fault & ~(PAGE - 1)) + (low_side ? PAGE : 0), last = arena;
  if (page - arena > (1u << 30)) last = page - (1u << 30);
  for (; page >= last; page -= PAGE) {
    struct iovec here = {found, sizeof *found}, there = {(void *)page, sizeof *found};
    ssize_t size = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (size == sizeof *found && found->magic == MAGIC) return 1;
  }
  return 0;
}

static void say(int signal, siginfo_t *info, void *context) {
  uintptr_t fault = (uintptr_t)info->si_addr;
  header block;
  char text[200];
  int length = snprintf(text, sizeof text, "guard: an access at %p, which is no block's\n", info->si_addr);
  if (fault >= arena && fault < arena_end && find(fault, &block))
    length = snprintf(text, sizeof text, "guard: an access at offset %ld of a block of %zu bytes\n",
                      (long)(fault - block.at), block.size);
  length = write(2, text, length);
  _exit(139);
}

__attribute__((constructor)) static void set_up(void) {
  const char *side = getenv("GUARD_SIDE");
  low_side = side && !strcmp(side, "low");
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  size_t room = MOST_ROOM;
  void *found;
  while ((found = mmap(NULL, room, PROT_NONE, flags, -1, 0)) == MAP_FAILED)
    if (!(room /= 2)) return (void)!write(2, "guard: no room\n", 15);
  atomic_store(&taken, (uintptr_t)found);
  arena_end = (uintptr_t)found + room;
  arena = (uintptr_t)found;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = say, action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
}
