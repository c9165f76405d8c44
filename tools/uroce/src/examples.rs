//! Examples of the commands, for their help and their manual pages. Those of the commands over captures stand with them.

pub const DEMO: &str = "\
Examples:
  uroce demo
  uroce demo --quick --datapath loopback";

pub const DEVICES: &str = "\
Examples:
  uroce devices
  uroce devices --json";

pub const DEVINFO: &str = "\
Examples:
  uroce devinfo
  uroce devinfo -v -d 127.0.0.1";

pub const DOCTOR: &str = "\
Examples:
  uroce doctor
  uroce doctor --peer 10.0.0.1";

pub const GIDS: &str = "\
Examples:
  uroce gids";

pub const PINGPONG: &str = "\
Examples:
  uroce pingpong rc                     server
  uroce pingpong rc 10.0.0.1            client, against it or against ibv_rc_pingpong -g 1
  uroce pingpong ud 10.0.0.1 --pcap run.pcapng";

pub const RPING: &str = "\
Examples:
  uroce rping -s -a 10.0.0.1            server
  uroce rping -c -a 10.0.0.1 -C 10 -v   client, against it or against rping -s";

pub const PERF: &str = "\
Examples:
  uroce perf write bw                   server; speaks the exchange of ib_write_bw
  uroce perf write bw 10.0.0.1          client, against it or against ib_write_bw -x 1
  uroce perf write lat --local          both ends in this process";

pub const RES: &str = "\
Examples:
  uroce res
  uroce res qp";

pub const STAT: &str = "\
Examples:
  uroce stat
  uroce stat --all --json";

pub const FAULT: &str = "\
Examples:
  uroce fault check 'rx op=ack -> drop count=1'
  uroce fault proxy --help";

pub const COMPLETIONS: &str = "\
Examples:
  uroce completions bash > ~/.local/share/bash-completion/completions/uroce";

pub const MAN: &str = "\
Examples:
  uroce man ~/.local/share/man/man1";
