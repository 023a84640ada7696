//! Who may do what: the one table.

use tenant::{Reach, Role};

/// What may be done, as far as it is not open to each of them alike.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Looks at tenants, projects, keys, limits, budgets, prices and usage.
    Read,
    /// Looks at what was changed, and by whom.
    ReadEvents,
    /// Makes a tenant.
    CreateTenant,
    /// Changes a tenant's name, share and state.
    ChangeTenant,
    /// Sets the limits and budgets of a whole tenant.
    ChangeTenantLimits,
    /// Makes a project.
    CreateProject,
    /// Sets the limits and budgets of a project or a key.
    ChangeLimits,
    /// Sets what the tokens of each model cost.
    ChangePrices,
    /// Makes, rotates and revokes keys that ask models.
    ChangeServiceKeys,
    /// Makes, rotates and revokes keys of a tenant's persons, and those that read its audit log.
    ChangePersonKeys,
    /// Tells of keys that were found where they should not be, and thereby ends them: whoever tells has their secrets.
    ReportLeakedKeys,
    /// Revokes a key of an operator. To make or rotate one is the command line's alone.
    RevokeOperatorKeys,
}

impl Operation {
    /// All there are.
    pub const ALL: [Self; 12] = [
        Self::Read,
        Self::ReadEvents,
        Self::CreateTenant,
        Self::ChangeTenant,
        Self::ChangeTenantLimits,
        Self::CreateProject,
        Self::ChangeLimits,
        Self::ChangePrices,
        Self::ChangeServiceKeys,
        Self::ChangePersonKeys,
        Self::ReportLeakedKeys,
        Self::RevokeOperatorKeys,
    ];

    /// As in "may not {}".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadEvents => "read events",
            Self::CreateTenant => "make tenants",
            Self::ChangeTenant => "change tenants",
            Self::ChangeTenantLimits => "change the limits and budgets of a tenant",
            Self::CreateProject => "make projects",
            Self::ChangeLimits => "change the limits and budgets of projects and keys",
            Self::ChangePrices => "change prices",
            Self::ChangeServiceKeys => "change service keys",
            Self::ChangePersonKeys => "change keys of persons and auditors",
            Self::ReportLeakedKeys => "report leaked keys",
            Self::RevokeOperatorKeys => "revoke keys of operators",
        }
    }
}

/// Whether a person of this role may do this, within what the person's key reaches. An operator is a person whose key reaches the
/// whole installation.
pub const fn may(reach: Reach, role: Role, operation: Operation) -> bool {
    let is_operator = matches!(reach, Reach::Installation);
    match operation {
        Operation::Read => true,
        Operation::ReadEvents => matches!(role, Role::Owner | Role::Auditor),
        Operation::CreateTenant
        | Operation::ChangeTenant
        | Operation::ChangeTenantLimits
        | Operation::ChangePrices => is_operator && matches!(role, Role::Owner | Role::Admin),
        Operation::CreateProject | Operation::ChangeLimits => matches!(role, Role::Owner | Role::Admin),
        Operation::ChangeServiceKeys | Operation::ReportLeakedKeys => {
            matches!(role, Role::Owner | Role::Admin | Role::Member)
        }
        Operation::ChangePersonKeys => matches!(role, Role::Owner),
        Operation::RevokeOperatorKeys => is_operator && matches!(role, Role::Owner),
    }
}

#[cfg(test)]
mod tests {
    use tenant::TenantId;

    use super::*;

    /// A line for each operation: operators and then persons of a tenant, each as owner, admin, member and auditor.
    const TABLE: [(Operation, &str); 12] = [
        (Operation::Read, "yes yes yes yes | yes yes yes yes"),
        (Operation::ReadEvents, "yes no no yes | yes no no yes"),
        (Operation::CreateTenant, "yes yes no no | no no no no"),
        (Operation::ChangeTenant, "yes yes no no | no no no no"),
        (Operation::ChangeTenantLimits, "yes yes no no | no no no no"),
        (Operation::CreateProject, "yes yes no no | yes yes no no"),
        (Operation::ChangeLimits, "yes yes no no | yes yes no no"),
        (Operation::ChangePrices, "yes yes no no | no no no no"),
        (Operation::ChangeServiceKeys, "yes yes yes no | yes yes yes no"),
        (Operation::ChangePersonKeys, "yes no no no | yes no no no"),
        (Operation::ReportLeakedKeys, "yes yes yes no | yes yes yes no"),
        (Operation::RevokeOperatorKeys, "yes no no no | no no no no"),
    ];

    fn reaches() -> [Reach; 2] {
        let tenant = TenantId::parse("00000000-0000-0000-0000-000000000000").unwrap();
        [Reach::Installation, Reach::Tenant(tenant)]
    }

    fn cells(operation: Operation) -> [[&'static str; 4]; 2] {
        let cell = |reach, role| if may(reach, role, operation) { "yes" } else { "no" };
        reaches().map(|reach| Role::ALL.map(|role| cell(reach, role)))
    }

    #[test]
    fn the_table_is_as_it_is_written_here() {
        assert_eq!(TABLE.map(|(operation, _)| operation), Operation::ALL);
        for (operation, line) in TABLE {
            assert_eq!(cells(operation).map(|cells| cells.join(" ")).join(" | "), line, "{operation:?}");
        }
    }

    #[test]
    fn the_page_of_the_docs_says_the_same() {
        let page = include_str!("../../docs/admin-api.md");
        for operation in Operation::ALL {
            let cells: Vec<_> = cells(operation).as_flattened().to_vec();
            let line = format!("| {} | {} |", operation.name(), cells.join(" | "));
            assert!(page.lines().any(|one| one == line), "docs/admin-api.md has no line\n{line}");
        }
    }
}
