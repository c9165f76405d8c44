//! The rows of perftest, character for character: scripts parse them.

use crate::latency::Latencies;
use crate::peak::Bandwidth;

/// 87 dashes.
pub const RULE: &str =
    "---------------------------------------------------------------------------------------\n";

/// Columns of a latency test with a number of iterations.
pub const LATENCY_HEADER: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  \
     t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n";

/// Columns of a latency test that ran for a time.
pub const TIMED_LATENCY_HEADER: &str =
    " #bytes        #iterations       t_avg[usec]    tps average\n";

/// 10^9 bits per second in MiB/s.
const GBIT: f64 = 1_048_576.0 * 8.0 / 1e9;

/// Columns of a bandwidth test.
pub fn bandwidth_header(gbits: bool) -> String {
    let unit = if gbits { "Gb/sec" } else { "MB/sec" };
    format!(" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n")
}

/// One size of a bandwidth test. Bandwidth in MiB/s, or in Gb/s.
pub fn bandwidth_row(row: &Bandwidth, gbits: bool) -> String {
    let factor = if gbits { GBIT } else { 1.0 };
    format!(
        " {:<7}    {:<10}       {:<7.2}            {:<7.2}\t\t   {:<7.6}\n",
        row.size,
        row.iterations,
        row.peak * factor,
        row.average * factor,
        row.rate
    )
}

/// The figures of a latency row, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyFigures {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The median.
    pub typical: f64,
    /// The mean.
    pub average: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// 99 % are not above.
    pub p99: f64,
    /// 99.9 % are not above.
    pub p999: f64,
}

impl From<&Latencies> for LatencyFigures {
    fn from(all: &Latencies) -> Self {
        LatencyFigures {
            min: all.min(),
            max: all.max(),
            typical: all.percentile(50.0),
            average: all.average(),
            deviation: all.deviation(),
            p99: all.percentile(99.0),
            p999: all.percentile(99.9),
        }
    }
}

/// One size of a latency test. `iterations` counts one more than there are samples: a sample is the
/// time between two posts.
pub fn latency_row(size: u64, iterations: u64, row: &LatencyFigures) -> String {
    let LatencyFigures { min, max, typical, average, deviation, p99, p999 } = row;
    let left =
        format!(" {size:<7} {iterations:<10} {min:<7.2}        {max:<7.2}      {typical:<7.2}");
    let right = format!("{average:<7.2}     \t{deviation:<7.2}\t\t{p99:<7.2} \t\t{p999:<7.2}\n");
    format!("{left}  \t       {right}")
}

/// One size of a latency test that ran for a time.
pub fn timed_latency_row(size: u64, iterations: u64, average: f64, per_second: f64) -> String {
    format!(" {size:<7}       {iterations:<10}       {average:<7.2}        {per_second:<7.2}\n")
}

/// Each sample on its line, as `-U` and `-H` print them.
pub fn sample_lines(samples: &[f64]) -> String {
    let lines = samples.iter().enumerate();
    let lines = lines.map(|(i, us)| format!("{}, {us:.3}\n", i + 1));
    std::iter::once("#, usec\n".to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_row_as_perftest_printed_it() {
        let row =
            Bandwidth { size: 65536, iterations: 10, peak: 26.24, average: 23.63, rate: 0.000378 };
        assert_eq!(
            bandwidth_row(&row, false),
            " 65536      10               26.24              23.63  \t\t   0.000378\n"
        );
        assert!(bandwidth_row(&row, true).contains(" 0.22  "));
    }

    #[test]
    fn headers_as_perftest_printed_them() {
        assert_eq!(
            bandwidth_header(false),
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        );
        assert_eq!(
            LATENCY_HEADER,
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
        );
        assert_eq!(RULE.len(), 88);
    }

    #[test]
    fn a_latency_row_as_perftest_printed_it() {
        let row = LatencyFigures {
            min: 101.08,
            max: 188.32,
            typical: 104.42,
            average: 105.69,
            deviation: 4.77,
            p99: 188.32,
            p999: 188.32,
        };
        assert_eq!(
            latency_row(2, 8, &row),
            " 2       8          101.08         188.32       104.42   \t       105.69      \t4.77   \t\t188.32  \t\t188.32 \n"
        );
    }

    #[test]
    fn a_timed_latency_row_as_perftest_printed_it() {
        assert_eq!(
            timed_latency_row(2, 30451, 29.91, 16714.56),
            " 2             30451            29.91          16714.56\n"
        );
    }

    #[test]
    fn samples_one_to_a_line() {
        assert_eq!(sample_lines(&[721.1244, 3.0]), "#, usec\n1, 721.124\n2, 3.000\n");
    }
}
