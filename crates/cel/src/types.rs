//! Types: what an expression may be made of, and how large it may get.
//!
//! A [`Declared`] is a type together with what a schema says about the size of its values; types contain
//! declared types, so the sizes are known all the way down. Two types are equal whatever their sizes.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::escape::{RESERVED, escape};

/// The type of an expression.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Type {
    /// Known only when the expression runs.
    Dyn,
    /// The type of `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// An integer of 64 bits.
    Int,
    /// An integer of 64 bits that is not negative.
    Uint,
    /// A floating point number of 64 bits.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A length of time.
    Duration,
    /// A list.
    List(Arc<ListType>),
    /// A map with free keys.
    Map(Arc<MapType>),
    /// An object with known fields.
    Struct(Arc<StructType>),
    /// A value or none.
    Optional(Arc<Type>),
    /// The type of a type, such as of `int`.
    Type(Arc<Type>),
    /// A type of the Kubernetes libraries.
    Extension(ExtensionType),
    /// An object that an expression makes, such as `Object.spec`, or a `JSONPatch`.
    Object(Arc<str>),
    /// A type that is still being looked for. Never in a compiled program.
    Unknown(Unknown),
    /// What has no type because it is wrong. Never in a compiled program.
    Error,
}

/// A type that is still being looked for: the parameter of a function, or the element of an empty list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown(pub(crate) u32);

/// The types of the Kubernetes libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionType {
    /// An amount, such as `500m`.
    Quantity,
    /// An IP address.
    Ip,
    /// A range of IP addresses.
    Cidr,
    /// A URL.
    Url,
    /// A semantic version.
    Semver,
    /// A named format, such as that of DNS labels.
    Format,
    /// Who may do what.
    Authorizer,
    /// A check of a path.
    PathCheck,
    /// A check within an API group.
    GroupCheck,
    /// A check of a resource.
    ResourceCheck,
    /// The outcome of a check.
    Decision,
}

impl ExtensionType {
    pub(crate) const ALL: [ExtensionType; 11] = [
        ExtensionType::Quantity,
        ExtensionType::Ip,
        ExtensionType::Cidr,
        ExtensionType::Url,
        ExtensionType::Semver,
        ExtensionType::Format,
        ExtensionType::Authorizer,
        ExtensionType::PathCheck,
        ExtensionType::GroupCheck,
        ExtensionType::ResourceCheck,
        ExtensionType::Decision,
    ];

    /// The name as `type()` has it.
    pub fn name(self) -> &'static str {
        match self {
            ExtensionType::Quantity => "kubernetes.Quantity",
            ExtensionType::Ip => "net.IP",
            ExtensionType::Cidr => "net.CIDR",
            ExtensionType::Url => "kubernetes.URL",
            ExtensionType::Semver => "kubernetes.Semver",
            ExtensionType::Format => "kubernetes.NamedFormat",
            ExtensionType::Authorizer => "kubernetes.authorization.Authorizer",
            ExtensionType::PathCheck => "kubernetes.authorization.PathCheck",
            ExtensionType::GroupCheck => "kubernetes.authorization.GroupCheck",
            ExtensionType::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            ExtensionType::Decision => "kubernetes.authorization.Decision",
        }
    }
}

/// The type of a list.
#[derive(Debug)]
pub struct ListType {
    /// What its elements are.
    pub item: Declared,
    /// How two such lists are compared and joined.
    pub kind: ListKind,
}

/// How lists are compared and joined: `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// Element by element.
    #[default]
    Atomic,
    /// As sets: the order does not matter.
    Set,
    /// By the value of these fields of the elements.
    Map(Vec<Box<str>>),
}

/// The type of a map.
#[derive(Debug)]
pub struct MapType {
    /// What its keys are.
    pub key: Type,
    /// What its values are.
    pub value: Declared,
}

/// The type of an object with known fields.
#[derive(Debug)]
pub struct StructType {
    /// Where it is in its schema, such as `object.spec`. Types of one name are taken for equal.
    pub name: String,
    /// The fields by their escaped names.
    pub fields: BTreeMap<Box<str>, StructField>,
}

impl StructType {
    /// A field by its escaped name; a name that CEL keeps for itself may also be written as it is.
    pub(crate) fn field(&self, name: &str) -> Option<&StructField> {
        let field = self.fields.get(name);
        field.or_else(|| RESERVED.contains(&name).then(|| self.fields.get(&*format!("__{name}__")))?)
    }

    /// A field and its escaped name, by its name in the JSON.
    pub(crate) fn field_by_json(&self, name: &str) -> Option<(&str, &StructField)> {
        // Most names need no escaping, so they are found at once.
        let plain = self.fields.get_key_value(name).filter(|(_, field)| *field.json == *name);
        let found = plain.or_else(|| self.fields.get_key_value(&*escape(name)?));
        found.map(|(escaped, field)| (&**escaped, field))
    }
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct StructField {
    /// The name in the JSON.
    pub json: Box<str>,
    /// What it is.
    pub declared: Declared,
}

/// A type, and how large its values may be.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The type.
    pub ty: Type,
    /// The most characters, bytes, elements or entries; `u64::MAX` when nobody said.
    pub most: u64,
    /// The fewest bytes one takes as JSON.
    pub least_json: u64,
    /// Whether it may be null.
    pub nullable: bool,
}

impl From<Type> for Declared {
    fn from(ty: Type) -> Self {
        let most = if ty.is_scalar() { 1 } else { u64::MAX };
        Declared { ty, most, least_json: 1, nullable: true }
    }
}

impl Type {
    /// A list.
    pub fn list(item: impl Into<Declared>) -> Type {
        Type::List(Arc::new(ListType { item: item.into(), kind: ListKind::Atomic }))
    }

    /// A map.
    pub fn map(key: Type, value: impl Into<Declared>) -> Type {
        Type::Map(Arc::new(MapType { key, value: value.into() }))
    }

    /// A value or none.
    pub fn optional(of: Type) -> Type {
        Type::Optional(Arc::new(of))
    }

    /// An object with known fields, whose names need no escaping.
    pub fn structure<'f>(name: &str, fields: impl IntoIterator<Item = (&'f str, Declared)>) -> Type {
        let fields = fields
            .into_iter()
            .map(|(name, declared)| (name.into(), StructField { json: name.into(), declared }))
            .collect();
        Type::Struct(Arc::new(StructType { name: name.to_owned(), fields }))
    }

    /// Whether its values are all of one size.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Timestamp | Type::Duration => true,
            Type::Null | Type::Type(_) | Type::Extension(_) => true,
            Type::Optional(of) => of.is_scalar(),
            _ => false,
        }
    }

    /// Whether `null` may stand where this type is asked for.
    pub(crate) fn takes_null(&self) -> bool {
        matches!(
            self,
            Type::Null
                | Type::Struct(_)
                | Type::Object(_)
                | Type::Extension(_)
                | Type::Optional(_)
                | Type::Timestamp
                | Type::Duration
        )
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Type::List(a), Type::List(b)) => Arc::ptr_eq(a, b) || a.item.ty == b.item.ty,
            (Type::Map(a), Type::Map(b)) => Arc::ptr_eq(a, b) || (a.key == b.key && a.value.ty == b.value.ty),
            (Type::Struct(a), Type::Struct(b)) => Arc::ptr_eq(a, b) || a.name == b.name,
            (Type::Optional(a), Type::Optional(b)) | (Type::Type(a), Type::Type(b)) => a == b,
            (Type::Extension(a), Type::Extension(b)) => a == b,
            (Type::Object(a), Type::Object(b)) => a == b,
            (Type::Unknown(a), Type::Unknown(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Dyn => "dyn",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::List(list) => return write!(f, "list({})", list.item.ty),
            Type::Map(map) => return write!(f, "map({}, {})", map.key, map.value.ty),
            Type::Struct(structure) => &structure.name,
            Type::Optional(of) => return write!(f, "optional_type({of})"),
            Type::Type(of) => return write!(f, "type({of})"),
            Type::Extension(extension) => extension.name(),
            Type::Object(name) => name,
            Type::Unknown(Unknown(number)) => return write!(f, "_var{number}"),
            Type::Error => "!error!",
        };
        f.write_str(name)
    }
}
