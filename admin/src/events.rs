//! `/v1/events`: what was changed, and by whom.

use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use tenant::{Actor, Event, EventId, Reason};
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::asked::Ask;
use crate::asker::Asker;
use crate::document::Reading;
use crate::house::Shared;
use crate::page::{Listed, Page};
use crate::problem::Problem;
use crate::roles::Operation;

/// A change that was made.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventView {
    /// Names it, and says nothing more: the order is the listing's.
    id: String,
    at_ms: i64,
    actor: ActorView,
    /// What was done, as `key.revoke`.
    action: &'static str,
    subject: Subject,
    /// Whose it is; null for what is nobody's, as an operator's key.
    #[schema(required)]
    tenant_id: Option<String>,
    /// How it was; null for what was not there.
    #[schema(required, value_type = Option<Object>)]
    before: Option<Value>,
    /// How it became.
    #[schema(required, value_type = Option<Object>)]
    after: Option<Value>,
    /// Why, where that was said: `leaked` for a key that was found where it should not be.
    #[schema(required)]
    reason: Option<String>,
    /// Where a leaked key was found: host and path, as far as they may be kept.
    #[schema(required)]
    found_at: Option<String>,
}

/// Who made a change.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[schema(as = Actor)]
enum ActorView {
    /// Somebody at the command line.
    CommandLine,
    /// The holder of a key.
    Key { key_id: String },
    /// A scanner of secrets that signs what it reports, by the name of its public key.
    Scanner { public_key: String },
    /// A program of ours, by itself.
    System,
}

/// What was changed.
#[derive(Serialize, ToSchema)]
struct Subject {
    /// What kind of thing it is.
    kind: &'static str,
    id: String,
}

fn view(event: &Event) -> EventView {
    EventView {
        id: event.id.to_string(),
        at_ms: event.at.get(),
        actor: match event.actor {
            Actor::CommandLine => ActorView::CommandLine,
            Actor::Key(id) => ActorView::Key { key_id: id.to_string() },
            Actor::Scanner(id) => ActorView::Scanner { public_key: id.to_string() },
            Actor::System => ActorView::System,
        },
        action: event.action.name(),
        subject: Subject { kind: event.action.kind(), id: event.subject.clone() },
        tenant_id: event.tenant.map(|tenant| tenant.to_string()),
        before: event.before.clone(),
        after: event.after.clone(),
        reason: event.reason.as_ref().map(|reason| reason.name().to_owned()),
        found_at: event.reason.as_ref().and_then(|Reason::Leaked(at)| Some(at.as_ref()?.as_str().to_owned())),
    }
}

/// What was changed, the oldest first. Whoever follows it asks again after the `id` of the last.
#[utoipa::path(get, path = "/v1/events", operation_id = "list_events", tag = "events", params(Listed),
    responses((status = 200, description = "A page", body = Page<EventView>), Reading))]
pub(crate) async fn list(
    State(house): State<Shared>,
    asker: Asker,
    Ask(listed): Ask<Listed>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::ReadEvents)?;
    let (most, after) = (listed.most()?, listed.after(EventId::parse)?);
    let reach = house.reach(&asker, listed.tenant.as_deref()).await?;
    let found = house.store.events(reach, after, most.saturating_add(1)).await?;
    Answer::ok(&Page::of(found, most, |one| one.id.to_string(), view))
}
