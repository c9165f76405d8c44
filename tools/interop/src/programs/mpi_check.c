/* A program of MPI: messages of many sizes, collectives and one-sided operations, with every byte checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int rank, ranks;
static void must(int ok, const char *what) { if (!ok) { fprintf(stderr, "rank %d: wrong data: %s\n", rank, what); MPI_Abort(MPI_COMM_WORLD, 1); } }
static unsigned char at(int who, size_t i) { return (unsigned char)(who * 31 + i * 7 + (i >> 8)); }
static void fill(unsigned char *p, size_t n, int who) { for (size_t i = 0; i < n; i++) p[i] = at(who, i); }
static int same(unsigned char *p, size_t n, int who) { for (size_t i = 0; i < n; i++) if (p[i] != at(who, i)) return 0; return 1; }
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
  size_t max = 1 << 20; unsigned char *a = malloc(max * ranks), *b = malloc(max * ranks);
  for (size_t n = 0; n <= max; n = n ? n * 4 : 1) {
    fill(a, n, rank); memset(b, 0, n);
    MPI_Sendrecv(a, n, MPI_BYTE, next, 7, b, n, MPI_BYTE, prev, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    must(same(b, n, prev), "sendrecv");
  }
  for (int root = 0; root < ranks; root++) { size_t n = 100000; if (rank == root) fill(a, n, root); else memset(a, 0, n); MPI_Bcast(a, n, MPI_BYTE, root, MPI_COMM_WORLD); must(same(a, n, root), "bcast"); }
  long mine[1000], sum[1000]; for (int i = 0; i < 1000; i++) mine[i] = rank * 1000L + i;
  MPI_Allreduce(mine, sum, 1000, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < 1000; i++) must(sum[i] == 1000L * ranks * (ranks - 1) / 2 + (long)ranks * i, "allreduce");
  for (int to = 0; to < ranks; to++) fill(a + to * 20000, 20000, rank * 16 + to);
  MPI_Alltoall(a, 20000, MPI_BYTE, b, 20000, MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; from++) must(same(b + from * 20000, 20000, from * 16 + rank), "alltoall");
  MPI_Win win; long *table; MPI_Win_allocate(sizeof(long) * 5000, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &table, &win);
  memset(table, 0, sizeof(long) * 5000); MPI_Win_fence(0, win);
  for (int i = 0; i < 1000; i++) mine[i] = rank * 7777L + i;
  MPI_Put(mine, 1000, MPI_LONG, next, 1000, 1000, MPI_LONG, win); MPI_Win_fence(0, win);
  for (int i = 0; i < 1000; i++) must(table[1000 + i] == prev * 7777L + i, "put");
  MPI_Get(sum, 1000, MPI_LONG, prev, 1000, 1000, MPI_LONG, win); MPI_Win_fence(0, win);
  int before = (prev + ranks - 1) % ranks; for (int i = 0; i < 1000; i++) must(sum[i] == before * 7777L + i, "get");
  long one = 1, old; MPI_Win_lock_all(0, win);
  for (int i = 0; i < 50; i++) MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win), MPI_Win_flush(0, win);
  MPI_Accumulate(mine, 100, MPI_LONG, 0, 3000, 100, MPI_LONG, MPI_SUM, win);
  MPI_Win_unlock_all(win); MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win); must(table[0] == 50L * ranks, "fetch and op"); for (int i = 0; i < 100; i++) must(table[3000 + i] == 7777L * ranks * (ranks - 1) / 2 + (long)ranks * i, "accumulate"); MPI_Win_unlock(0, win); }
  MPI_Win_free(&win); if (rank == 0) printf("%d ranks: all data right\n", ranks);
  MPI_Finalize(); return 0; }
