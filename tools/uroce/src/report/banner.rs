//! The blocks that perftest prints before its table: parameters, and both ends.

use uroce_exchange::perftest::Keys;

use super::table::RULE;

/// The parameters of a run, as they are shown.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Title: `RDMA_Write BW Test`.
    pub title: String,
    /// Device name.
    pub device: String,
    /// Queue pairs.
    pub qps: u32,
    /// `RC`, `UC`, `UD`.
    pub connection: &'static str,
    /// Receives come from a shared queue.
    pub srq: bool,
    /// `TX depth` and its value, at ends that send; `RX depth` at those that only receive.
    pub depth: Option<(&'static str, u32)>,
    /// `CQ Moderation` in bandwidth tests.
    pub cq_mod: Option<u32>,
    /// Path MTU in bytes.
    pub mtu: usize,
    /// GID table index.
    pub gid_index: u8,
    /// Outstanding reads in READ and atomic tests, inline bytes in the others.
    pub limit: Limit,
}

/// The line that differs between tests with and without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// READ and atomics in flight.
    OutstandingReads(u8),
    /// Inline bytes.
    Inline(u32),
}

/// What a server prints while it waits.
pub const WAITING: &str = "\n************************************\n\
     * Waiting for client to connect... *\n\
     ************************************\n";

impl Parameters {
    /// The block between the first two rules.
    pub fn block(&self) -> String {
        let on_off = |on| if on { "ON" } else { "OFF" };
        let mut text = format!("{RULE}                    {}\n", self.title);
        text += &format!(" Dual-port       : OFF\t\tDevice         : {}\n", self.device);
        text += &format!(" Number of qps   : {}\t\tTransport type : IB\n", self.qps);
        text += &format!(
            " Connection type : {}\t\tUsing SRQ      : {}\n",
            self.connection,
            on_off(self.srq)
        );
        text += " PCIe relax order: OFF\n ibv_wr* API     : OFF\n";
        if let Some((name, depth)) = self.depth {
            text += &format!(" {name}        : {depth}\n");
        }
        if let Some(cq_mod) = self.cq_mod {
            text += &format!(" CQ Moderation   : {cq_mod}\n");
        }
        text += &format!(" Mtu             : {}[B]\n Link type       : Ethernet\n", self.mtu);
        text += &format!(" GID index       : {}\n", self.gid_index);
        text += &match self.limit {
            Limit::OutstandingReads(reads) => format!(" Outstand reads  : {reads}\n"),
            Limit::Inline(bytes) => format!(" Max inline data : {bytes}[B]\n"),
        };
        text + " rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n" + RULE
    }
}

/// Which of its fields a line about an end shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndFields {
    /// Outstanding reads (`OUT`).
    pub reads: bool,
    /// Remote key and address.
    pub memory: bool,
}

/// The lines about the queue pairs of one end; `which` is `local` or `remote`.
pub fn end_lines(which: &str, ends: &[Keys], shown: EndFields) -> String {
    ends.iter().map(|keys| end_line(which, keys, shown)).collect()
}

fn end_line(which: &str, keys: &Keys, shown: EndFields) -> String {
    let mut text =
        format!(" {which} address: LID {:04x} QPN {:#06x} PSN {:#x}", keys.lid, keys.qpn, keys.psn);
    if shown.reads {
        text += &format!(" OUT {:#04x}", keys.out_reads);
    }
    if shown.memory {
        text += &format!(" RKey {:#08x} VAddr {:#016x}", keys.rkey, keys.vaddr);
    }
    let bytes: Vec<_> = keys.gid.bytes().iter().map(|byte| format!("{byte:02}")).collect();
    text + "\n GID: " + &bytes.join(":") + "\n"
}

#[cfg(test)]
mod tests {
    use uroce_device::wire::Gid;

    use super::*;

    #[test]
    fn the_lines_of_one_end_as_perftest_printed_them() {
        let keys = Keys {
            lid: 0,
            out_reads: 0x80,
            qpn: 0x3c,
            psn: 0x1bf20,
            rkey: 0xfc1,
            vaddr: 0x7fa302c12000,
            gid: Gid::from_ip([10, 77, 0, 2].into()),
            srqn: 0,
        };
        let shown = EndFields { reads: false, memory: true };
        assert_eq!(
            end_lines("local", &[keys], shown),
            " local address: LID 0000 QPN 0x003c PSN 0x1bf20 RKey 0x000fc1 VAddr 0x007fa302c12000\n \
             GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:02\n"
        );
        let shown = EndFields { reads: true, memory: false };
        assert!(end_lines("remote", &[keys], shown).contains("PSN 0x1bf20 OUT 0x80\n"));
    }

    #[test]
    fn the_parameter_block() {
        let parameters = Parameters {
            title: "RDMA_Write BW Test".into(),
            device: "rxe0".into(),
            qps: 1,
            connection: "RC",
            srq: false,
            depth: Some(("TX depth", 10)),
            cq_mod: Some(1),
            mtu: 4096,
            gid_index: 1,
            limit: Limit::Inline(0),
        };
        let block = parameters.block();
        for line in [
            "                    RDMA_Write BW Test",
            " Dual-port       : OFF\t\tDevice         : rxe0",
            " Connection type : RC\t\tUsing SRQ      : OFF",
            " TX depth        : 10",
            " CQ Moderation   : 1",
            " Mtu             : 4096[B]",
            " Max inline data : 0[B]",
            " rdma_cm QPs\t : OFF",
        ] {
            assert!(block.lines().any(|l| l == line), "{line:?} in {block}");
        }
    }
}
