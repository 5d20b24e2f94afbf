//! Proxy to the container engine that labels every object that a trial creates.
//!
//! There is a socket for each slot. The proxy forwards requests unchanged, and adds the label to
//! requests that create an object. `docs/design/engine-proxy.md` has the reasons.

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, client, server, upgrade};
use hyper_util::rt::TokioIo;
use provoke_model::{SlotId, Trial};
use provoke_slot::wire;
use provoke_sys::engine::{self, daemon, daemon::Daemon};
use provoke_sys::files;
use provoke_sys::held_folder::check_place;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::{self, Permissions};
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

type ProxyError = Box<dyn std::error::Error + Send + Sync>;
type ProxyBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// Proxy sockets of all slots.
pub(super) struct EngineProxies {
    folder: PathBuf,
    engine: Daemon,
    mark: String,
    /// Trial that each slot runs.
    trials: Vec<Arc<AtomicU64>>,
    tasks: Vec<AbortHandle>,
}

/// Proxy socket of one slot.
struct EngineProxy {
    engine: Daemon,
    mark: String,
    trial: Arc<AtomicU64>,
    /// File with the names of volumes that a container created implicitly, because such a volume
    /// cannot have a label.
    unlabelled: PathBuf,
}

impl EngineProxies {
    /// Opens the sockets, below this folder if possible.
    pub(super) fn open_for_slots(slots: u32, folder: &Path) -> io::Result<Self> {
        let engine = Daemon::from_environment()
            .ok_or_else(|| io::Error::other("DOCKER_HOST is not a socket"))?;
        let mut engine_proxies = Self {
            folder: engine::folder_for_sockets(folder, ".engine")?,
            engine,
            mark: engine::process_mark(std::process::id().cast_signed()),
            trials: Vec::new(),
            tasks: Vec::new(),
        };
        for slot in 0..slots {
            engine_proxies.open_one(slot)?;
        }
        Ok(engine_proxies)
    }

    fn open_one(&mut self, slot: u32) -> io::Result<()> {
        let socket = daemon::slot_socket(self.folder.as_os_str(), slot);
        let listener = UnixListener::bind(&socket)?;
        check_place(&socket)?;
        // The proxy has the same access rights as the engine's socket.
        let metadata = fs::metadata(self.engine.socket_path())?;
        let _ = std::os::unix::fs::chown(&socket, Some(metadata.uid()), Some(metadata.gid()));
        fs::set_permissions(&socket, Permissions::from_mode(metadata.mode() & 0o777))?;
        let trial = Arc::new(AtomicU64::default());
        self.trials.push(Arc::clone(&trial));
        let engine_proxy = Arc::new(EngineProxy {
            engine: self.engine.clone(),
            mark: self.mark.clone(),
            trial,
            unlabelled: daemon::unlabelled_file(self.folder.as_os_str(), slot),
        });
        self.tasks
            .push(tokio::spawn(engine_proxy.accept_connections(listener)).abort_handle());
        Ok(())
    }

    /// Returns the data about the proxy that a slot needs.
    pub(super) fn for_slot(&self) -> wire::EngineProxySettings {
        wire::EngineProxySettings {
            folder: self.folder.as_os_str().into(),
            engine: self.engine.socket_path().as_os_str().into(),
            mark: self.mark.clone(),
        }
    }

    /// Attributes new objects of the trial's slot to this trial from now on.
    pub(super) fn enter_trial(&self, trial: &Trial) {
        self.trials[trial.slot.index()].store(trial.id.0, Ordering::Relaxed);
    }

    /// Removes the objects of a trial whose slot was lost.
    pub(super) fn remove_objects_of_slot(&self, slot: SlotId) {
        let trial = self.trials[slot.index()].load(Ordering::Relaxed);
        let labels = daemon::trial_labels(&self.mark, Some(trial));
        let unlabelled = daemon::unlabelled_file(self.folder.as_os_str(), slot.0);
        let mut objects = self.engine.labelled_objects(&labels);
        objects.extend(self.engine.volumes_in(&unlabelled));
        for object in &objects {
            self.engine.remove_object(object);
        }
        // The next trial must not inherit these names.
        let _ = files::remove_file(&unlabelled);
    }
}

impl Drop for EngineProxies {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        let _ = files::remove_tree(&self.folder);
    }
}

impl EngineProxy {
    /// Accepts connections, and serves each in a task.
    async fn accept_connections(self: Arc<Self>, listener: UnixListener) {
        loop {
            let Ok((line, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let engine_proxy = Arc::clone(&self);
            let pass = service_fn(move |request| Arc::clone(&engine_proxy).handle_request(request));
            let served = server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(line), pass)
                .with_upgrades();
            tokio::spawn(served);
        }
    }

    async fn handle_request(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ProxyBody>, Infallible> {
        let passed = if is_create_request(&request, "containers") {
            self.create_container(request).await
        } else if is_create_request(&request, "volumes") || is_create_request(&request, "networks")
        {
            self.forward_labelled(request).await
        } else {
            self.forward_request(request.map(BodyExt::boxed_unsync))
                .await
        };
        Ok(passed.unwrap_or_else(|error| {
            let words = json!({ "message": format!("the engine does not respond: {error}") });
            let mut response = Response::new(full_body(words.to_string()));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }))
    }

    /// Forwards a request, and any data after an upgrade of the connection.
    async fn forward_request(
        &self,
        mut request: Request<ProxyBody>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        let line = UnixStream::connect(self.engine.socket_path()).await?;
        let (mut sender, connection) =
            client::conn::http1::handshake::<_, ProxyBody>(TokioIo::new(line)).await?;
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
    async fn forward_labelled(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let labels = daemon::trial_labels(&self.mark, Some(self.trial.load(Ordering::Relaxed)));
        head.headers.remove(CONTENT_LENGTH);
        head.headers.remove(TRANSFER_ENCODING);
        let body = with_labels(&body, &labels).map_or(body, Bytes::from);
        self.forward_request(Request::from_parts(head, full_body(body)))
            .await
    }

    /// Forwards a request that creates a container, with the label added, and records the
    /// container's volumes.
    async fn create_container(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        let engine = self.engine.clone();
        let volumes_before = tokio::task::spawn_blocking(move || engine.volume_names()).await?;
        let (head, body) = self.forward_labelled(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let response: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Some((names_before, id)) = volumes_before.zip(response["Id"].as_str()) {
            let (engine, id) = (self.engine.clone(), id.to_owned());
            let volumes = tokio::task::spawn_blocking(move || engine.volumes_of(&id)).await?;
            let before: BTreeSet<String> = names_before.into_iter().collect();
            let new_volumes = volumes.iter().filter(|name| !before.contains(*name));
            let names = new_volumes.fold(String::new(), |names, name| names + name + "\n");
            if !names.is_empty() {
                let file = files::append_to_itself(&self.unlabelled);
                file.and_then(|mut file| file.write_all(names.as_bytes()))?;
            }
        }
        Ok(Response::from_parts(head, full_body(body)))
    }
}

/// Returns whether the request creates an object of this type, in any version of the protocol.
fn is_create_request(request: &Request<Incoming>, kind: &str) -> bool {
    let mut path = request.uri().path().rsplit('/');
    request.method() == Method::POST && path.next() == Some("create") && path.next() == Some(kind)
}

/// Adds labels to the description of an object; returns `None` if the description is invalid.
fn with_labels(body: &[u8], labels: &[daemon::Label]) -> Option<Vec<u8>> {
    let mut body_value: Value = serde_json::from_slice(body).ok()?;
    let own = body_value
        .as_object_mut()?
        .entry("Labels")
        .or_insert(Value::Null);
    if own.is_null() {
        *own = json!({});
    }
    let own = own.as_object_mut()?;
    for (name, value) in labels {
        own.insert((*name).to_owned(), value.as_str().into());
    }
    serde_json::to_vec(&body_value).ok()
}

fn full_body(body: impl Into<Bytes>) -> ProxyBody {
    Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_to_the_existing_labels() {
        let labels = daemon::trial_labels("m", Some(7));
        let with = |body: &str| {
            let body = with_labels(body.as_bytes(), &labels)?;
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
