//! The OpenAPI documents: built when they are first asked for, kept compressed.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    io::{self, Read, Write},
    sync::Arc,
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use super::{
    paths::{self, Paths},
    protobuf,
    schemas::{Dialect, Schemas},
};
use crate::resources::{Catalog, Resource, Source, Version};

/// One document.
#[derive(Debug)]
pub(crate) struct Document {
    /// What changes whenever the document does, in quotes as in the `ETag` header.
    pub(crate) etag: String,
    /// The document, compressed.
    pub(crate) gzip: Bytes,
    /// The size of the document.
    pub(crate) plain_len: usize,
    /// What it is written in.
    pub(crate) media_type: &'static str,
}

impl Document {
    /// The document as it is.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::with_capacity(self.plain_len);
        GzDecoder::new(&*self.gzip).read_to_end(&mut plain).expect("it was compressed here");
        plain
    }

    fn write(hash: &str, document: &impl Serialize) -> Arc<Self> {
        let mut out = Counted { inner: GzEncoder::new(vec![], Compression::default()), len: 0 };
        serde_json::to_writer(&mut out, document).expect("writing to memory cannot fail");
        let gzip = out.inner.finish().expect("writing to memory cannot fail");
        Arc::new(Document {
            etag: format!("\"{hash}\""),
            gzip: gzip.into(),
            plain_len: out.len,
            media_type: "application/json",
        })
    }

    fn write_protobuf(hash: &str, document: &[u8]) -> Arc<Self> {
        let mut out = GzEncoder::new(vec![], Compression::default());
        out.write_all(document).expect("writing to memory cannot fail");
        let gzip = out.finish().expect("writing to memory cannot fail");
        Arc::new(Document {
            etag: format!("\"{hash}\""),
            gzip: gzip.into(),
            plain_len: document.len(),
            media_type: protobuf::MEDIA_TYPE,
        })
    }
}

struct Counted<W> {
    inner: W,
    len: usize,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.inner.write(bytes)?;
        self.len += len;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A map that is made entry by entry while it is written, because all of it at once would be large.
struct Stream<I>(Cell<Option<I>>);

impl<I: Iterator<Item = (String, Value)>> Stream<I> {
    fn new(entries: I) -> Self {
        Stream(Cell::new(Some(entries)))
    }
}

impl<I: Iterator<Item = (String, Value)>> Serialize for Stream<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.take().into_iter().flatten())
    }
}

/// A group and a version, and the rows that are served there.
type Group = (String, String);
type Rows<'a> = Vec<(&'a Resource, &'a Version)>;

/// The documents that were built, kept until something in them changes. Building one takes a while and does not yield.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// By path. Held while a document is built, so that it is built once.
    built: Mutex<HashMap<String, Arc<Document>>>,
}

/// The path under which the Swagger document is kept.
const V2: &str = "v2";

/// And the same in protobuf.
const V2_PROTOBUF: &str = "v2.protobuf";

/// The documents that are not of one group version.
const OF_ALL: &[&str] = &["", V2, V2_PROTOBUF];

impl Documents {
    /// The list of OpenAPI 3 documents, `/openapi/v3`.
    pub(crate) fn index(&self, catalog: &Catalog) -> Arc<Document> {
        let mut all = Xxh3::new();
        let paths = groups(catalog).into_iter().map(|((group, version), rows)| {
            let path = paths::root(&group, &version);
            let hash = hash(&path, &rows);
            all.update(hash.as_bytes());
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        });
        let paths: BTreeMap<String, Value> = paths.collect();
        let hash = format!("{:032X}", all.digest128());
        // Those of groups that are gone are not asked for again.
        self.built.lock().retain(|path, _| paths.contains_key(path) || OF_ALL.contains(&path.as_str()));
        self.get("", &hash, || json!({"paths": paths}))
    }

    /// The OpenAPI 3 document of a group version, such as `api/v1` or `apis/apps/v1`.
    pub(crate) fn v3(&self, catalog: &Catalog, path: &str) -> Option<Arc<Document>> {
        let mut groups = groups(catalog).into_iter();
        let (group, rows) = groups.find(|((group, version), _)| paths::root(group, version) == path)?;
        let hash = hash(path, &rows);
        Some(self.get(path, &hash, || v3(&group, &rows)))
    }

    /// The Swagger 2.0 document of everything, `/openapi/v2`.
    pub(crate) fn v2(&self, catalog: &Catalog) -> Arc<Document> {
        let groups = groups(catalog);
        self.get(V2, &hash_of_all("", &groups), || v2(&groups))
    }

    /// The same in protobuf.
    pub(crate) fn v2_protobuf(&self, catalog: &Catalog) -> Arc<Document> {
        let groups = groups(catalog);
        let hash = hash_of_all(V2_PROTOBUF, &groups);
        self.kept(V2_PROTOBUF, &hash, || {
            let document = protobuf::document(&info(), definitions_of(&groups), all_paths(&groups));
            Document::write_protobuf(&hash, &document)
        })
    }

    fn get<T: Serialize>(&self, path: &str, hash: &str, build: impl FnOnce() -> T) -> Arc<Document> {
        self.kept(path, hash, || Document::write(hash, &build()))
    }

    fn kept(&self, path: &str, hash: &str, build: impl FnOnce() -> Arc<Document>) -> Arc<Document> {
        let mut built = self.built.lock();
        let known = built.get(path).filter(|document| document.etag.trim_matches('"') == hash);
        if let Some(document) = known {
            return Arc::clone(document);
        }
        let document = build();
        built.insert(path.to_owned(), Arc::clone(&document));
        document
    }
}

/// The rows by group and version.
fn groups(catalog: &Catalog) -> BTreeMap<Group, Rows<'_>> {
    let mut groups: BTreeMap<Group, Rows<'_>> = BTreeMap::new();
    for row in catalog.groups().flat_map(|(_, group)| group.rows()) {
        for version in &row.versions {
            groups.entry((row.group.clone(), version.name.clone())).or_default().push((row, version));
        }
    }
    groups
}

/// What changes whenever the document of all groups would.
fn hash_of_all(form: &str, groups: &BTreeMap<Group, Rows<'_>>) -> String {
    let mut all = Xxh3::new();
    all.update(form.as_bytes());
    for ((group, version), rows) in groups {
        all.update(hash(&paths::root(group, version), rows).as_bytes());
    }
    format!("{:032X}", all.digest128())
}

/// What changes whenever the document would: the program and the rows.
fn hash(path: &str, rows: &Rows<'_>) -> String {
    let mut hash = Xxh3::new();
    let mut add = |text: &str| {
        hash.update(text.as_bytes());
        hash.update(b"\n");
    };
    add(env!("CARGO_PKG_VERSION"));
    add(path);
    for (row, version) in rows {
        add(&row.plural);
        add(&row.kind);
        add(&version.type_name);
        add(if row.namespaced { "namespaced" } else { "" });
        add(if row.scale.is_some() { "scale" } else { "" });
        let names = row.parts.iter().map(|part| part.name).chain(row.actions.iter().map(|action| action.0));
        names.for_each(&mut add);
        if let Source::Custom(kind) = &version.source {
            add(&kind.definition().mark());
        }
    }
    format!("{:032X}", hash.digest128())
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": concat!("v", env!("CARGO_PKG_VERSION"))})
}

#[derive(Serialize)]
struct V3<C, P> {
    openapi: &'static str,
    info: Value,
    components: Components<C>,
    paths: P,
}

#[derive(Serialize)]
struct Components<C> {
    schemas: C,
}

fn v3<'a>(group: &'a Group, rows: &'a Rows<'a>) -> impl Serialize + 'a {
    let mut schemas = Schemas::new(Dialect::V3);
    schemas.add_common(&group.0, &group.1);
    for (row, version) in rows {
        schemas.add_row(row, version);
    }
    V3 {
        openapi: "3.0.0",
        info: info(),
        components: Components { schemas: Stream::new(schemas.publish()) },
        paths: Stream::new(paths_of(Dialect::V3, group, rows)),
    }
}

fn paths_of<'a>(
    dialect: Dialect,
    group: &'a Group,
    rows: &'a Rows<'a>,
) -> impl Iterator<Item = (String, Value)> + 'a {
    let paths = Paths::new(dialect, &group.0, &group.1);
    std::iter::once(paths.group()).chain(rows.iter().flat_map(move |(row, version)| paths.row(row, version)))
}

#[derive(Serialize)]
struct Swagger<D, P> {
    swagger: &'static str,
    info: Value,
    definitions: D,
    paths: P,
}

fn v2<'a>(groups: &'a BTreeMap<Group, Rows<'a>>) -> impl Serialize + 'a {
    Swagger {
        swagger: "2.0",
        info: info(),
        definitions: Stream::new(definitions_of(groups)),
        paths: Stream::new(all_paths(groups)),
    }
}

fn definitions_of(groups: &BTreeMap<Group, Rows<'_>>) -> impl Iterator<Item = (String, Value)> + use<> {
    let mut schemas = Schemas::new(Dialect::V2);
    for (group, rows) in groups {
        schemas.add_common(&group.0, &group.1);
        for (row, version) in rows {
            schemas.add_row(row, version);
        }
    }
    schemas.publish()
}

fn all_paths<'a>(groups: &'a BTreeMap<Group, Rows<'a>>) -> impl Iterator<Item = (String, Value)> + 'a {
    groups.iter().flat_map(|(group, rows)| paths_of(Dialect::V2, group, rows))
}
