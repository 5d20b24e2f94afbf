//! What a core file says: who died, where, of what, and how it got there.

pub mod fault;
mod instruction;
mod models;
pub mod processor;
pub mod scene;

use crate::model::Autopsy;
use std::path::Path;

#[derive(Default)]
pub struct Settings {}
pub struct Examiner {}
pub struct Owner {
    pub pid: i32,
    pub ppid: i32,
    pub session: i32,
}
impl Examiner {
    pub fn new(_: Settings) -> Self {
        Self {}
    }
    pub fn examine(&mut self, _: &Path) -> Result<Autopsy, String> {
        Err(String::new())
    }
}
pub fn owner(_: &Path) -> Result<Owner, String> {
    Err(String::new())
}
