// FLUSH, ATOMIC WRITE and memory registered on demand between two hosts, every byte compared.
// operations PORT GID MTU OPERATION          the server, whose memory is written
// operations PORT GID MTU OPERATION SERVER   the client
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 65536
#define ROUNDS 10
#define WORDS 4

struct end {
	union ibv_gid gid;
	uint64_t address;
	uint32_t rkey, number;
};

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *list;
static struct ibv_mr *region;
static unsigned char *memory;

static void need(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void expect(int good, const char *what)
{
	if (good)
		return;
	printf("wrong: %s\n", what);
	exit(1);
}

// Where the server's memory ends, the client's own begins, so that what is read does not hide what is written.
static unsigned char *own(void) { return memory + SIZE; }

static void open_region(struct ibv_pd *pd, int access)
{
	memory = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(memory != MAP_FAILED, "mmap");
	access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	region = ibv_reg_mr(pd, memory, 2 * SIZE, access);
	need(region != NULL, "ibv_reg_mr");
}

static void open_queue_pair(struct ibv_context *device, struct ibv_pd *pd, int more)
{
	cq = ibv_create_cq(device, 64, NULL, NULL, 0);
	need(cq != NULL, "ibv_create_cq");
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | more,
	};
	qp = ibv_create_qp_ex(device, &attr);
	need(qp != NULL, "ibv_create_qp_ex");
	list = ibv_qp_to_qp_ex(qp);
	need(list != NULL, "ibv_qp_to_qp_ex");
}

static void connect_queue_pair(const struct end *peer, int gid, enum ibv_mtu mtu, int access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = access | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer->number,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = peer->gid, .sgid_index = gid, .hop_limit = 64 } } };
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	// 4 s: where nothing is lost, nothing is to be sent twice, however slow a machine is.
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 2, .rnr_retry = 6, .max_rd_atomic = 4 };
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static int met(int port, const char *server)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, made = socket(AF_INET, SOCK_STREAM, 0);
	need(made >= 0, "socket");
	if (server) {
		inet_pton(AF_INET, server, &at.sin_addr);
		need(!connect(made, (struct sockaddr *)&at, sizeof at), "connect");
		return made;
	}
	setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	need(!bind(made, (struct sockaddr *)&at, sizeof at) && !listen(made, 1), "listen");
	int peer = accept(made, NULL, NULL);
	need(peer >= 0, "accept");
	return peer;
}

static void exchange(int peer, const void *mine, void *theirs, size_t size)
{
	need(write(peer, mine, size) == (ssize_t)size, "write");
	need(recv(peer, theirs, size, MSG_WAITALL) == (ssize_t)size, "the other end is gone");
}

static void done(const char *what)
{
	need(!ibv_wr_complete(list), what);
	struct ibv_wc completion;
	int found;
	while ((found = ibv_poll_cq(cq, 1, &completion)) == 0)
		;
	need(found == 1, "ibv_poll_cq");
	if (completion.status == IBV_WC_SUCCESS)
		return;
	printf("%s ends with \"%s\"\n", what, ibv_wc_status_str(completion.status));
	exit(2);
}

static void fill(unsigned char *at, int round)
{
	for (int i = 0; i < SIZE; i++)
		at[i] = (unsigned char)(i * 7 + i / 251 + round);
}

static void write_all(const struct end *to, int round)
{
	fill(memory, round);
	ibv_wr_start(list);
	ibv_wr_rdma_write(list, to->rkey, to->address);
	ibv_wr_set_sge(list, region->lkey, (uintptr_t)memory, SIZE);
	done("WRITE");
}

static void read_back(const struct end *from, size_t size)
{
	memset(own(), 0, SIZE);
	ibv_wr_start(list);
	ibv_wr_rdma_read(list, from->rkey, from->address);
	ibv_wr_set_sge(list, region->lkey, (uintptr_t)own(), size);
	done("READ");
	for (size_t at = 0; at < size; at++) {
		if (memory[at] == own()[at])
			continue;
		printf("byte %zu is %02x where %02x was written\n", at, own()[at], memory[at]);
		exit(1);
	}
}

static void flush(const struct end *to)
{
	for (int round = 0; round < ROUNDS; round++) {
		write_all(to, round);
		ibv_wr_start(list);
		ibv_wr_flush(list, to->rkey, to->address + round, SIZE - round, IBV_FLUSH_RANGE, IBV_FLUSH_GLOBAL);
		done("FLUSH of a range");
		ibv_wr_start(list);
		ibv_wr_flush(list, to->rkey, to->address, 0, IBV_FLUSH_MR, IBV_FLUSH_GLOBAL);
		done("FLUSH of a region");
	}
}

static void atomic_write(const struct end *to)
{
	for (int round = 0; round < ROUNDS; round++) {
		for (int word = 0; word < WORDS; word++) {
			memset(memory + 8 * word, round + word, 8);
			ibv_wr_start(list);
			ibv_wr_atomic_write(list, to->rkey, to->address + 8 * word, memory + 8 * word);
			done("ATOMIC WRITE");
		}
		read_back(to, 8 * WORDS);
	}
}

static void on_demand(const struct end *to)
{
	for (int round = 0; round < ROUNDS; round++) {
		// The pages of either end are given back now and then, and fault in again.
		need(!madvise(own(), SIZE, MADV_DONTNEED), "madvise");
		write_all(to, round);
		read_back(to, SIZE);
		ibv_wr_start(list);
		ibv_wr_atomic_fetch_add(list, to->rkey, to->address + SIZE, 3);
		ibv_wr_set_sge(list, region->lkey, (uintptr_t)own(), 8);
		done("FETCH AND ADD");
		uint64_t before;
		memcpy(&before, own(), 8);
		expect(before == 3u * round, "what FETCH AND ADD returns");
	}
}

// What the server's memory must be in the end.
static void compare(const char *operation)
{
	unsigned char *wanted = malloc(SIZE);
	need(wanted != NULL, "malloc");
	fill(wanted, ROUNDS - 1);
	size_t size = SIZE;
	if (!strcmp(operation, "atomic-write"))
		for (size = 0; size < 8 * WORDS; size++)
			wanted[size] = (unsigned char)(ROUNDS - 1 + size / 8);
	expect(!memcmp(memory, wanted, size), "the server's memory");
	free(wanted);
}

int main(int count, char **words)
{
	expect(count == 5 || count == 6, "operations PORT GID MTU OPERATION [SERVER]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	const char *operation = words[4], *server = count == 6 ? words[5] : NULL;
	int gid = atoi(words[2]), mtu = atoi(words[3]), is_flush = !strcmp(operation, "flush"), is_write = !strcmp(operation, "atomic-write");
	int access = is_flush ? IBV_ACCESS_FLUSH_GLOBAL : 0, more = is_write ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	need(devices && devices[0], "no device");
	struct ibv_context *device = ibv_open_device(devices[0]);
	need(device != NULL, "ibv_open_device");
	struct ibv_pd *pd = ibv_alloc_pd(device);
	need(pd != NULL, "ibv_alloc_pd");
	open_region(pd, access | (is_flush || is_write ? 0 : IBV_ACCESS_ON_DEMAND));
	open_queue_pair(device, pd, more | (is_flush ? IBV_QP_EX_WITH_FLUSH : 0));

	struct end mine = { .address = (uintptr_t)memory, .rkey = region->rkey, .number = qp->qp_num }, peer;
	need(!ibv_query_gid(device, 1, gid, &mine.gid), "ibv_query_gid");
	int other = met(atoi(words[1]), server);
	exchange(other, &mine, &peer, sizeof mine);
	connect_queue_pair(&peer, gid, mtu == 4096 ? IBV_MTU_4096 : IBV_MTU_1024, access);
	char ready = 'r', answer;
	exchange(other, &ready, &answer, 1);
	if (server && is_flush)
		flush(&peer);
	else if (server && is_write)
		atomic_write(&peer);
	else if (server)
		on_demand(&peer);
	exchange(other, &ready, &answer, 1);
	if (!server)
		compare(operation);
	printf("%s: ok\n", operation);
	return 0;
}
