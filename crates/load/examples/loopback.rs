//! Puts two seconds of load on a small server in this process: `loopback [CLIENTS]`.

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_load::load_running_service;
use provoke_model::{LoadLimit, LoadPlan};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use std::{env, process, thread};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clients = match env::args().nth(1) {
        Some(number) => number.parse()?,
        None => 16,
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let base = format!("http://{}", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(&stream));
        }
    });

    let load = LoadPlan::from_url(&base, clients, LoadLimit::Time(Duration::from_secs(2)));
    let folder = env::temp_dir().join(format!("loopback-{}", process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let seen = runtime.block_on(load_running_service(load, 1, folder.clone()))?;

    let per_second = 1000 * u128::from(seen.served) / seen.elapsed.as_millis().max(1);
    println!(
        "{} responses in {:.2?}: {per_second} per second",
        seen.served, seen.elapsed
    );
    for share in [0.5, 0.9, 0.99, 0.999] {
        let time = seen.latency.time_quantile(share).unwrap_or_default();
        println!("{:>5} %  within {time:?}", share * 100.0);
    }
    for (result, count) in &seen.ends {
        println!("{count} requests: {result}");
    }
    if let Some(trouble) = seen.trouble {
        println!("{trouble}");
    }
    // Without failed requests there is no evidence, and so no folder.
    if folder.exists() {
        println!("evidence of failed requests: {}", folder.to_string_lossy());
    }
    Ok(())
}

/// Answers every request on a connection.
fn serve(mut stream: &TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next().transpose()? {
        if line.is_empty() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")?;
        }
    }
    Ok(())
}
