/* A malloc that gives NumPy and Numba's runtime blocks that end, or begin, at a page that may not be touched: a step that
   reads or writes past one stops the process and says where. tests/guard.py builds it, loads it before all other
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
/* Addresses are never used twice, so that what was freed stays out of reach: room for 8 TiB of blocks, or what there is. */
#define MOST_ROOM ((size_t)1 << 43)
/* More live blocks than the kernel has mappings for come from the C library, and so does what others ask for. */
#define MOST_LIVE 15000
#define MAGIC 0x6775617264656421ull
/* Numba's allocator asks for 64 bytes more than it needs and puts a header of 48 before the data, which it aligns to 32. */
#define NUMBA_HEADER 48
#define NUMBA_SPARE 64

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
  size_t used = size, align = 16;
  if (caller == NUMPY && (size & (align - 1))) align = size & -size; /* as whole elements need it, so that they end there */
  if (caller == NUMBA && size > NUMBA_HEADER + NUMBA_SPARE) used = size - NUMBA_SPARE, align = 32;
  size_t shift = caller == NUMBA ? (32 - NUMBA_HEADER % 32) % 32 : 0; /* the data are aligned, not the header */
  size_t pages = (used + align + shift + PAGE - 1) / PAGE;
  uintptr_t begin = atomic_fetch_add(&taken, (pages + 3) * PAGE), data = begin + 2 * PAGE;
  if (begin + (pages + 3) * PAGE > arena_end) return errno = ENOMEM, NULL;
  if (mprotect((void *)begin, PAGE, PROT_READ | PROT_WRITE)) return errno = ENOMEM, NULL;
  uintptr_t at = data;
  if (!low_side) {
    at = ((data + pages * PAGE - used - shift) & ~(align - 1)) + shift;
    uintptr_t skipped = (at - data) & ~(PAGE - 1); /* the block begins in its first page */
    data += skipped, pages -= skipped / PAGE;
    if (skipped) {
      mprotect((void *)begin, PAGE, PROT_NONE);
      begin += skipped;
      if (mprotect((void *)begin, PAGE, PROT_READ | PROT_WRITE)) return errno = ENOMEM, NULL;
    }
  }
  if (mprotect((void *)data, pages * PAGE, PROT_READ | PROT_WRITE)) return errno = ENOMEM, NULL;
  *(header *)begin = (header){MAGIC, at, used, pages};
  memset((void *)at, 0xA5, data + pages * PAGE - at); /* what nobody wrote should not be zero */
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

/* Say which block was left, and where. Pages before the address are read through the kernel: they may be out of reach. */
static void say(int signal, siginfo_t *info, void *context) {
  uintptr_t fault = (uintptr_t)info->si_addr;
  char text[200];
  int length = snprintf(text, sizeof text, "guard: address %p is nobody's\n", info->si_addr);
  /* The block that ends before the address is met first, or else, on the low side, the one that begins behind it. */
  for (uintptr_t page = (fault & ~(PAGE - 1)) + PAGE; fault >= arena && page >= arena && page + (1u << 30) > fault; page -= PAGE) {
    header found;
    struct iovec here = {&found, sizeof found}, there = {(void *)page, sizeof found};
    if (page < arena || process_vm_readv(getpid(), &here, 1, &there, 1, 0) != sizeof found || found.magic != MAGIC) continue;
    if (page > fault && !low_side) continue;
    length = snprintf(text, sizeof text, "guard: an access at offset %ld of a block of %zu bytes\n",
                      (long)(fault - found.at), found.size);
    break;
  }
  length = write(2, text, length);
  _exit(139);
}

__attribute__((constructor)) static void set_up(void) {
  const char *side = getenv("GUARD_SIDE");
  low_side = side && !strcmp(side, "low");
  size_t room = MOST_ROOM;
  void *found = MAP_FAILED;
  while (room && (found = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) == MAP_FAILED) room /= 2;
  if (found == MAP_FAILED) return (void)!write(2, "guard: no room\n", 15);
  atomic_store(&taken, (uintptr_t)found);
  arena_end = (uintptr_t)found + room;
  arena = (uintptr_t)found;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = say, action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
}
