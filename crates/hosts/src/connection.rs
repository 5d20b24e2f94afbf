//! Connection to a worker, and the process that carries it.

use super::awaited_replies::clip_text;
use super::wire::{WorkerGreeting, WorkerReply, WorkerTask, longest_line};
use super::{HostError, SILENCE};
use provoke_model::parse_untrusted_json;
use provoke_sys::signals;
use provoke_sys::tool::kill_group;
use rustix::process::Signal;
use serde::Serialize;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::process::Child;
use std::sync::{Arc, Mutex as Register};
use std::time::{Duration, Instant};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;
use tokio::task::{JoinHandle, consume_budget};
use tokio::time::timeout;

/// Time in which a worker checks the plan.
const GREET_WITHIN: Duration = Duration::from_secs(60);
/// Time in which the process ends after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Kept bytes of the messages of the process, and the longest line of text before the worker starts.
const MESSAGES: usize = 4096;

/// A connection to a worker. When it is dropped, the process that carries it is killed; the worker then ends.
pub(super) struct WorkerConnection {
    pub(super) receiver: WorkerReceiver,
    writer: UnixStream,
}

/// The half of a connection that receives.
pub(super) struct WorkerReceiver {
    pub(super) host: String,
    reader: BufReader<UnixStream>,
    messages: MessageTail,
    unread: Vec<u8>,
    _carrier: CarrierProcess,
}

struct CarrierProcess(Child);

impl Drop for CarrierProcess {
    /// Ends the process with SIGTERM, because srun ends its job then, and at last its group.
    fn drop(&mut self) {
        let _ = signals::send_signal(self.0.id().cast_signed(), Signal::TERM);
        let deadline = Instant::now() + END_WITHIN;
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                kill_group(&self.0);
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl WorkerConnection {
    pub(super) fn new(
        host: &str,
        child: Child,
        stream: StdStream,
        messages: StdStream,
    ) -> io::Result<Self> {
        let carrier = CarrierProcess(child);
        let to_async = |stream: StdStream| {
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        };
        Ok(Self {
            writer: to_async(stream.try_clone()?)?,
            receiver: WorkerReceiver {
                host: host.to_owned(),
                reader: BufReader::new(to_async(stream)?),
                messages: MessageTail::read(to_async(messages)?),
                unread: Vec::new(),
                _carrier: carrier,
            },
        })
    }

    /// Returns the next line of text.
    pub(super) async fn read_text(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        let mut reader = (&mut self.receiver.reader).take(MESSAGES as u64);
        if reader.read_until(b'\n', &mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await
    }

    /// Gives the plan to the worker, and waits until it is ready.
    pub(super) async fn begin(
        self,
        task: &WorkerTask,
    ) -> Result<(WorkerReceiver, UnixStream, WorkerGreeting), HostError> {
        let Self {
            mut receiver,
            mut writer,
        } = self;
        let host = receiver.host.clone();
        let fail = |reason: &str| HostError::new(&host, reason);
        let greeting = timeout(GREET_WITHIN, async {
            send_line(&mut writer, task).await?;
            loop {
                let (reader, unread) = (&mut receiver.reader, &mut receiver.unread);
                match next_reply(reader, unread, GREET_WITHIN, |_| {}).await? {
                    WorkerReply::Alive => {}
                    reply => return Ok::<_, io::Error>(reply),
                }
            }
        });
        let greeting = match greeting.await {
            Err(_) => return Err(fail("its worker does not respond")),
            Ok(Err(error)) => {
                return Err(match receiver.last_message().await {
                    Some(message) => fail(&message),
                    None => fail(&format!("its worker ended: {error}")).with_hint(
                        "the command that reaches the host must forward stdin and stdout",
                    ),
                });
            }
            Ok(Ok(WorkerReply::Ready(greeting))) => *greeting,
            Ok(Ok(WorkerReply::Refused(mut reason, mut hint))) => {
                clip_text(&mut reason);
                hint.as_mut().map(clip_text);
                let error = fail(&reason);
                return Err(match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                });
            }
            Ok(Ok(_)) => return Err(fail("its worker sent an unexpected message")),
        };
        Ok((receiver, writer, greeting))
    }
}

impl WorkerReceiver {
    /// Returns the next message, and reports the number of bytes whenever some arrive.
    ///
    /// The future can be dropped: data that was read is kept.
    pub(super) async fn next_reply(
        &mut self,
        report_bytes: impl FnMut(usize),
    ) -> io::Result<WorkerReply> {
        next_reply(&mut self.reader, &mut self.unread, SILENCE, report_bytes).await
    }

    /// Returns the next bytes of a file, at most `max`.
    pub(super) async fn read_bytes(&mut self, max: u64) -> io::Result<&[u8]> {
        let available = wait_for_bytes(&mut self.reader, SILENCE).await?;
        let length = usize::try_from(max).map_or(available.len(), |max| max.min(available.len()));
        self.unread.clear();
        self.unread.extend_from_slice(&available[..length]);
        self.reader.consume(length);
        Ok(&self.unread)
    }

    /// Forgets the bytes of the last file.
    pub(super) fn end_file(&mut self) {
        self.unread.clear();
    }

    /// Returns the last line that the process wrote to stderr.
    pub(super) async fn last_message(&mut self) -> Option<String> {
        self.messages.last_line().await
    }
}

/// Returns the next message. `unread` has what arrived of it before. Fails if nothing arrives for some time.
async fn next_reply(
    reader: &mut (impl AsyncBufRead + Unpin),
    unread: &mut Vec<u8>,
    silence: Duration,
    mut report_bytes: impl FnMut(usize),
) -> io::Result<WorkerReply> {
    loop {
        // Messages that arrive faster than they are read leave time for signals and other hosts.
        consume_budget().await;
        let available = wait_for_bytes(reader, silence).await?;
        let end = available.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(available.len(), |end| end + 1);
        let total = unread.len() + length;
        unread.extend_from_slice(&available[..length]);
        if total > longest_line(unread) {
            return Err(io::Error::other("it sent too long a message"));
        }
        reader.consume(length);
        report_bytes(length);
        if let Some(line) = unread.strip_suffix(b"\n") {
            let reply = parse_untrusted_json(line).map_err(|error| {
                tracing::debug!(target: "host", %error, "cannot parse a message");
                io::Error::other("it sent something that is not a message")
            })?;
            unread.clear();
            return Ok(reply);
        }
    }
}

/// Returns bytes that have arrived, at least one.
async fn wait_for_bytes(
    reader: &mut (impl AsyncBufRead + Unpin),
    silence: Duration,
) -> io::Result<&[u8]> {
    let Ok(available) = timeout(silence, reader.fill_buf()).await else {
        let message = format!("no data for {} s", silence.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
    };
    match available? {
        [] => Err(io::ErrorKind::UnexpectedEof.into()),
        available => Ok(available),
    }
}

/// Sends a message.
pub(super) async fn send_line(
    writer: &mut UnixStream,
    message: &(impl Serialize + Sync),
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    writer.write_all(&line).await
}

/// The end of what a process writes to stderr.
struct MessageTail {
    tail: Arc<Register<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl MessageTail {
    /// Reads until the process ends.
    fn read(mut messages: UnixStream) -> Self {
        let tail = Arc::new(Register::new(Vec::new()));
        let filled = Arc::clone(&tail);
        let task = tokio::spawn(async move {
            let mut bytes = vec![0; MESSAGES];
            while let Ok(length @ 1..) = messages.read(&mut bytes).await {
                let mut text = filled.lock().expect("no panic");
                text.extend_from_slice(&bytes[..length]);
                let excess = text.len().saturating_sub(MESSAGES);
                text.drain(..excess);
            }
        });
        Self { tail, task }
    }

    /// Returns the last line, after a short wait for the end.
    async fn last_line(&mut self) -> Option<String> {
        let _ = timeout(Duration::from_secs(1), &mut self.task).await;
        let text = String::from_utf8_lossy(&self.tail.lock().expect("no panic")).into_owned();
        let line = text.lines().rfind(|line| !line.trim().is_empty())?;
        Some(line.trim().to_owned())
    }
}

impl Drop for MessageTail {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::MAX_SHORT_LINE;
    use super::*;
    use provoke_model::{Observation, SlotId, TrialId};
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::{AsyncRead, ReadBuf, duplex};

    /// Reads a message that another side sends in pieces, with a pause after each.
    async fn receive_in_pieces(
        message: &WorkerReply,
        pieces: usize,
        pause: Duration,
    ) -> (io::Result<WorkerReply>, usize) {
        let (mut sender, receiver) = duplex(1 << 16);
        let mut line = serde_json::to_vec(message).unwrap();
        line.push(b'\n');
        let sending = async {
            for piece in line.chunks(line.len().div_ceil(pieces)) {
                sender.write_all(piece).await.unwrap();
                tokio::time::sleep(pause).await;
            }
            std::future::pending().await
        };
        let mut arrived = 0;
        let mut reader = BufReader::new(receiver);
        let mut unread = Vec::new();
        let receiving = next_reply(&mut reader, &mut unread, SILENCE, |bytes| arrived += bytes);
        let reply = tokio::select! {
            biased;
            reply = receiving => reply,
            never = sending => never,
        };
        (reply, arrived)
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_may_arrive_slowly() {
        let began = tokio::time::Instant::now();
        let text = "x".repeat(30 << 20);
        let observation = Observation {
            lost: Some(text),
            ..Observation::default()
        };
        let message = WorkerReply::Finished(SlotId(0), TrialId(1), Box::new(observation));
        let pause = Duration::from_secs(9);
        let (reply, arrived) = receive_in_pieces(&message, 100, pause).await;
        let Ok(WorkerReply::Finished(.., observation)) = reply else {
            panic!("no result");
        };
        assert_eq!(observation.lost.map(|text| text.len()), Some(30 << 20));
        assert_eq!(arrived, serde_json::to_vec(&message).unwrap().len() + 1);
        assert_eq!(began.elapsed(), pause * 99);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_data_is_lost() {
        let message = WorkerReply::Complaint("x".to_owned());
        let (reply, arrived) = receive_in_pieces(&message, 2, SILENCE * 2).await;
        assert_eq!(reply.unwrap_err().to_string(), "no data for 10 s");
        assert!(arrived > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_has_a_longest_length() {
        let message = WorkerReply::Complaint("x".repeat(MAX_SHORT_LINE));
        let (reply, _) = receive_in_pieces(&message, 1, Duration::ZERO).await;
        assert_eq!(reply.unwrap_err().to_string(), "it sent too long a message");
    }

    /// A connection on which the same message always arrives.
    struct EndlessMessages;

    impl AsyncRead for EndlessMessages {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            unreachable!("messages are read from the buffer")
        }
    }

    impl AsyncBufRead for EndlessMessages {
        fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
            Poll::Ready(Ok(b"\"alive\"\n"))
        }

        fn consume(self: Pin<&mut Self>, _: usize) {}
    }

    #[tokio::test]
    async fn endless_messages_leave_time_for_other_tasks() {
        let reading = tokio::spawn(async {
            let mut unread = Vec::new();
            while next_reply(&mut EndlessMessages, &mut unread, SILENCE, |_| {})
                .await
                .is_ok()
            {}
        });
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        assert!(!reading.is_finished());
        reading.abort();
    }
}
