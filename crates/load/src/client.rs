//! Client of a load: its connection with its time limit, and its random numbers.

use super::check::ResponseFacts;
use super::client_deadline::{ClientChannel, ClientSignal, ClientStop};
use super::clock::duration_nanos;
use super::connect::ConnectionStream;
use super::http2_connection::SharedConnection;
use super::record::RequestEnd;
use super::request::RequestDraws;
use super::response::ResponseReader;
use super::worker::Worker;
use provoke_model::{RequestPhase, RequestResult};
use std::rc::Rc;
use std::time::Duration;

/// A client. `session` runs it; `http1` and `http2` exchange its requests.
pub(super) struct Client {
    pub(super) worker: Rc<Worker>,
    pub(super) slot: Rc<ClientChannel>,
    pub(super) id: u32,
    pub(super) draws: RequestDraws,
    /// Last reading of the clock: the next request begins when this one ends.
    pub(super) now: u64,
    pub(super) connection: Option<KeptConnection>,
    pub(super) out: Vec<u8>,
    pub(super) reader: ResponseReader,
    pub(super) facts: ResponseFacts,
    /// The last connection was refused.
    pub(super) refused: bool,
    /// Connection of several clients, with HTTP/2.
    pub(super) shared_connection: Option<Rc<SharedConnection>>,
}

/// HTTP/1.1 connection that is kept for the next request.
pub(super) struct KeptConnection {
    pub(super) stream: ConnectionStream,
    /// Requests that used this connection.
    pub(super) uses: u32,
}

impl Client {
    pub(super) fn new(
        worker: Rc<Worker>,
        slot: Rc<ClientChannel>,
        id: u32,
        shared_connection: Option<Rc<SharedConnection>>,
    ) -> Self {
        let phase = &worker.shared.phase;
        let draws = RequestDraws::new(&worker.shared.requests, phase.seed, id, phase.clients);
        Self {
            slot,
            id,
            draws,
            now: 0,
            connection: None,
            out: Vec::new(),
            reader: ResponseReader::new(),
            facts: ResponseFacts::default(),
            refused: false,
            shared_connection,
            worker,
        }
    }

    /// Sleeps, unless the client is stopped.
    pub(super) async fn rest_for(&mut self, time: Duration) -> Result<(), ClientSignal> {
        let rested = self.slot.unless_stopped(tokio::time::sleep(time)).await;
        self.now = self.worker.shared.clock.nanos_now();
        rested
    }

    /// Opens a connection.
    pub(super) async fn connect_stream(&mut self) -> Result<ConnectionStream, RequestResult> {
        let shared = &self.worker.shared;
        let limit = duration_nanos(shared.phase.connect_limit);
        self.slot
            .set_deadline(shared.clock.nanos_now().saturating_add(limit));
        let connected = self
            .slot
            .unless_stopped(shared.dialer.connect_target())
            .await;
        self.slot.set_deadline(0);
        match connected {
            Ok(Ok(stream)) => {
                self.worker.record.borrow_mut().connections += 1;
                Ok(stream)
            }
            Ok(Err(error)) => Err(error.into_ended()),
            Err(ClientSignal::Late) => Err(RequestResult::Timeout(RequestPhase::Connect)),
            Err(ClientSignal::Stop) => Err(self.stopped_result()),
        }
    }

    /// Returns the result of a request that is ended because all clients stop.
    pub(super) fn stopped_result(&self) -> RequestResult {
        match self.worker.stop.get() {
            ClientStop::Halted => RequestResult::Cancelled,
            _ => RequestResult::Died,
        }
    }

    /// Returns the end of a request, at this moment.
    pub(super) fn make_end(
        &self,
        result: RequestResult,
        phase: RequestPhase,
        bytes: u64,
        fresh: bool,
        is_complete: bool,
    ) -> RequestEnd {
        RequestEnd {
            result,
            done: self.worker.shared.clock.nanos_now(),
            bytes,
            status: if bytes > 0 { self.facts.status } else { 0 },
            part: phase,
            fresh,
            whole: is_complete,
        }
    }
}
