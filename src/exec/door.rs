//! Proxy to the container engine that labels every object that a trial creates.
//!
//! There is a socket for each slot. The proxy forwards requests unchanged, and adds the label to
//! requests that create an object. `docs/design/engine-proxy.md` has the reasons.

use crate::model::{Lane, Trial};
use crate::slot::wire;
use crate::sys::engine::{self, daemon, daemon::Daemon};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, client, server, upgrade};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;

/// Pause after an error of `accept`, for example if there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

type Error = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Proxy sockets of all slots.
pub(super) struct Doors {
    folder: PathBuf,
    engine: Daemon,
    mark: String,
    /// Trial that each slot runs.
    trials: Vec<Arc<AtomicU64>>,
    tasks: Vec<AbortHandle>,
}

/// Proxy socket of one slot.
struct Door {
    engine: Daemon,
    mark: String,
    trial: Arc<AtomicU64>,
    /// File with the names of volumes that a container created implicitly, because such a volume
    /// cannot have a label.
    unlabelled: PathBuf,
}

impl Doors {
    /// Opens the sockets, below this folder if possible.
    pub(super) fn open(lanes: u32, below: &Path) -> io::Result<Self> {
        let engine = Daemon::usual();
        let engine = engine.ok_or_else(|| io::Error::other("DOCKER_HOST is not a socket"))?;
        let mut doors = Self {
            folder: engine::folder_for_sockets(below, ".engine")?,
            engine,
            mark: engine::mark(std::process::id().cast_signed()),
            trials: Vec::new(),
            tasks: Vec::new(),
        };
        for lane in 0..lanes {
            doors.open_one(lane)?;
        }
        Ok(doors)
    }

    fn open_one(&mut self, lane: u32) -> io::Result<()> {
        let socket = daemon::door(self.folder.as_os_str(), lane);
        let listener = UnixListener::bind(&socket)?;
        // The proxy has the same access rights as the engine's socket.
        let like = fs::metadata(self.engine.socket())?;
        let _ = std::os::unix::fs::chown(&socket, Some(like.uid()), Some(like.gid()));
        fs::set_permissions(&socket, Permissions::from_mode(like.mode() & 0o777))?;
        let trial = Arc::new(AtomicU64::default());
        self.trials.push(Arc::clone(&trial));
        let door = Arc::new(Door {
            engine: self.engine.clone(),
            mark: self.mark.clone(),
            trial,
            unlabelled: daemon::unlabelled(self.folder.as_os_str(), lane),
        });
        self.tasks
            .push(tokio::spawn(door.stand(listener)).abort_handle());
        Ok(())
    }

    /// Returns the data about the proxy that a slot needs.
    pub(super) fn known(&self) -> wire::Door {
        wire::Door {
            folder: self.folder.as_os_str().into(),
            engine: self.engine.socket().as_os_str().into(),
            mark: self.mark.clone(),
        }
    }

    /// Attributes new objects of the trial's slot to this trial from now on.
    pub(super) fn enter(&self, trial: &Trial) {
        self.trials[trial.lane.index()].store(trial.id.0, Ordering::Relaxed);
    }

    /// Removes the objects of a trial whose slot was lost.
    pub(super) fn tidy(&self, lane: Lane) {
        let trial = self.trials[lane.index()].load(Ordering::Relaxed);
        let labels = daemon::labels(&self.mark, Some(trial));
        let unlabelled = daemon::unlabelled(self.folder.as_os_str(), lane.0);
        let mut all = self.engine.labelled(&labels);
        all.extend(self.engine.volumes_in(&unlabelled));
        for object in &all {
            self.engine.remove(object);
        }
        // The next trial must not inherit these names.
        let _ = fs::remove_file(unlabelled);
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Door {
    /// Accepts connections, and serves each in a task.
    async fn stand(self: Arc<Self>, listener: UnixListener) {
        loop {
            let Ok((line, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let door = Arc::clone(&self);
            let pass = service_fn(move |request| Arc::clone(&door).pass(request));
            let served = server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(line), pass)
                .with_upgrades();
            tokio::spawn(served);
        }
    }

    async fn pass(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let passed = if makes(&request, "containers") {
            self.container(request).await
        } else if makes(&request, "volumes") || makes(&request, "networks") {
            self.marked(request).await
        } else {
            self.ask(request.map(BodyExt::boxed_unsync)).await
        };
        Ok(passed.unwrap_or_else(|error| {
            let words = json!({ "message": format!("the engine does not respond: {error}") });
            let mut response = Response::new(whole(words.to_string()));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }))
    }

    /// Forwards a request, and any data after an upgrade of the connection.
    async fn ask(&self, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        let line = UnixStream::connect(self.engine.socket()).await?;
        let (mut sender, connection) =
            client::conn::http1::handshake::<_, Body>(TokioIo::new(line)).await?;
        tokio::spawn(connection.with_upgrades());
        let changes = request.headers().contains_key(UPGRADE);
        let client = changes.then(|| upgrade::on(&mut request));
        let mut response = sender.send_request(request).await?;
        if let Some(client) = client
            && response.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            let engine = upgrade::on(&mut response);
            tokio::spawn(async move {
                if let (Ok(client), Ok(engine)) = (client.await, engine.await) {
                    let (mut client, mut engine) = (TokioIo::new(client), TokioIo::new(engine));
                    // Both sides see the end of the connection.
                    let _ = copy_bidirectional(&mut client, &mut engine).await;
                }
            });
        }
        Ok(response.map(BodyExt::boxed_unsync))
    }

    /// Forwards a request that creates an object, with the label added.
    async fn marked(&self, request: Request<Incoming>) -> Result<Response<Body>, Error> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let labels = daemon::labels(&self.mark, Some(self.trial.load(Ordering::Relaxed)));
        head.headers.remove(CONTENT_LENGTH);
        head.headers.remove(TRANSFER_ENCODING);
        let body = labelled(&body, &labels).map_or(body, Bytes::from);
        self.ask(Request::from_parts(head, whole(body))).await
    }

    /// Forwards a request that creates a container, with the label added, and records the
    /// container's volumes.
    async fn container(&self, request: Request<Incoming>) -> Result<Response<Body>, Error> {
        let engine = self.engine.clone();
        let before = tokio::task::spawn_blocking(move || engine.volumes()).await?;
        let (head, body) = self.marked(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Some((before, id)) = before.zip(said["Id"].as_str()) {
            let (engine, id) = (self.engine.clone(), id.to_owned());
            let all = tokio::task::spawn_blocking(move || engine.volumes_of(&id)).await?;
            let before: BTreeSet<String> = before.into_iter().collect();
            let new = all.iter().filter(|name| !before.contains(*name));
            let names = new.fold(String::new(), |names, name| names + name + "\n");
            if !names.is_empty() {
                let file = File::options()
                    .create(true)
                    .append(true)
                    .open(&self.unlabelled);
                file.and_then(|mut file| file.write_all(names.as_bytes()))?;
            }
        }
        Ok(Response::from_parts(head, whole(body)))
    }
}

/// Returns whether the request creates an object of this type, in any version of the protocol.
fn makes(request: &Request<Incoming>, what: &str) -> bool {
    let mut path = request.uri().path().rsplit('/');
    request.method() == Method::POST && path.next() == Some("create") && path.next() == Some(what)
}

/// Adds labels to the description of an object; returns `None` if the description is invalid.
fn labelled(body: &[u8], labels: &[daemon::Label]) -> Option<Vec<u8>> {
    let mut all: Value = serde_json::from_slice(body).ok()?;
    let own = all.as_object_mut()?.entry("Labels").or_insert(Value::Null);
    if own.is_null() {
        *own = json!({});
    }
    let own = own.as_object_mut()?;
    for (name, value) in labels {
        own.insert((*name).to_owned(), value.as_str().into());
    }
    serde_json::to_vec(&all).ok()
}

fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_to_those_that_are_there() {
        let labels = daemon::labels("m", Some(7));
        let with = |body: &str| {
            let body = labelled(body.as_bytes(), &labels)?;
            Some(String::from_utf8(body).unwrap())
        };
        let ours = r#""provoke":"1","provoke.pid":"m","provoke.trial":"7""#;
        assert_eq!(
            with(r#"{"Image":"app","Labels":{"a":"b"}}"#),
            Some(format!(r#"{{"Image":"app","Labels":{{"a":"b",{ours}}}}}"#))
        );
        for body in ["{}", r#"{"Labels":null}"#] {
            assert_eq!(with(body), Some(format!(r#"{{"Labels":{{{ours}}}}}"#)));
        }
        assert_eq!(with("no description"), None);
        assert_eq!(with(r#"{"Labels":["a"]}"#), None);
    }
}
