//! Container settings of a scenario.

use super::matrix::MatrixSubstitution;
use super::{Scenario, SearchShape, Variant};
use provoke_model::{Container, Resource, Text};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use std::path::Path;

/// Engines whose command line is supported.
const ENGINES: [&str; 2] = ["docker", "podman"];
/// Options that conflict with the options of provoke, or that have a separate field.
const OURS: [(&str, &str); 11] = [
    ("name", "provoke finds the container by its name"),
    (
        "rm",
        "provoke reads how the container ended, and removes it then",
    ),
    ("detach", "a trial ends when its container ends"),
    ("tty", "output goes to provoke, not to a terminal"),
    ("interactive", "use `stdin`"),
    ("restart", "a trial starts its container once"),
    ("cidfile", "provoke finds the container by its name"),
    ("network", "use `network`"),
    ("volume", "use `mount`"),
    ("mount", "use `mount`"),
    ("ulimit", "use `rlimit`"),
];

impl Scenario {
    /// Returns whether the tags of `image` are the candidates; with another list, the image is that of all candidates.
    pub(super) fn searches_images(&self) -> bool {
        let packages = [
            &self.candidates.git,
            &self.candidates.pip,
            &self.candidates.cargo,
            &self.candidates.apt,
            &self.candidates.npm,
        ];
        let listed = !self.candidates.over.is_empty() || self.candidates.range.is_some();
        let has_source = listed || packages.into_iter().any(Option::is_some);
        self.search_shape() == Some(SearchShape::List)
            && self.program.image.is_some()
            && !has_source
    }

    /// Returns whether a trial of any variant runs in a container.
    pub(super) fn is_contained(&self) -> bool {
        self.program.image.is_some()
            || self
                .outline
                .variants
                .iter()
                .any(|variant| variant.image.is_some())
    }

    /// Returns the container of the main process of a variant.
    pub(super) fn main_container(
        &self,
        variant: &Variant,
        base: &Path,
        filling: &MatrixSubstitution<'_>,
    ) -> Result<Option<Container>, Diagnostic> {
        let Some(image) = variant.image.as_ref().or(self.program.image.as_ref()) else {
            // Another variant may have an image.
            if !self.is_contained() {
                self.refuse_container_settings()?;
            }
            return Ok(None);
        };
        self.check_container_settings()?;
        let image = if self.searches_images() && variant.image.is_none() {
            let name = image.rsplit_once(':').map_or(&**image, |(name, _)| name);
            format!("{name}:{{variant}}").into()
        } else {
            filling.fill_text(image)
        };
        let mounts = self
            .program
            .mount
            .iter()
            .filter(|network| *network != "none")
            .map(|network| volume_argument(&filling.fill_values(network), base));
        // A service uses the host network, so that its clients reach it directly.
        let default_network = if self.is_loaded() { "host" } else { "none" };
        let network = self.program.network.as_deref().unwrap_or(default_network);
        Ok(Some(Container {
            engine: self.program.engine.clone().unwrap_or_default(),
            image,
            mounts: (!self.program.mount.is_empty()).then(|| mounts.collect()),
            enters: self.program.mount.is_empty()
                || self.program.cwd.is_some()
                || variant.cwd.is_some(),
            network: network.to_owned(),
            port: if matches!(network, "host" | "none") {
                None
            } else {
                self.load_port()
            },
            options: self
                .program
                .container
                .iter()
                .map(|engine| filling.fill_text(engine))
                .collect(),
        }))
    }

    /// Refuses settings of a container if no trial runs in one.
    fn refuse_container_settings(&self) -> Result<(), Diagnostic> {
        let given = [
            ("engine", self.program.engine.is_some()),
            ("mount", !self.program.mount.is_empty()),
            ("network", self.program.network.is_some()),
            ("container", !self.program.container.is_empty()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((field, _)) => Err(refuse_at(
                format!("`{field}` needs a container image"),
                &[field],
                "name the image: `image`",
            )),
            None => Ok(()),
        }
    }

    /// Checks the engine, the options that it gets, and the limits that it must support.
    fn check_container_settings(&self) -> Result<(), Diagnostic> {
        if let Some(engine) = self
            .program
            .engine
            .as_ref()
            .filter(|engine| !ENGINES.contains(&&***engine))
        {
            let message = format!("`{engine}` is not a supported container engine");
            return Err(refuse_at(
                message,
                &["engine"],
                "write `docker` or `podman`",
            ));
        }
        for (index, option) in self.program.container.iter().enumerate() {
            let name = option.split('=').next().unwrap_or_default();
            let position = ["container", &index.to_string()];
            if name.is_empty() || name.starts_with('-') {
                let hint = "write NAME=VALUE without dashes, such as memory=1g";
                return Err(refuse_at(
                    format!("`{option}` is not an option"),
                    &position,
                    hint,
                ));
            }
            if let Some((_, reason)) = OURS.iter().find(|(option, _)| *option == name) {
                return Err(refuse_at(
                    format!("provoke sets the option `{name}` itself"),
                    &position,
                    *reason,
                ));
            }
        }
        let limits = provoke_levers::resource_limits(&self.conditions.all);
        let memory = limits.iter().any(|limit| limit.resource == Resource::As);
        if memory {
            let hint = "limit the memory of the container: memory=4g";
            return Err(refuse_at(
                "container engines cannot limit `as`",
                &["rlimit", "as"],
                hint,
            ));
        }
        Ok(())
    }

    /// Returns the port of the target.
    fn load_port(&self) -> Option<Text> {
        let before = self
            .again
            .plan
            .as_ref()
            .map(|load| load.target.base.as_str());
        let url = self
            .load
            .as_ref()
            .and_then(|load| load.traffic.url.as_deref());
        let (scheme, rest) = url.or(before)?.split_once("://")?;
        let host = rest.split('/').next()?;
        Some(match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => port.into(),
            _ if scheme == "https" => "443".into(),
            _ => "80".into(),
        })
    }
}

/// Returns the argument of `--volume`: a path alone is mounted at the same path, and relative paths are relative to
/// those of the scenario. A name without a slash is a volume of the engine.
fn volume_argument(volume: &str, base: &Path) -> Text {
    match volume.split_once(':') {
        None => {
            let path = base.join(volume);
            format!("{0}:{0}", path.to_string_lossy()).into()
        }
        Some((host_path, container_path))
            if host_path.contains('/') || host_path.starts_with('.') =>
        {
            format!(
                "{}:{container_path}",
                base.join(host_path).to_string_lossy()
            )
            .into()
        }
        Some(_) => volume.into(),
    }
}
