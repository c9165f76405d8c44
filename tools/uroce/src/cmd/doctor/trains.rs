//! Whether running devices found out that trains (UDP segmentation) do not arrive.

use uroce_device::{DeviceReport, ResourceKind, device_reports};

use super::finding::Finding;
use super::subject::Subject;

const CHECK: &str = "segmentation";

/// Asks the devices of this user on the subject's interface.
pub fn examine(subject: &Subject) -> Finding {
    match device_reports() {
        Ok(answers) => {
            let reports: Vec<_> = answers.into_iter().flatten().collect();
            judge(&reports, subject.netdev())
        }
        Err(error) => Finding::note(CHECK, format!("running devices cannot be asked ({error})")),
    }
}

fn judge(reports: &[DeviceReport], netdev: &str) -> Finding {
    let here =
        reports.iter().filter(|report| value(report, ResourceKind::Device, "netdev") == netdev);
    let lost: Vec<(&DeviceReport, u64)> =
        here.map(|report| (report, trains_lost(report))).collect();
    let Some((worst, count)) = lost.iter().max_by_key(|(_, count)| *count) else {
        return Finding::ok(CHECK, format!("no device runs on {netdev} that could tell"));
    };
    match count {
        0 => Finding::ok(CHECK, format!("what leaves {netdev} for the kernel to cut arrives")),
        _ => Finding::note(
            CHECK,
            format!(
                "packets that leave {netdev} for the kernel or the network card to cut did not arrive, \
                 {count} times (trains_lost of {}, process {}): some travel one by one, which is slower",
                worst.comm, worst.pid
            ),
        )
        .repair(format!("sudo ethtool -K {netdev} tx-udp-segmentation off")),
    }
}

fn value<'a>(report: &'a DeviceReport, kind: ResourceKind, name: &str) -> &'a str {
    let resource = report.resources.iter().find(|resource| resource.kind() == kind);
    resource.and_then(|resource| resource.get(name)).unwrap_or_default()
}

fn trains_lost(report: &DeviceReport) -> u64 {
    value(report, ResourceKind::Counters, "trains_lost").parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    fn report(pid: u32, netdev: &str, lost: u64) -> DeviceReport {
        let lines = [format!("dev netdev {netdev}"), format!("counters trains_lost {lost}")];
        let resources = lines.map(|line| line.parse().expect("a resource")).into();
        DeviceReport { pid, user: 0, comm: "app".to_owned(), resources }
    }

    #[test]
    fn the_device_that_lost_most_is_named_with_the_remedy() {
        let reports = [report(1, "eth0", 1), report(2, "eth0", 3), report(3, "eth1", 9)];
        let finding = judge(&reports, "eth0");
        assert_eq!(finding.state, State::Note);
        assert!(finding.what.contains("3 times") && finding.what.contains("process 2"));
        let repair = finding.repair.expect("a remedy");
        assert_eq!(repair, "sudo ethtool -K eth0 tx-udp-segmentation off");
    }

    #[test]
    fn without_losses_or_devices_all_is_well() {
        for reports in [vec![], vec![report(1, "eth0", 0)], vec![report(1, "eth1", 5)]] {
            assert_eq!(judge(&reports, "eth0").state, State::Ok);
        }
    }
}
