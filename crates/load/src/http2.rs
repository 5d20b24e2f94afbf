//! Exchanges requests and responses over HTTP/2: each request is a stream of a connection that clients share.

use super::check::{ResponseChecker, ResponseVerdict};
use super::client::Client;
use super::client_deadline::{ClientSignal, ClientStop};
use super::clock::duration_nanos;
use super::http2_connection::{OpenConnection, SharedConnection};
use super::record::{RequestEnd, RingIndex};
use super::request::DrawnRequest;
use super::response::ResponseObserver as _;
use http_body_util::BodyExt as _;
use provoke_model::{RequestPhase, RequestResult};

impl Client {
    /// Returns the shared connection; opens a new one if it has ended.
    pub(super) async fn open_connection(
        &mut self,
        connection: &SharedConnection,
    ) -> Result<OpenConnection, RequestResult> {
        let slot = self.slot.clone();
        let limit = duration_nanos(self.worker.shared.phase.connect_limit);
        let deadline_nanos = self.worker.shared.clock.nanos_now().saturating_add(limit);
        slot.set_deadline(deadline_nanos);
        let mut open_guard = match slot.unless_stopped(connection.0.lock()).await {
            Ok(held) => held,
            Err(ClientSignal::Late) => return Err(RequestResult::Timeout(RequestPhase::Connect)),
            Err(ClientSignal::Stop) => return Err(self.stopped_result()),
        };
        if let Some(shared) = open_guard.as_ref().filter(|shared| shared.is_usable()) {
            return Ok(shared.clone());
        }
        *open_guard = None;
        let stream = self.connect_stream().await?;
        slot.set_deadline(deadline_nanos);
        let opened = slot.unless_stopped(OpenConnection::open(stream)).await;
        slot.set_deadline(0);
        let shared = match opened {
            Ok(Ok(shared)) => shared,
            Ok(Err(result)) => return Err(result),
            Err(ClientSignal::Late) => return Err(RequestResult::Timeout(RequestPhase::Connect)),
            Err(ClientSignal::Stop) => return Err(self.stopped_result()),
        };
        *open_guard = Some(shared.clone());
        Ok(shared)
    }

    /// Sends a request as a stream.
    pub(super) async fn exchange_as_stream(
        &mut self,
        connection: &SharedConnection,
        choice: &DrawnRequest,
        index: RingIndex,
    ) -> RequestEnd {
        let worker = self.worker.clone();
        let limit = duration_nanos(worker.shared.phase.request_limit);
        let mut is_retry = false;
        loop {
            let mut shared = match self.open_connection(connection).await {
                Ok(shared) => shared,
                Err(result) => return self.make_end(result, RequestPhase::Connect, 0, true, false),
            };
            let fresh = shared.fresh.replace(false);
            self.slot.set_deadline(self.now.saturating_add(limit));
            let (went, phase, bytes) = self.request_stream(&mut shared, choice, fresh).await;
            self.slot.set_deadline(0);
            let result = match went {
                Ok(verdict) => {
                    let result = verdict.into_result();
                    return self.make_end(result, RequestPhase::Body, bytes, fresh, true);
                }
                Err(Http2Error::Refused(_)) if !is_retry && worker.stop.get() == ClientStop::No => {
                    is_retry = true;
                    shared.fate.mark_spent();
                    let now = worker.shared.clock.nanos_now();
                    worker.record.borrow_mut().note_resent(index, now);
                    continue;
                }
                Err(Http2Error::Refused(result) | Http2Error::Failed(result)) => result,
                Err(Http2Error::Stopped(ClientSignal::Late)) => RequestResult::Timeout(phase),
                Err(Http2Error::Stopped(ClientSignal::Stop)) => self.stopped_result(),
            };
            return self.make_end(result, phase, bytes, fresh, false);
        }
    }

    async fn request_stream(
        &mut self,
        shared: &mut OpenConnection,
        choice: &DrawnRequest,
        fresh: bool,
    ) -> (Result<ResponseVerdict, Http2Error>, RequestPhase, u64) {
        let worker = self.worker.clone();
        let requests = &worker.shared.requests;
        let expected = &requests.kinds[choice.kind].expected;
        self.facts.begin_answer(expected);
        let request = requests.http2_request(&worker.shared.target, choice);
        let answer = match self
            .slot
            .unless_stopped(shared.sender.send_request(request))
            .await
        {
            Ok(Ok(answer)) => answer,
            // The request was not sent, because the connection was being closed.
            Ok(Err(error)) if error.is_canceled() && !shared.fate.is_known() => {
                let result = RequestResult::ClosedEarly(RequestPhase::Write);
                return (Err(Http2Error::Refused(result)), RequestPhase::Write, 0);
            }
            // A server may close a connection at any time. It is not always known whether it saw
            // the request before.
            Ok(Err(error)) if !fresh && shared.fate.is_ordinary(&error) => {
                let result = shared.fate.classify_end(&error, RequestPhase::Head);
                return (Err(Http2Error::Refused(result)), RequestPhase::Head, 0);
            }
            Ok(Err(error)) => {
                let result = shared.fate.classify_end(&error, RequestPhase::Head);
                return (Err(Http2Error::Failed(result)), RequestPhase::Head, 0);
            }
            Err(client_stop) => {
                return (Err(Http2Error::Stopped(client_stop)), RequestPhase::Head, 0);
            }
        };
        worker.alive.set(true);
        let mut checking = ResponseChecker {
            expected,
            facts: &mut self.facts,
        };
        let status = answer.status().as_u16();
        if expected.has_headers() {
            let headers: Vec<httparse::Header<'_>> = answer
                .headers()
                .iter()
                .map(|(name, value)| httparse::Header {
                    name: name.as_str(),
                    value: value.as_bytes(),
                })
                .collect();
            checking.on_head(status, &headers);
        } else {
            checking.on_head(status, &[]);
        }
        // The size of the headers in HTTP/1.1: names, values and separators.
        let lines = answer
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 4);
        let mut bytes = lines.sum::<usize>() as u64;
        let mut body = answer.into_body();
        loop {
            match self.slot.unless_stopped(body.frame()).await {
                Ok(None) => break,
                Ok(Some(Ok(frame))) => {
                    worker.alive.set(true);
                    if let Some(data) = frame.data_ref() {
                        bytes += data.len() as u64;
                        let mut checking = ResponseChecker {
                            expected,
                            facts: &mut self.facts,
                        };
                        checking.on_body(data);
                    }
                }
                Ok(Some(Err(error))) => {
                    let result = shared.fate.classify_end(&error, RequestPhase::Body);
                    return (Err(Http2Error::Failed(result)), RequestPhase::Body, bytes);
                }
                Err(client_stop) => {
                    return (
                        Err(Http2Error::Stopped(client_stop)),
                        RequestPhase::Body,
                        bytes,
                    );
                }
            }
        }
        (
            Ok(self.facts.judge_answer(expected)),
            RequestPhase::Body,
            bytes,
        )
    }
}

/// Reason for a missing response.
enum Http2Error {
    /// The request was not sent, or its connection was about to end. Contains the result of the
    /// request if it is not sent again.
    Refused(RequestResult),
    Failed(RequestResult),
    Stopped(ClientSignal),
}
