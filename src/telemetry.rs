//! Every Prometheus series and label; the registry.
