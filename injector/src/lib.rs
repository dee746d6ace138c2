//! The domain: scenario model, plan, decisions, stream meaning, journal model. No I/O and no clock.
