//! Stub until the client lands.
use crate::model::{Load, LoadSeen};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
#[derive(Debug, Default)]
pub struct Live {}
impl Live {
    pub fn stage(&self) -> crate::model::Stage {
        crate::model::Stage::Loading
    }
}
pub struct Life {
    pub load: Arc<Load>,
    pub clients: Option<u32>,
    pub seed: u64,
    pub fill: Vec<(&'static str, String)>,
    pub pids: Vec<i32>,
    pub started: Instant,
    pub said: watch::Receiver<bool>,
    pub death: watch::Receiver<Option<Instant>>,
    pub halt: watch::Receiver<bool>,
    pub folder: PathBuf,
    pub live: Arc<Live>,
}
pub async fn drive(_life: Life) -> LoadSeen {
    LoadSeen::default()
}
pub async fn owner(_load: &Load, _fill: &[(&'static str, String)]) -> Option<i32> {
    None
}
pub async fn taken(_load: &Load, _fill: &[(&'static str, String)]) -> Option<String> {
    None
}
