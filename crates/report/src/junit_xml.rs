//! Writes suites of cases as JUnit XML, in the form that CI servers read.

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesStart, BytesText, Event};
use std::io;

/// A whole file.
pub(super) struct Document {
    pub(super) name: String,
    pub(super) started: String,
    pub(super) seconds: f64,
    pub(super) suites: Vec<Suite>,
}

#[derive(Default)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) host: Option<String>,
    pub(super) started: Option<String>,
    pub(super) seconds: Option<f64>,
    pub(super) properties: Vec<(&'static str, String)>,
    pub(super) cases: Vec<Case>,
}

#[derive(Default)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) started: Option<String>,
    pub(super) seconds: Option<f64>,
    pub(super) properties: Vec<(&'static str, String)>,
    pub(super) status: Status,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
}

pub(super) enum Status {
    /// It passed; the details are earlier failures.
    Passed(Vec<Detail>),
    Failed(Detail),
    Error(Detail),
    Skipped(Detail),
}

impl Default for Status {
    fn default() -> Self {
        Self::Passed(Vec::new())
    }
}

/// How a case ended.
#[derive(Default)]
pub(super) struct Detail {
    pub(super) kind: Option<String>,
    pub(super) message: Option<String>,
    pub(super) text: Option<String>,
}

/// The numbers of cases that a server shows.
#[derive(Clone, Copy, Default)]
struct Totals {
    cases: usize,
    skipped: usize,
    errors: usize,
    failures: usize,
}

impl Totals {
    fn of_suites(suites: &[Suite]) -> Self {
        let mut totals = Self::default();
        for case in suites.iter().flat_map(|suite| &suite.cases) {
            totals.cases += 1;
            match case.status {
                Status::Passed(_) => {}
                Status::Failed(_) => totals.failures += 1,
                Status::Error(_) => totals.errors += 1,
                Status::Skipped(_) => totals.skipped += 1,
            }
        }
        totals
    }

    fn add_to(self, tag: &mut BytesStart<'_>) {
        let totals = [
            ("tests", self.cases),
            ("skipped", self.skipped),
            ("errors", self.errors),
            ("failures", self.failures),
        ];
        for (name, total) in totals {
            tag.push_attribute((name, total.to_string().as_str()));
        }
    }
}

impl Document {
    pub(super) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut xml = Writer::new_with_indent(out, b' ', 4);
        xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let mut tag = BytesStart::new("testsuites");
        add_attribute(&mut tag, "name", Some(&self.name));
        Totals::of_suites(&self.suites).add_to(&mut tag);
        add_times(&mut tag, Some(&self.started), Some(self.seconds));
        write_element(&mut xml, tag, |xml| {
            self.suites.iter().try_for_each(|suite| suite.write(xml))
        })?;
        xml.write_indent()
    }
}

type XmlWriter<'w> = Writer<&'w mut dyn io::Write>;

impl Suite {
    fn write(&self, xml: &mut XmlWriter<'_>) -> io::Result<()> {
        let mut tag = BytesStart::new("testsuite");
        add_attribute(&mut tag, "name", Some(&self.name));
        Totals::of_suites(std::slice::from_ref(self)).add_to(&mut tag);
        add_times(&mut tag, self.started.as_deref(), self.seconds);
        add_attribute(&mut tag, "hostname", self.host.as_deref());
        write_element(xml, tag, |xml| {
            write_properties(xml, &self.properties)?;
            self.cases.iter().try_for_each(|case| case.write(xml))
        })
    }
}

impl Case {
    fn write(&self, xml: &mut XmlWriter<'_>) -> io::Result<()> {
        let mut tag = BytesStart::new("testcase");
        add_attribute(&mut tag, "name", Some(&self.name));
        add_attribute(&mut tag, "classname", Some(&self.class));
        add_times(&mut tag, self.started.as_deref(), self.seconds);
        let is_bare = matches!(&self.status, Status::Passed(failures) if failures.is_empty())
            && self.properties.is_empty()
            && self.stdout.is_none()
            && self.stderr.is_none();
        if is_bare {
            return xml.write_event(Event::Empty(tag));
        }
        write_element(xml, tag, |xml| {
            write_properties(xml, &self.properties)?;
            match &self.status {
                Status::Passed(failures) => {
                    for failure in failures {
                        failure.write(xml, "flakyFailure")?;
                    }
                }
                Status::Failed(detail) => detail.write(xml, "failure")?,
                Status::Error(detail) => detail.write(xml, "error")?,
                Status::Skipped(detail) => detail.write(xml, "skipped")?,
            }
            for (name, output) in [("system-out", &self.stdout), ("system-err", &self.stderr)] {
                if let Some(output) = output {
                    write_text(xml, BytesStart::new(name), output)?;
                }
            }
            Ok(())
        })
    }
}

impl Detail {
    fn write(&self, xml: &mut XmlWriter<'_>, name: &str) -> io::Result<()> {
        let mut tag = BytesStart::new(name);
        add_attribute(&mut tag, "message", self.message.as_deref());
        add_attribute(&mut tag, "type", self.kind.as_deref());
        match &self.text {
            Some(text) => write_text(xml, tag, text),
            None => xml.write_event(Event::Empty(tag)),
        }
    }
}

fn write_properties(xml: &mut XmlWriter<'_>, list: &[(&str, String)]) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    write_element(xml, BytesStart::new("properties"), |xml| {
        list.iter().try_for_each(|(name, value)| {
            let mut tag = BytesStart::new("property");
            add_attribute(&mut tag, "name", Some(name));
            add_attribute(&mut tag, "value", Some(value));
            xml.write_event(Event::Empty(tag))
        })
    })
}

fn write_text(xml: &mut XmlWriter<'_>, tag: BytesStart<'_>, text: &str) -> io::Result<()> {
    let text = without_forbidden(text);
    write_element(xml, tag, |xml| {
        xml.write_event(Event::Text(BytesText::new(&text)))
    })
}

fn write_element<'w>(
    xml: &mut XmlWriter<'w>,
    tag: BytesStart<'_>,
    write_content: impl FnOnce(&mut XmlWriter<'w>) -> io::Result<()>,
) -> io::Result<()> {
    let end = tag.to_end().into_owned();
    xml.write_event(Event::Start(tag))?;
    write_content(xml)?;
    xml.write_event(Event::End(end))
}

fn add_times(tag: &mut BytesStart<'_>, started: Option<&str>, seconds: Option<f64>) {
    add_attribute(tag, "timestamp", started);
    let seconds = seconds.map(|seconds| format!("{seconds:.3}"));
    add_attribute(tag, "time", seconds.as_deref());
}

fn add_attribute(tag: &mut BytesStart<'_>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        tag.push_attribute((name, without_forbidden(value).as_str()));
    }
}

/// Leaves out the characters that XML cannot contain.
fn without_forbidden(text: &str) -> String {
    let is_allowed = |letter: &char| match letter {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        letter => *letter >= ' ',
    };
    text.chars().filter(is_allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_break_the_file() {
        let hostile = "\u{1}a\u{fffe}b\u{1b}[31m]]>\"<&";
        let detail = || Detail {
            kind: Some(hostile.to_owned()),
            message: Some(hostile.to_owned()),
            text: Some(hostile.to_owned()),
        };
        let case = |name: &str, status| Case {
            name: name.to_owned(),
            class: "class".to_owned(),
            status,
            ..Case::default()
        };
        let document = Document {
            name: hostile.to_owned(),
            started: "2025-11-21T06:00:00Z".to_owned(),
            seconds: 1.0,
            suites: vec![Suite {
                name: "suite".to_owned(),
                properties: vec![("property", hostile.to_owned())],
                cases: vec![
                    case("bare", Status::default()),
                    case("flaky", Status::Passed(vec![detail()])),
                    case("skipped", Status::Skipped(Detail::default())),
                    Case {
                        stdout: Some(hostile.to_owned()),
                        ..case("error", Status::Error(detail()))
                    },
                ],
                ..Suite::default()
            }],
        };
        let mut xml = Vec::new();
        document.write(&mut xml).unwrap();
        insta::assert_snapshot!(String::from_utf8(xml).unwrap(), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="ab[31m]]&gt;&quot;&lt;&amp;" tests="4" skipped="1" errors="1" failures="0" timestamp="2025-11-21T06:00:00Z" time="1.000">
            <testsuite name="suite" tests="4" skipped="1" errors="1" failures="0">
                <properties>
                    <property name="property" value="ab[31m]]&gt;&quot;&lt;&amp;"/>
                </properties>
                <testcase name="bare" classname="class"/>
                <testcase name="flaky" classname="class">
                    <flakyFailure message="ab[31m]]&gt;&quot;&lt;&amp;" type="ab[31m]]&gt;&quot;&lt;&amp;">ab[31m]]&gt;&quot;&lt;&amp;</flakyFailure>
                </testcase>
                <testcase name="skipped" classname="class">
                    <skipped/>
                </testcase>
                <testcase name="error" classname="class">
                    <error message="ab[31m]]&gt;&quot;&lt;&amp;" type="ab[31m]]&gt;&quot;&lt;&amp;">ab[31m]]&gt;&quot;&lt;&amp;</error>
                    <system-out>ab[31m]]&gt;&quot;&lt;&amp;</system-out>
                </testcase>
            </testsuite>
        </testsuites>
        "#);
    }
}
