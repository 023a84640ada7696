//! Tenants, API keys, limits and their store
