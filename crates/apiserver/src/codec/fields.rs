//! The numbers and types of fields in protobuf: a text table, of which only the lines that are needed are read.

/// The table. Its first lines say how it is to be read.
const TABLE: &str = include_str!("fields.txt");

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    I32,
    I64,
    F64,
    Text,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// JSON as bytes.
    Raw,
    /// A list of strings in a message of its own, because map values cannot be lists.
    Strings,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    /// The message of this name.
    Message(Box<str>),
    List(Box<Type>),
    Map(Box<Type>),
}

/// One field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in JSON; empty if the fields of the message that it holds are fields of the object itself.
    pub(super) name: &'static str,
    /// Whether JSON leaves it out when it is zero. It is there all the same in protobuf.
    pub(super) omitted: bool,
    pub(super) kind: Type,
}

/// The fields of a type such as `apps/v1.DeploymentSpec`, if it is known.
pub(super) fn fields(type_name: &str) -> Option<Vec<Field>> {
    let (own, entries) = line(type_name)?;
    let version = own.rsplit_once('.').map_or("", |(version, _)| version);
    entries.split(' ').filter(|entry| !entry.is_empty()).map(|entry| field(entry, version)).collect()
}

/// The line of a type: its name and its fields.
fn line(type_name: &str) -> Option<(&'static str, &'static str)> {
    let mut table = TABLE;
    while !table.is_empty() {
        let middle = table.floor_char_boundary(table.len() / 2);
        let start = table[..middle].rfind('\n').map_or(0, |newline| newline + 1);
        let end = table[start..].find('\n').map_or(table.len(), |newline| start + newline);
        let (name, entries) = table[start..end].split_once(' ').unwrap_or((&table[start..end], ""));
        table = match name.cmp(type_name) {
            std::cmp::Ordering::Equal => return Some((name, entries)),
            std::cmp::Ordering::Less => table.get(end + 1..).unwrap_or_default(),
            std::cmp::Ordering::Greater => &table[..start],
        };
    }
    None
}

fn field(entry: &'static str, version: &str) -> Option<Field> {
    let (name, rest) = entry.split_once('=')?;
    let (number, kind) = rest.split_once(':')?;
    let (name, omitted) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
    Some(Field { number: number.parse().ok()?, name, omitted, kind: kind_of(kind, version) })
}

fn kind_of(kind: &str, version: &str) -> Type {
    if let Some(items) = kind.strip_prefix("[]") {
        return Type::List(Box::new(kind_of(items, version)));
    }
    if let Some(items) = kind.strip_prefix("{}") {
        return Type::Map(Box::new(kind_of(items, version)));
    }
    match kind {
        "bool" => Type::Bool,
        "i32" => Type::I32,
        "i64" => Type::I64,
        "f64" => Type::F64,
        "str" => Type::Text,
        "bytes" => Type::Bytes,
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntOrString,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "raw" => Type::Raw,
        "strings" => Type::Strings,
        "schemaorarray" => Type::SchemaOrArray,
        "schemaorbool" => Type::SchemaOrBool,
        "schemaorstrings" => Type::SchemaOrStrings,
        own if own.starts_with('.') => Type::Message(format!("{version}{own}").into()),
        other => Type::Message(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> impl Iterator<Item = &'static str> {
        TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(' ').next())
    }

    fn message(kind: &Type) -> Option<&str> {
        match kind {
            Type::List(items) | Type::Map(items) => message(items),
            Type::Message(name) => Some(name),
            _ => None,
        }
    }

    #[test]
    fn every_type_of_the_table_is_found_and_so_are_those_it_refers_to() {
        assert!(names().is_sorted());
        for name in names() {
            let fields = fields(name).unwrap_or_else(|| panic!("{name} cannot be read"));
            for field in &fields {
                assert!(!field.name.is_empty() || matches!(field.kind, Type::Message(_)), "{name}");
                let same = fields.iter().filter(|other| other.number == field.number).count();
                assert_eq!(same, 1, "{name} has the number {} twice", field.number);
                if let Some(other) = message(&field.kind) {
                    assert!(line(other).is_some(), "{name}.{} is of an unknown type {other}", field.name);
                }
            }
        }
    }

    #[test]
    fn types_that_are_not_there_are_not_found() {
        for name in ["", "#", "a", "v1.Po", "v1.Pods", "zzz", "apps/v1.Deployment metadata=1"] {
            assert_eq!(fields(name), None, "{name}");
        }
    }
}
