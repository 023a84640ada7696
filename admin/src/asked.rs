//! What is asked: queries, parts of paths and bodies, each refused with a problem when it cannot be read.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tenant::{Expect, Name, ONCE_NAME_CHARS_MAX, Version};

use crate::fault::{Fault, seeded};
use crate::house::Shared;
use crate::problem::{Kind, Problem};
use crate::serve::BODY_BYTES_MAX;

/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// Characters of a place in a body that a problem names.
const PLACE_CHARS_MAX: usize = 64;
/// Names a request that shall be done once.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The query.
pub(crate) struct Ask<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for Ask<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        let asked = Query::<T>::from_request_parts(parts, house).await;
        let why = "the query cannot be read: a parameter is unknown, given twice or of another type";
        asked.map(|Query(asked)| Self(asked)).map_err(|_| Problem::new(Kind::BadRequest, why))
    }
}

/// What the path names. What cannot be read names nothing that is there.
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        let asked = Path::<T>::from_request_parts(parts, house).await;
        asked.map(|Path(asked)| Self(asked)).map_err(|_| Problem::not_found())
    }
}

/// How what is changed is expected to look: the header `If-Match`, which must be there.
pub(crate) struct Expected(pub(crate) Expect);

impl FromRequestParts<Shared> for Expected {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _house: &Shared) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(header::IF_MATCH).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            let why = "send `If-Match` once, with the ETag of what you have seen, or `*` to change it whatever it is";
            return Err(Problem::new(Kind::IfMatchNeeded, why));
        };
        if value == "*" || seeded(Fault::AnyVersion) {
            return Ok(Self(Expect::Any));
        }
        let tag = value.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        let why = "`If-Match` is `*` or one ETag as it was answered: 32 digits between quotation marks";
        let version = tag.and_then(Version::parse).ok_or_else(|| Problem::new(Kind::BadRequest, why))?;
        Ok(Self(Expect::Version(version)))
    }
}

/// The name of a request that shall be done once.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| {
        (1..=ONCE_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let name = text.filter(|_| values.next().is_none()).map(ToOwned::to_owned);
    let why = || {
        format!(
            "one Idempotency-Key of 1 to {ONCE_NAME_CHARS_MAX} printable characters without space is needed"
        )
    };
    name.map(Some).ok_or_else(|| Problem::new(Kind::BadRequest, why()))
}

/// How long a body may be, where it is not [`BODY_BYTES_MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyMax(pub(crate) usize);

/// A body that says it is JSON, as it came.
pub(crate) struct Raw(pub(crate) Bytes);

/// A body of JSON, read, and as it came.
pub(crate) struct Body<T> {
    pub(crate) asked: T,
    pub(crate) bytes: Bytes,
}

impl<T: DeserializeOwned> FromRequest<Shared> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, house: &Shared) -> Result<Self, Problem> {
        let Raw(bytes) = Raw::from_request(request, house).await?;
        let Object(asked) = read(&bytes)?;
        Ok(Self { asked, bytes })
    }
}

impl FromRequest<Shared> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, house: &Shared) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_json = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        if !is_json.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
            return Err(Problem::new(Kind::NotJson, "send the body as `Content-Type: application/json`"));
        }
        let most = request.extensions().get().map_or(BODY_BYTES_MAX, |BodyMax(most)| *most);
        let reading = tokio::time::timeout(BODY_TIME_MAX, Bytes::from_request(request, house)).await;
        let bytes = reading
            .map_err(|_| {
                let detail = format!("the body was not there within {} s", BODY_TIME_MAX.as_secs());
                Problem::new(Kind::TooSlow, detail)
            })?
            .map_err(|refused| match refused.status() {
                StatusCode::PAYLOAD_TOO_LARGE => {
                    Problem::new(Kind::TooLarge, format!("a body has at most {most} bytes here"))
                }
                _ => Problem::new(Kind::BadRequest, "the body did not come whole"),
            })?;
        Ok(Self(bytes))
    }
}

/// Reads a list of objects.
pub(crate) fn listed<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, Problem> {
    let objects: Vec<Object<T>> = read(bytes)?;
    Ok(objects.into_iter().map(|Object(asked)| asked).collect())
}

/// Reads JSON. A problem says where it is, and repeats none of it: it may hold a key.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut json);
    let asked = read.map_err(|error| {
        let place: String = error.path().to_string().chars().take(PLACE_CHARS_MAX).collect();
        let inner = error.inner();
        let at = format!("line {}, column {}", inner.line(), inner.column());
        if inner.is_data() {
            let why = "what stands there is unknown, missing, of another type or out of bounds";
            Problem::new(Kind::Invalid, format!("the body is refused at `{place}`, {at}: {why}"))
        } else {
            Problem::new(Kind::BadRequest, format!("the body is no JSON at {at}"))
        }
    })?;
    json.end()
        .map_err(|_| Problem::new(Kind::BadRequest, "there is more than one JSON value in the body"))?;
    Ok(asked)
}

/// A name that a person gives.
pub(crate) fn name(text: &str) -> Result<Name, Problem> {
    Name::new(text).map_err(|error| Problem::new(Kind::Invalid, error.to_string()))
}

/// A field that may be left out, and then is none; where it stands, null is no value of it.
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// The same for a field that is an object.
pub(crate) fn given_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    Object::deserialize(value).map(|Object(value)| Some(value))
}

/// What stands in an object. A derived reader takes a list for it as well, which no document of ours describes.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}
