//! What the small steps of a packet cost, each beside what it cannot be faster than, or its slow twin.
//!
//! `cargo bench --package uroce-tests --bench small`, and a name behind `--` for one of them.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use uroce_memory::{Access, MemLimits, MemTable, Region, Requirer, Sge};
use uroce_wire::{
    Bth, Flow, FlowIcrc, HeaderWriter, Opcode, Packet, Psn, Qpn, Reth, icrc, icrc_bitwise, recover,
};

const SIZES: [usize; 3] = [64, 1024, 4096];

fn flow() -> Flow {
    let [src, dst] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
    Flow { src, dst, src_port: 0xc000, dst_port: 4791 }
}

/// A WRITE ONLY with so many bytes of payload, BTH to ICRC.
fn write_only(payload: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; 12 + 16 + payload + 4];
    let mut writer = HeaderWriter::new(&mut bytes);
    let bth = Bth::new(Opcode::RC_WRITE_ONLY, Qpn::new(17), Psn::new(100));
    let reth = Reth { va: 0x1000, rkey: 0x1234_5678, length: payload as u32 };
    writer.put(&bth).and_then(|()| writer.put(&reth)).expect("room for both");
    let covered = bytes.len() - 4;
    let crc = icrc(&flow(), 7, &bytes[..covered]);
    bytes[covered..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn checksums(c: &mut Criterion) {
    let mut group = c.benchmark_group("icrc");
    for size in SIZES {
        let packet = write_only(size);
        let covered = &packet[..packet.len() - 4];
        group.throughput(Throughput::Bytes(covered.len() as u64));
        let mut known = FlowIcrc::default();
        group.bench_function(BenchmarkId::new("of a flow", size), |b| {
            b.iter(|| known.icrc(&flow(), 7, black_box(covered)));
        });
        group.bench_function(BenchmarkId::new("of any packet", size), |b| {
            b.iter(|| icrc(&flow(), 7, black_box(covered)));
        });
        group.bench_function(BenchmarkId::new("identification solved for", size), |b| {
            b.iter(|| recover(&flow(), &[], black_box(&packet)));
        });
        group.bench_function(BenchmarkId::new("baseline: crc32fast", size), |b| {
            b.iter(|| crc32fast::hash(black_box(covered)));
        });
    }
    let packet = write_only(64);
    group.bench_function(BenchmarkId::new("bit by bit", 64), |b| {
        b.iter(|| icrc_bitwise(&flow(), 7, black_box(&packet[..packet.len() - 4])));
    });
    group.finish();
}

fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("headers");
    let packet = write_only(1024);
    group.bench_function("parse", |b| b.iter(|| Packet::parse(black_box(&packet)).is_ok()));
    let mut room = [0; 64];
    group.bench_function("write", |b| {
        b.iter(|| {
            let mut writer = HeaderWriter::new(black_box(&mut room));
            let bth = Bth::new(Opcode::RC_WRITE_MIDDLE, Qpn::new(17), Psn::new(100));
            writer.put(&bth).is_some()
        });
    });
    group.finish();
}

fn copies(c: &mut Criterion) {
    let mut table = MemTable::new([1; 32], MemLimits::default());
    let pd = table.alloc_pd().expect("the first");
    let region = Region::alloc(1 << 16).expect("memory");
    let va = region.addr();
    let mr =
        table.reg_mr(pd, region, va, Access::LOCAL_WRITE | Access::REMOTE_WRITE).expect("a region");
    let by = Requirer { pd, qpn: 17 };
    let mut group = c.benchmark_group("copies");
    for size in SIZES {
        let (payload, mut out) = (vec![7; size], vec![0; size]);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("check and copy in", size), |b| {
            b.iter(|| {
                let slice = table.check(mr.rkey.0, by, Access::REMOTE_WRITE, va, size as u64);
                slice.map(|slice| slice.copy_in(0, black_box(&payload)))
            });
        });
        let sge = Sge { addr: va, length: size as u32, lkey: mr.lkey };
        group.bench_function(BenchmarkId::new("gather", size), |b| {
            b.iter(|| table.gather(pd, black_box(&[sge]), 0, &mut out));
        });
        group.bench_function(BenchmarkId::new("baseline: copy_from_slice", size), |b| {
            b.iter(|| black_box(&mut out).copy_from_slice(black_box(&payload)));
        });
    }
    group.finish();
}

criterion_group!(benches, checksums, headers, copies);
criterion_main!(benches);
