// Mixed verbs between two hosts, both ways at once: every byte compared, every completion counted.
// soak PORT GID MTU TRANSPORT ROUNDS SEED ATOMIC_WRITE            the end that listens
// soak PORT GID MTU TRANSPORT ROUNDS SEED ATOMIC_WRITE SERVER     the end that calls
// TRANSPORT: rc, uc or ud. Both ends post the same sequence of operations, which the seed decides.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 65536
#define SLOT (SIZE + 64)
#define QKEY 0x11111111

// Parts of the memory: what the peer writes, what we send, what we read back, what we receive, words of 8 bytes.
enum part { INBOUND, OUTBOUND, READ_BACK, RECEIVED, WORDS, PARTS };

struct end {
	union ibv_gid gid;
	uint64_t address;
	uint32_t rkey, number, is_client;
};

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *list;
static struct ibv_mr *region;
static struct ibv_ah *ah;
static unsigned char *memory;
static struct end mine, peer;
static int other, reliable, is_ud, received, posted;
static unsigned long completions, bytes, missed;

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
	exit(3);
}

static unsigned char *at(enum part part) { return memory + (size_t)part * SLOT; }
static uint64_t there(enum part part) { return peer.address + (uint64_t)part * SLOT; }
static unsigned next(unsigned *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static unsigned char byte(size_t i, unsigned round, unsigned is_client)
{
	return (unsigned char)(i * 7 + i / 251 + round * 13 + is_client * 101);
}

static void fill(unsigned char *to, size_t size, unsigned round, unsigned is_client)
{
	for (size_t i = 0; i < size; i++)
		to[i] = byte(i, round, is_client);
}

static void compare(const unsigned char *found, size_t size, unsigned round, unsigned is_client, const char *what)
{
	size_t first = size, last = 0, count = 0;
	for (size_t i = 0; i < size; i++) {
		if (found[i] == byte(i, round, is_client))
			continue;
		first = count++ ? first : i;
		last = i;
	}
	if (count) {
		printf("wrong: %s, round %u, %zu of %zu bytes, from %zu (%02x where %02x belongs) to %zu (%02x where %02x belongs)\n", what, round, count,
		       size, first, found[first], byte(first, round, is_client), last, found[last], byte(last, round, is_client));
		exit(3);
	}
	bytes += size;
}

static void meet(int port, const char *server)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, made = socket(AF_INET, SOCK_STREAM, 0);
	need(made >= 0, "socket");
	if (server) {
		inet_pton(AF_INET, server, &to.sin_addr);
		need(!connect(made, (struct sockaddr *)&to, sizeof to), "connect");
		other = made;
		return;
	}
	setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	need(!bind(made, (struct sockaddr *)&to, sizeof to) && !listen(made, 1), "listen");
	other = accept(made, NULL, NULL);
	need(other >= 0, "accept");
}

static void exchange(const void *ours, void *theirs, size_t size)
{
	need(write(other, ours, size) == (ssize_t)size, "the other end is gone");
	need(recv(other, theirs, size, MSG_WAITALL) == (ssize_t)size, "the other end is gone");
}

static void barrier(void)
{
	char ours = 'b', theirs;
	exchange(&ours, &theirs, 1);
}

static void open_all(struct ibv_context *device, enum ibv_qp_type type, int atomic_write)
{
	struct ibv_pd *pd = ibv_alloc_pd(device);
	need(pd != NULL, "ibv_alloc_pd");
	memory = aligned_alloc(4096, 4096 * ((PARTS * SLOT + 4095) / 4096));
	need(memory != NULL, "aligned_alloc");
	memset(memory, 0, PARTS * SLOT);
	region = ibv_reg_mr(pd, memory, PARTS * SLOT, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	need(region != NULL, "ibv_reg_mr");
	cq = ibv_create_cq(device, 64, NULL, NULL, 0);
	need(cq != NULL, "ibv_create_cq");
	uint64_t operations = IBV_QP_EX_WITH_SEND_WITH_IMM;
	if (type != IBV_QPT_UD)
		operations |= IBV_QP_EX_WITH_RDMA_WRITE;
	if (type == IBV_QPT_RC)
		operations |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			      (atomic_write ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = pd, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = operations,
	};
	qp = ibv_create_qp_ex(device, &attr);
	need(qp != NULL, "ibv_create_qp_ex");
	list = ibv_qp_to_qp_ex(qp);
	need(list != NULL, "ibv_qp_to_qp_ex");
}

static void connect_all(int gid, enum ibv_mtu mtu)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh = { .dgid = peer.gid, .sgid_index = gid, .hop_limit = 64 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | (reliable ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0) };
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), "INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer.number, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 12, .ah_attr = to };
	int mask = IBV_QP_STATE | (is_ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	need(!ibv_modify_qp(qp, &attr, mask | (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)), "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 6, .rnr_retry = 7, .max_rd_atomic = 4 };
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	need(!ibv_modify_qp(qp, &attr, mask | (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)), "RTS");
	if (is_ud)
		need((ah = ibv_create_ah(qp->pd, &to)) != NULL, "ibv_create_ah");
}

static void post_receive(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)at(RECEIVED), .length = SLOT, .lkey = region->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
	need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	posted = 1;
}

// Waits for a completion of this kind; those of receives that come meanwhile are kept. 0: none came in so many ms.
static int completed(int is_receive, long limit_ms, struct ibv_wc *found, const char *what)
{
	static struct ibv_wc kept;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	long end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + limit_ms;
	for (;;) {
		if (is_receive && received) {
			*found = kept;
			received = posted = 0;
			return 1;
		}
		int count = ibv_poll_cq(cq, 1, found);
		need(count >= 0, "ibv_poll_cq");
		if (count == 1 && found->status != IBV_WC_SUCCESS) {
			printf("%s ends with \"%s\"\n", what, ibv_wc_status_str(found->status));
			exit(2);
		}
		completions += count;
		if (count == 1 && found->wr_id == 1) {
			expect(!received, "two receive completions for one receive");
			kept = *found;
			received = 1;
		} else if (count == 1) {
			expect(!is_receive, "a completion that nobody waits for");
			return 1;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec * 1000 + now.tv_nsec / 1000000 > end && !(is_receive && received))
			return 0;
	}
}

static void begin(uint64_t id)
{
	ibv_wr_start(list);
	list->wr_id = id;
	list->wr_flags = IBV_SEND_SIGNALED;
}

static void done(enum part part, size_t size, const char *what)
{
	struct ibv_wc wc;
	ibv_wr_set_sge(list, region->lkey, (uintptr_t)at(part), size);
	need(!ibv_wr_complete(list), what);
	expect(completed(0, 30000, &wc, what), what);
}

static void message(size_t size, unsigned round)
{
	struct ibv_wc wc;
	size_t head = is_ud ? 40 : 0;
	if (!posted)
		post_receive();
	barrier();
	begin(2);
	ibv_wr_send_imm(list, htonl(round));
	if (is_ud)
		ibv_wr_set_ud_addr(list, ah, peer.number, QKEY);
	done(OUTBOUND, size, "SEND");
	if (!completed(1, reliable ? 30000 : 300, &wc, "receive")) {
		// Of a peer that has died nothing arrives.
		barrier();
		expect(!reliable, "a SEND does not arrive");
		missed++;
		return;
	}
	// Unreliable messages may come late, or twice: they tell their round.
	if (reliable || ntohl(wc.imm_data) == round) {
		expect(wc.byte_len == size + head, "the length of a message");
		compare(at(RECEIVED) + head, size, round, peer.is_client, "SEND");
	} else {
		compare(at(RECEIVED) + head, wc.byte_len - head, ntohl(wc.imm_data), peer.is_client, "late SEND");
	}
	barrier();
}

static void write_and_read(size_t size, unsigned round)
{
	begin(3);
	ibv_wr_rdma_write(list, peer.rkey, there(INBOUND));
	done(OUTBOUND, size, "WRITE");
	if (!reliable)
		return;
	memset(at(READ_BACK), 0, size);
	begin(4);
	ibv_wr_rdma_read(list, peer.rkey, there(INBOUND));
	done(READ_BACK, size, "READ");
	compare(at(READ_BACK), size, round, mine.is_client, "READ of what was written");
	barrier();
	compare(at(INBOUND), size, round, peer.is_client, "WRITE of the peer");
	barrier();
}

static void atomics(unsigned round, int atomic_write)
{
	uint64_t before;
	begin(5);
	ibv_wr_atomic_fetch_add(list, peer.rkey, there(WORDS), 3);
	done(READ_BACK, 8, "FETCH AND ADD");
	memcpy(&before, at(READ_BACK), 8);
	expect(before == 3ull * round, "what FETCH AND ADD returns");
	begin(6);
	ibv_wr_atomic_cmp_swp(list, peer.rkey, there(WORDS) + 8, round, round + 1);
	done(READ_BACK, 8, "COMPARE AND SWAP");
	memcpy(&before, at(READ_BACK), 8);
	expect(before == round, "what COMPARE AND SWAP returns");
	bytes += 16;
	if (!atomic_write)
		return;
	uint64_t value = 0x0101010101010101ull * (round & 255), found;
	begin(7);
	ibv_wr_atomic_write(list, peer.rkey, there(WORDS) + 16, &value);
	struct ibv_wc wc;
	need(!ibv_wr_complete(list), "ATOMIC WRITE");
	expect(completed(0, 30000, &wc, "ATOMIC WRITE"), "ATOMIC WRITE");
	begin(8);
	ibv_wr_rdma_read(list, peer.rkey, there(WORDS) + 16);
	done(READ_BACK, 8, "READ");
	memcpy(&found, at(READ_BACK), 8);
	expect(found == value, "what ATOMIC WRITE wrote");
	bytes += 8;
}

int main(int count, char **words)
{
	signal(SIGPIPE, SIG_IGN); /* that the other end is gone is told by what write() returns */
	expect(count == 8 || count == 9, "soak PORT GID MTU TRANSPORT ROUNDS SEED ATOMIC_WRITE [SERVER]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	int gid = atoi(words[2]), mtu = atoi(words[3]), atomic_write = atoi(words[7]);
	unsigned rounds = atoi(words[5]), state = atoi(words[6]);
	const char *server = count == 9 ? words[8] : NULL;
	reliable = !strcmp(words[4], "rc");
	is_ud = !strcmp(words[4], "ud");
	struct ibv_device **devices = ibv_get_device_list(NULL);
	need(devices && devices[0], "no device");
	struct ibv_context *device = ibv_open_device(devices[0]);
	need(device != NULL, "ibv_open_device");
	open_all(device, reliable ? IBV_QPT_RC : is_ud ? IBV_QPT_UD : IBV_QPT_UC, atomic_write);
	mine = (struct end){ .address = (uintptr_t)memory, .rkey = region->rkey, .number = qp->qp_num, .is_client = server != NULL };
	need(!ibv_query_gid(device, 1, gid, &mine.gid), "ibv_query_gid");
	meet(atoi(words[1]), server);
	exchange(&mine, &peer, sizeof mine);
	connect_all(gid, mtu == 4096 ? IBV_MTU_4096 : mtu == 1024 ? IBV_MTU_1024 : IBV_MTU_256);
	barrier();
	printf("both ends have met\n");
	for (unsigned round = 0; round < rounds; round++) {
		unsigned largest = is_ud ? (unsigned)mtu : next(&state) % 8 ? 8192 : SIZE;
		size_t size = 1 + next(&state) % largest;
		fill(at(OUTBOUND), size, round, mine.is_client);
		if (!is_ud)
			write_and_read(size, round);
		message(size, round);
		if (reliable)
			atomics(round, atomic_write);
	}
	barrier();
	printf("%u rounds, %lu completions, %lu bytes right, %lu messages missed\n", rounds, completions, bytes, missed);
	return 0;
}
