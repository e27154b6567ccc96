//! Many trials: plan and resume.
