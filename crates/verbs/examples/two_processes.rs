//! Two processes: they tell each other who they are over TCP, and one writes into the memory of the other.
//!
//! Without arguments both run here. On two hosts: `two_processes OWN_ADDRESS` at the server first, then
//! `two_processes OWN_ADDRESS SERVER_ADDRESS:18600` at the client.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use uroce_verbs::*;
const GREETING: &[u8] = b"written by another process";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [own] => serve(own.parse()?, &TcpListener::bind((own.as_str(), 18600))?),
        [own, server] => call(own.parse()?, TcpStream::connect(server)?),
        _ => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let server = listener.local_addr()?.to_string();
            let mut other =
                Command::new(std::env::current_exe()?).args(["127.0.0.2", &server]).spawn()?;
            serve([127, 0, 0, 1].into(), &listener)?;
            if other.wait()?.success() { Ok(()) } else { Err("the other process failed".into()) }
        }
    }
}

fn serve(own: IpAddr, listener: &TcpListener) -> Result<(), Box<dyn Error>> {
    let pd = Context::builder().address(own).open()?.alloc_pd()?;
    let cq = pd.context().create_cq(16)?;
    let target = pd.alloc_mr(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
    let (mut stream, _) = listener.accept()?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    qp.connect(&lines.next().ok_or("no endpoint")??.parse()?, &ConnectOptions::default())?;
    // The client may send as soon as it has this: the queue pair can receive already.
    writeln!(stream, "{}\n{}", qp.endpoint(), target.remote())?;
    lines.next().ok_or("the client did not finish")??;
    let mut seen = [0; GREETING.len()];
    target.read(0, &mut seen)?;
    println!("server: found {:?}", String::from_utf8_lossy(&seen));
    if seen == GREETING { Ok(()) } else { Err("these are not the client's bytes".into()) }
}

fn call(own: IpAddr, mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
    let pd = Context::builder().address(own).open()?.alloc_pd()?;
    let cq = pd.context().create_cq(16)?;
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
    writeln!(stream, "{}", qp.endpoint())?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    qp.connect(&lines.next().ok_or("no endpoint")??.parse()?, &ConnectOptions::default())?;
    let remote: RemoteSlice = lines.next().ok_or("no memory")??.parse()?;
    qp.post_send(&[SendWr::write(1, &[], remote).inline(GREETING).signaled()])?;
    cq.wait_one(Duration::from_secs(5))?.result()?;
    println!("client: the write is complete");
    Ok(writeln!(stream, "done")?)
}
