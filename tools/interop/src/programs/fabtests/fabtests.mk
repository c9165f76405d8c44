# Builds libfabric's verbs providers and fabtests from SOURCE, a folder with both; the outcome goes to OUT. Run in an empty folder.

TESTS := $(SOURCE)/fabtests
# A test that upstream's script runs is one file of these folders; the others are shared.
PROGRAMS := $(wildcard $(TESTS)/functional/*.c $(TESTS)/benchmarks/*.c $(TESTS)/unit/*.c)
SHARED := $(wildcard $(TESTS)/common/*.c) $(TESTS)/benchmarks/benchmark_shared.c $(TESTS)/unit/common.c
NAMES := $(basename $(notdir $(filter-out $(SHARED),$(PROGRAMS))))
OBJECTS := $(addsuffix .o,$(basename $(notdir $(filter-out %/check_hmem.c,$(SHARED)))))
LIBRARY := $(OUT)/libfabric.so.1
# What fabtests' configure would find on Linux, and where the library is at run time: beside the program.
FLAGS := -O1 -w -D_GNU_SOURCE -DHAVE_CLOCK_GETTIME=1 -DHAVE_EPOLL=1 -DHAVE___INT128=1 -DPACKAGE_VERSION='"1.22.0"' \
	-I$(TESTS)/include -I$(TESTS)/benchmarks -I$(SOURCE)/include
OTHERS := psm2 psm3 sockets tcp udp usnic efa opx shm sm2 mrail ucx cxi perf trace profile hook_debug hook_hmem dmabuf_peer_mem

VPATH := $(TESTS)/common:$(TESTS)/functional:$(TESTS)/benchmarks:$(TESTS)/unit

all: $(addprefix $(OUT)/fi_,$(NAMES))

Makefile:
	cd $(SOURCE) && autoreconf --install
	$(SOURCE)/configure --quiet --disable-static --disable-dependency-tracking CFLAGS="-O1 -w -DNDEBUG" \
		--enable-verbs=yes --enable-rxm=yes --enable-rxd=yes $(addprefix --disable-,$(OTHERS))

$(LIBRARY): Makefile
	$(MAKE) -f Makefile src/libfabric.la
	cp src/.libs/libfabric.so.1 $@

%.o: %.c
	$(CC) $(FLAGS) -c $< -o $@

$(OUT)/fi_%: %.c $(OBJECTS) $(LIBRARY)
	$(CC) $(FLAGS) $< $(OBJECTS) $(LIBRARY) -Wl,-rpath,'$$ORIGIN' -lpthread -ldl -o $@
