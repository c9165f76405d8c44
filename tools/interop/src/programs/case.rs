//! What is run.

use super::mpi;

/// Runs a program and looks for wrong use of memory.
pub const VALGRIND: &str = "valgrind";

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By itself; it must end with 0.
    Alone,
    /// By itself until it has printed this; it would go on for ever.
    Until(&'static str),
    /// As server, and as client with the server's address behind its arguments; both must end with 0.
    Pair,
    /// The same, but they meet at this TCP port, whether they are told or not.
    PairAt(u16),
    /// As [`Pair`](How::Pair), but the server under valgrind, which must find nothing.
    Watched,
    /// Four ranks of a program of MPI, two on each address.
    Ranks,
    /// As server by rdma_cm, and this command line as client; SERVER is the server's address. Both must
    /// end with 0.
    Called(&'static str),
    /// As [`Called`](How::Called), but the server goes on for ever; the client must end with 0.
    Serves(&'static str),
    /// As [`Serves`](How::Serves), but they meet at this TCP port.
    ServesAt(u16, &'static str),
}

/// In which surroundings a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// With the preload library, each end on an address of its own.
    Usual,
    /// Both ends on one address.
    Near,
    /// With the library in the place of the system's.
    DropIn,
    /// Each end on the address of a network interface: UCX knows no device whose name is as long as those of addresses
    /// of the loopback interface. Needs root.
    Interfaces,
    /// Programs of TCP, whose sockets librspreload makes into rsockets.
    Sockets,
}

impl Form {
    /// What the table says behind the options.
    fn note(self) -> &'static str {
        match self {
            Form::Usual | Form::Interfaces => "",
            Form::Near => " (one address)",
            Form::DropIn => " (drop-in)",
            Form::Sockets => " (librspreload)",
        }
    }
}

/// A command line and how to run it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name of the program.
    pub program: &'static str,
    /// Its arguments, separated by blanks.
    pub arguments: &'static str,
    /// How it is run.
    pub how: How,
    /// And in which surroundings.
    pub form: Form,
    /// A variable of its environment.
    pub variable: Option<&'static str>,
}

impl Case {
    /// The same in other surroundings.
    const fn form(self, form: Form) -> Case {
        Case { form, ..self }
    }

    /// The same under valgrind.
    const fn watched(self) -> Case {
        Case { how: How::Watched, ..self }
    }

    /// The same on network interfaces and with a variable in its environment.
    const fn with(self, variable: &'static str) -> Case {
        Case { variable: Some(variable), form: Form::Interfaces, ..self }
    }

    /// The programs that must be installed.
    pub fn needs(&self) -> Vec<&'static str> {
        match self.how {
            How::Ranks => mpi::NEEDS.to_vec(),
            How::Watched => vec![self.program, VALGRIND],
            _ => vec![self.program],
        }
    }

    /// It is a program of MPI.
    pub fn is_mpi(&self) -> bool {
        self.how == How::Ranks
    }

    /// The command line.
    pub fn line(&self) -> String {
        format!("{} {}", self.program, self.options().trim_start()).trim_end().to_owned()
    }

    /// Its options, and how it is run where that is not the usual way.
    pub fn options(&self) -> String {
        let variable = self.variable.map(|variable| format!("{variable} ")).unwrap_or_default();
        let note = match self.how {
            How::Ranks => " (4 ranks)",
            How::Watched => " (valgrind)",
            _ => self.form.note(),
        };
        format!("{variable}{}{note}", self.arguments)
    }
}

const fn case(program: &'static str, arguments: &'static str, how: How) -> Case {
    Case { program, arguments, how, form: Form::Usual, variable: None }
}

/// fi_pingpong, whose ends meet at a port of its own; it compares what it gets with what was sent.
const fn fabric(arguments: &'static str) -> Case {
    case("fi_pingpong", arguments, How::PairAt(47_592)).form(Form::Interfaces)
}

const fn pair(program: &'static str, arguments: &'static str) -> Case {
    case(program, arguments, How::Pair)
}

/// qperf, which finds its peer by rdma_cm (`-cm 1`); its server goes on for ever.
const fn qperf(client: &'static str) -> Case {
    case("qperf", "", How::ServesAt(19_765, client))
}

/// Everything. perftest is told not to mind the CPU's frequency (-F) and to be short (-n). UC and UD repair
/// nothing, and perftest waits for ever for what is lost: few and small messages there.
pub const CASES: &[Case] = &[
    case("ibv_devices", "", How::Alone),
    case("ibv_devinfo", "-v", How::Alone),
    case("ibv_asyncwatch", "", How::Until("async event FD")),
    case("ls", "/sys/class/infiniband", How::Until("uroce")),
    case("ls", "/sys/class/infiniband", How::Until("uroce")).form(Form::DropIn),
    case("grep", "-r RoCE /sys/class/infiniband", How::Until("RoCE v2")),
    case("grep", "-r . /sys/class/infiniband", How::Until("hw_counters/sent_pkts:0")),
    pair("ibv_rc_pingpong", "-g 0"),
    pair("ibv_rc_pingpong", "-g 0 -e"),
    pair("ibv_rc_pingpong", "-g 0 -t"),
    pair("ibv_rc_pingpong", "-g 0 -o"),
    pair("ibv_rc_pingpong", "-g 1 -c -s 1000"),
    pair("ibv_rc_pingpong", "-g 0 -N"),
    pair("ibv_rc_pingpong", "-g 0 -m 4096 -s 1000000 -n 20"),
    pair("ibv_rc_pingpong", "-g 0").form(Form::DropIn),
    pair("ibv_uc_pingpong", "-g 0"),
    pair("ibv_uc_pingpong", "-g 0 -e"),
    pair("ibv_ud_pingpong", "-g 0"),
    pair("ibv_ud_pingpong", "-g 0 -e"),
    pair("ibv_srq_pingpong", "-g 0"),
    pair("ibv_srq_pingpong", "-g 0 -e"),
    pair("ibv_xsrq_pingpong", "-g 0"),
    pair("ibv_xsrq_pingpong", "-g 0 -e"),
    pair("ib_write_bw", "-F -n 200"),
    pair("ib_write_bw", "-F -n 20 -a"),
    pair("ib_write_bw", "-F -n 100 -b"),
    pair("ib_write_bw", "-F -n 100 -q 16"),
    pair("ib_write_bw", "-F -n 200 -l 8"),
    pair("ib_write_bw", "-F -n 100 --report_gbits"),
    pair("ib_write_bw", "-F -D 3"),
    pair("ib_write_bw", "-F -n 100 -m 4096"),
    pair("ib_write_bw", "-F -n 100 -m 256"),
    pair("ib_write_bw", "-F -n 50 -s 1024 -c UC"),
    pair("ib_write_bw", "-F -n 100 -c XRC"),
    pair("ib_write_bw", "-F -n 100").form(Form::DropIn),
    pair("ib_write_lat", "-F -n 200"),
    pair("ib_write_lat", "-F -n 5 -a"),
    pair("ib_write_lat", "-F -n 100 -c UC"),
    pair("ib_write_lat", "-F -n 100 -c XRC"),
    pair("ib_read_bw", "-F -n 200"),
    pair("ib_read_bw", "-F -n 20 -a"),
    pair("ib_read_bw", "-F -n 100 -q 16"),
    pair("ib_read_bw", "-F -n 100 -e"),
    pair("ib_read_bw", "-F -n 100 -c XRC"),
    pair("ib_read_lat", "-F -n 200"),
    pair("ib_read_lat", "-F -n 100 -e"),
    pair("ib_read_lat", "-F -n 100 -c XRC"),
    pair("ib_send_bw", "-F -n 200"),
    pair("ib_send_bw", "-F -n 20 -a"),
    pair("ib_send_bw", "-F -n 100 -b"),
    pair("ib_send_bw", "-F -n 100 -q 16"),
    pair("ib_send_bw", "-F -n 200 -l 8"),
    pair("ib_send_bw", "-F -n 100 -e"),
    pair("ib_send_bw", "-F -D 3"),
    pair("ib_send_bw", "-F -n 100 -m 4096"),
    pair("ib_send_bw", "-F -n 50 -s 1024 -c UC"),
    pair("ib_send_bw", "-F -n 50 -s 1024 -c UD"),
    pair("ib_send_bw", "-F -n 100 --use-srq -q 2"),
    pair("ib_send_bw", "-F -n 100 -c XRC"),
    pair("ib_send_bw", "-F -n 100 -c XRC -q 4"),
    pair("ib_send_lat", "-F -n 200"),
    pair("ib_send_lat", "-F -n 5 -a"),
    pair("ib_send_lat", "-F -n 100 -e"),
    pair("ib_send_lat", "-F -n 100 -s 64 -I 64"),
    pair("ib_send_lat", "-F -n 100 -c UC"),
    pair("ib_send_lat", "-F -n 100 -c UD"),
    pair("ib_send_lat", "-F -n 100 -c XRC"),
    pair("ib_atomic_bw", "-F -n 200"),
    pair("ib_atomic_bw", "-F -n 100 -A CMP_AND_SWAP -q 4"),
    pair("ib_atomic_bw", "-F -n 100 -c XRC"),
    pair("ib_atomic_lat", "-F -n 200"),
    pair("ib_atomic_lat", "-F -n 100 -c XRC"),
    pair("ib_write_bw", "-F -n 200").form(Form::Near),
    pair("ib_send_bw", "-F -n 100 -q 16").form(Form::Near),
    pair("ib_send_lat", "-F -n 100 -c UD").form(Form::Near),
    pair("ib_send_bw", "-F -n 100 -c XRC").form(Form::Near),
    case("rping", "-s -a SERVER -C 10", How::Called("rping -c -a SERVER -C 10 -v"))
        .form(Form::Near),
    case("rping", "-s -a SERVER -C 10", How::Called("rping -c -a SERVER -C 10 -v")),
    case("ucmatose", "-c 4", How::Called("ucmatose -c 4 -s SERVER")),
    case("udaddy", "", How::Called("udaddy -s SERVER")),
    case("rdma_server", "-s SERVER", How::Called("rdma_client -s SERVER")),
    case("rdma_xserver", "-c r", How::Called("rdma_xclient -c r -s SERVER")),
    case("rdma_xserver", "-c x", How::Called("rdma_xclient -c x -s SERVER")),
    case("ib_write_bw", "-F -R -n 100", How::Called("ib_write_bw -F -R -n 100 SERVER")),
    case("ib_write_bw", "-F -z -n 100", How::Called("ib_write_bw -F -z -n 100 SERVER")),
    case("ib_send_lat", "-F -R -n 100", How::Called("ib_send_lat -F -R -n 100 SERVER")),
    case(
        "rstream",
        "-b SERVER -S all -I 10 -C 10",
        How::Called("rstream -s SERVER -S all -I 10 -C 10"),
    ),
    case("rstream", "-b SERVER -T b -I 100", How::Called("rstream -s SERVER -T b -I 100")),
    case("rstream", "-b SERVER -T n -I 100", How::Called("rstream -s SERVER -T n -I 100")),
    case(
        "rstream",
        "-b SERVER -T a -T v -I 100",
        How::Called("rstream -s SERVER -T a -T v -I 100"),
    ),
    case(
        "rstream",
        "-b SERVER -T r -B 4096 -I 100",
        How::Called("rstream -s SERVER -T r -B 4096 -I 100"),
    ),
    case("rstream", "-b SERVER -I 100", How::Called("rstream -s SERVER -I 100")).form(Form::Near),
    case("riostream", "-b SERVER -I 10 -C 10", How::Called("riostream -s SERVER -I 10 -C 10")),
    case(
        "riostream",
        "-b SERVER -T v -I 10 -C 10",
        How::Called("riostream -s SERVER -T v -I 10 -C 10"),
    ),
    case("cmtime", "-b SERVER -c 20", How::Serves("cmtime -s SERVER -c 20")),
    case("mckey", "-m 230.47.91.1 -b SERVER", How::Called("mckey -m 230.47.91.1 -s")),
    case("rping", "-s -a SERVER -C 10", How::Called("rping -c -a SERVER -C 10 -v"))
        .form(Form::DropIn),
    case("rstream", "-b SERVER -I 100", How::Called("rstream -s SERVER -I 100")).form(Form::DropIn),
    case("ib_write_bw", "-F -R -n 100", How::Called("ib_write_bw -F -R -n 100 SERVER"))
        .form(Form::DropIn),
    case("iperf3", "-s -1 -B SERVER", How::Called("iperf3 -c SERVER -t 1")).form(Form::Sockets),
    case("ibstatus", "", How::Until("4: ACTIVE")),
    case("ibstat", "", How::Until("State: Active")),
    case("rdma", "link show -j", How::Until("\"netdev\":\"lo\"")),
    case("rdma", "link show -j", How::Until("\"netdev\":\"lo\"")).form(Form::DropIn),
    case("rdma", "-d dev", How::Until("RC_RNR_NAK_GEN")),
    case("rdma", "-j resource show", How::Until("\"cm_id\"")),
    case("rdma", "-d statistic show", How::Until("sent_pkts")),
    case("rdma", "system", How::Until("netns exclusive")),
    pair("ibv_rc_pingpong", "-g 0 -n 20").watched(),
    pair("ucx_perftest", "-t tag_lat -n 500 -w 10").with("UCX_TLS=rc_v"),
    pair("ucx_perftest", "-t tag_bw -s 100000 -n 200 -w 10").with("UCX_TLS=rc_v"),
    pair("ucx_perftest", "-t ucp_get -s 65536 -n 50 -w 5").with("UCX_TLS=rc_v"),
    pair("ucx_perftest", "-t ucp_fadd -n 50 -w 5").with("UCX_TLS=rc_v"),
    pair("ucx_perftest", "-t tag_lat -n 200 -w 10").with("UCX_TLS=ud_v"),
    pair("ucx_perftest", "-t tag_bw -s 65536 -n 50 -w 5").with("UCX_TLS=ud_v"),
    case("mpi_check", "--mca pml ucx --mca osc ucx", How::Ranks).with("UCX_TLS=rc_v,self"),
    case("mpi_check", "--mca pml ucx --mca osc ucx", How::Ranks).with("UCX_TLS=ud_v,self"),
    case("mpi_check", "--mca pml cm --mca mtl ofi", How::Ranks).with("FI_PROVIDER=verbs;ofi_rxm"),
    fabric("-p verbs -e msg -I 20 -c"),
    fabric("-p verbs -e dgram -I 20 -c"),
    fabric("-p verbs;ofi_rxm -e rdm -I 20 -c"),
    fabric("-p verbs;ofi_rxd -e rdm -I 20 -c"),
    qperf("qperf SERVER -cm 1 -t 1 rc_bw rc_lat rc_rdma_read_bw ver_rc_compare_swap"),
    case("udpong", "-b SERVER -C 1000", How::Serves("udpong -s SERVER -C 1000 -S 1000")),
    case("udpong", "-b SERVER -T e", How::Serves("udpong -s SERVER -C 1000 -S 64 -T e")),
    case("rcopy", "", How::Serves("rcopy /etc/services SERVER:SCRATCH/copy")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_line_is_there_twice() {
        let mut lines: Vec<_> = CASES.iter().map(Case::line).collect();
        let all = lines.len();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), all);
    }
}
