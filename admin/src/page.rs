//! Listings in pages: `?limit=` and `?after=`, answered by `data` and `next`.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::{Kind, Problem};

/// Things of one page at most.
pub const PAGE_MAX: u32 = 200;
/// Things of one page where nobody says how many.
const PAGE_DEFAULT: u32 = 50;

/// Which part of a listing, and whose.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Things of one page at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// Where the page before ended: its `next`.
    pub(crate) after: Option<String>,
    /// Only what is this tenant's, by its id. Who is no operator sees no other's.
    pub(crate) tenant: Option<String>,
}

/// A page of a listing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// What is on this page, in an order that stays.
    pub(crate) data: Vec<T>,
    /// What to give as `after` for the next page; null on the last.
    #[schema(required)]
    pub(crate) next: Option<String>,
}

impl Listed {
    pub(crate) fn most(&self) -> Result<u32, Problem> {
        match self.limit.unwrap_or(PAGE_DEFAULT) {
            most @ 1..=PAGE_MAX => Ok(most),
            asked => {
                Err(Problem::new(Kind::BadRequest, format!("a page has 1 to {PAGE_MAX} things, not {asked}"))
                    .numbers(asked, PAGE_MAX))
            }
        }
    }

    /// Where to go on.
    pub(crate) fn after<I>(&self, parse: impl FnOnce(&str) -> Option<I>) -> Result<Option<I>, Problem> {
        let parsed = |after: &String| {
            parse(after).ok_or_else(|| {
                Problem::new(Kind::BadRequest, "`after` is not the `next` of a page of this listing")
            })
        };
        self.after.as_ref().map(parsed).transpose()
    }
}

impl<T> Page<T> {
    /// A page of what was found when one more than `most` was looked for.
    pub(crate) fn of<F>(found: Vec<F>, most: u32, id: impl Fn(&F) -> String, view: impl Fn(&F) -> T) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let shown = found.get(..most).unwrap_or(&found);
        let next = if shown.len() < found.len() { shown.last().map(id) } else { None };
        Self { data: shown.iter().map(view).collect(), next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_next_if_and_only_if_there_is_more() {
        let page = |found: usize| {
            let page = Page::of((0..found).collect(), 3, ToString::to_string, |one| *one);
            (page.data.len(), page.next)
        };
        assert_eq!((page(0), page(2), page(3)), ((0, None), (2, None), (3, None)));
        assert_eq!(page(4), (3, Some("2".to_owned())));
    }

    #[test]
    fn the_size_of_a_page_is_bounded() {
        let of = |limit| Listed { limit, after: None, tenant: None }.most();
        assert_eq!((of(None).unwrap(), of(Some(1)).unwrap(), of(Some(200)).unwrap()), (50, 1, 200));
        assert!(of(Some(0)).is_err() && of(Some(201)).is_err());
    }
}
