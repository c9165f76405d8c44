//! The network interface: state, MTU, driver, queues, offloads, XDP.

use std::io;
use std::path::Path;

use uroce_link::{Attached, LinkFacts, Offloads, XdpSupport};
use uroce_verbs::Mtu;

use super::finding::Finding;
use super::subject::Subject;

/// Kinds of interface whose packets travel inside other packets, and may lose their offloads there.
const TUNNELS: &[&str] =
    &["vxlan", "geneve", "gre", "gretap", "ipip", "sit", "wireguard", "tun", "ipsec", "erspan"];

/// ENOENT: the kernel does not have that family of generic netlink.
const NO_SUCH_FAMILY: i32 = 2;

/// Everything about the interface of the subject.
pub fn examine(subject: &Subject) -> Vec<Finding> {
    let netdev = subject.netdev();
    let facts = LinkFacts::of(subject.index);
    vec![
        state(subject),
        mtu(netdev, subject.interface.mtu),
        driver(netdev, facts.as_ref().ok().and_then(|facts| facts.kind.as_deref())),
        offloads(netdev, &Offloads::of(subject.index), Offloads::fixed(subject.index).ok()),
        xdp(netdev, &facts.map(|facts| facts.xdp), &XdpSupport::of(subject.index)),
    ]
}

fn state(subject: &Subject) -> Finding {
    let netdev = subject.netdev();
    let what = format!("{netdev} has {}", subject.address);
    if subject.interface.up {
        return Finding::ok("interface", format!("{what} and is up"));
    }
    Finding::problem("interface", format!("{what}, but is down"))
        .repair(format!("sudo ip link set {netdev} up"))
}

fn mtu(netdev: &str, mtu: usize) -> Finding {
    match Mtu::largest_for_link(mtu) {
        None => Finding::problem("mtu", format!("{mtu} bytes on {netdev}; RoCE needs 336"))
            .repair(format!("sudo ip link set {netdev} mtu 1500")),
        Some(path) if path < Mtu::M1024 => {
            Finding::note("mtu", format!("{mtu} bytes on {netdev}, so the path MTU is only {path}"))
                .repair(format!("sudo ip link set {netdev} mtu 1500"))
        }
        Some(path) => Finding::ok("mtu", format!("{mtu} bytes on {netdev}: path MTU {path}")),
    }
}

fn driver(netdev: &str, kind: Option<&str>) -> Finding {
    let folder = Path::new("/sys/class/net").join(netdev);
    let link = std::fs::read_link(folder.join("device/driver")).ok();
    let module = link.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let name = module.as_deref().or(kind).unwrap_or("none: a software interface");
    let what = format!("{name}, queues: {}", queues(&folder.join("queues")));
    if kind.is_some_and(|kind| TUNNELS.contains(&kind)) {
        return Finding::note(
            "driver",
            format!(
                "{what}; a tunnel may cut trains of packets apart or lose them: if a peer stays \
                 silent, compare with an address outside the tunnel"
            ),
        );
    }
    Finding::ok("driver", what)
}

/// How many queues there are, by the names in their folder: `rx-0`, `tx-0`, ...
fn queues(folder: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return "cannot see (/sys is not that of this network namespace)".to_owned();
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<_> = names.collect();
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    format!("{} in, {} out", count("rx-"), count("tx-"))
}

/// `fixed` are those that nobody can switch on.
fn offloads(netdev: &str, found: &io::Result<Offloads>, fixed: Option<Offloads>) -> Finding {
    let on = match found {
        Ok(on) => on,
        Err(error) => {
            return Finding::note("offloads", format!("cannot see those of {netdev} ({error})"))
                .repair(format!("ethtool -k {netdev}"));
        }
    };
    let fixed = fixed.unwrap_or(Offloads { gro: false, gso: false, udp_segmentation: false });
    let each = [
        ("gro", on.gro, fixed.gro),
        ("gso", on.gso, fixed.gso),
        ("tx-udp-segmentation", on.udp_segmentation, fixed.udp_segmentation),
    ];
    let off: Vec<_> = each.iter().filter(|(_, on, _)| !on).collect();
    if off.is_empty() {
        return Finding::ok("offloads", "gro, gso and tx-udp-segmentation are on");
    }
    let names = off.iter().map(|(name, _, is_fixed)| {
        format!(
            "{name}{}",
            if *is_fixed { " (fixed: this interface cannot have it on)" } else { "" }
        )
    });
    let names: Vec<_> = names.collect();
    let what = format!("off: {}; trains are cut early, which is slower", names.join(", "));
    let switches = off.iter().filter(|(_, _, is_fixed)| !is_fixed);
    let switches: Vec<_> = switches.map(|(name, ..)| format!("{name} on")).collect();
    let finding = Finding::note("offloads", what);
    match switches.as_slice() {
        [] => finding,
        switches => finding.repair(format!("sudo ethtool -K {netdev} {}", switches.join(" "))),
    }
}

fn xdp(netdev: &str, attached: &io::Result<Attached>, support: &io::Result<XdpSupport>) -> Finding {
    let can = match support {
        Ok(XdpSupport { zero_copy: true, .. }) => "native, AF_XDP without a copy".to_owned(),
        Ok(XdpSupport { native: true, .. }) => "native, AF_XDP with a copy".to_owned(),
        Ok(_) => "generic mode only".to_owned(),
        Err(error) if error.raw_os_error() == Some(NO_SUCH_FAMILY) => {
            "cannot tell what the driver can do: Linux 6.3 can".to_owned()
        }
        Err(error) => format!("cannot tell what the driver can do ({error})"),
    };
    let mode = match attached {
        Ok(Attached::Nothing) => {
            return Finding::ok("XDP", format!("{can}; no program attached"));
        }
        Err(error) => {
            let what = format!("{can}; cannot see whether a program is attached ({error})");
            return Finding::note("XDP", what).repair(format!("ip -d link show dev {netdev}"));
        }
        Ok(Attached::Native) => "in the driver",
        Ok(Attached::Generic) => "in generic mode",
        Ok(Attached::Other) => "in hardware or several",
    };
    Finding::note(
        "XDP",
        format!(
            "{can}; a program is attached {mode}, which cuts all trains apart and may take packets"
        ),
    )
    .repair(format!("sudo ip link set dev {netdev} xdp off"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn an_mtu_is_judged_by_the_path_mtu_that_fits() {
        assert_eq!(mtu("eth0", 300).state, State::Problem);
        assert_eq!(mtu("eth0", 900).state, State::Note);
        assert_eq!(mtu("eth0", 1500).what, "1500 bytes on eth0: path MTU 1024");
    }

    #[test]
    fn one_command_switches_all_missing_offloads_on() {
        let found = Offloads { gro: false, gso: true, udp_segmentation: false };
        let finding = offloads("eth0", &Ok(found), None);
        assert_eq!(
            finding.repair.as_deref(),
            Some("sudo ethtool -K eth0 gro on tx-udp-segmentation on")
        );
        let all = Offloads { gro: true, gso: true, udp_segmentation: true };
        assert_eq!(offloads("eth0", &Ok(all), None).state, State::Ok);
        let unseen = offloads("eth0", &Err(io::Error::from_raw_os_error(2)), None);
        assert_eq!(unseen.state, State::Note);
    }

    #[test]
    fn no_command_switches_on_what_is_fixed() {
        let found = Offloads { gro: true, gso: true, udp_segmentation: false };
        let fixed = Offloads { gro: false, gso: false, udp_segmentation: true };
        let finding = offloads("eth0", &Ok(found), Some(fixed));
        assert_eq!((finding.state, &finding.repair), (State::Note, &None));
        assert!(finding.what.contains("tx-udp-segmentation (fixed"), "{finding}");
        let both = offloads("eth0", &Ok(Offloads { gro: false, ..found }), Some(fixed));
        assert_eq!(both.repair.as_deref(), Some("sudo ethtool -K eth0 gro on"));
    }

    #[test]
    fn an_attached_program_is_worth_a_note() {
        let support = Ok(XdpSupport { native: true, zero_copy: false });
        assert_eq!(xdp("eth0", &Ok(Attached::Nothing), &support).state, State::Ok);
        let busy = xdp("eth0", &Ok(Attached::Generic), &support);
        assert_eq!(busy.state, State::Note);
        assert!(busy.what.contains("generic mode"), "{busy}");
    }

    #[test]
    fn a_program_that_cannot_be_asked_for_is_not_called_absent() {
        let support = Ok(XdpSupport { native: true, zero_copy: false });
        let unseen = xdp("eth0", &Err(io::Error::from_raw_os_error(19)), &support);
        assert_eq!(unseen.state, State::Note);
        assert!(unseen.what.contains("cannot see whether a program is attached"), "{unseen}");
        assert_eq!(unseen.repair.as_deref(), Some("ip -d link show dev eth0"));
    }

    #[test]
    fn a_tunnel_is_pointed_out() {
        assert_eq!(driver("no-such-netdev", Some("wireguard")).state, State::Note);
        let veth = driver("no-such-netdev", Some("veth"));
        assert!(veth.what.starts_with("veth, queues: cannot see"), "{veth}");
        assert_eq!(driver("lo", None).state, State::Ok);
    }
}
