/** Outcome of a reaction run. */
export type ReactionOutcome =
  /** All targeted minions succeeded, or the runner succeeded. */
  | 'succeeded'
  /** A minion failed or did not respond, or the runner failed. */
  | 'failed'
  /** The run exceeded its `timeout`. Minions may still execute the job. */
  | 'timeout'
  /** No rule permits the reaction to perform this action. */
  | 'denied'
  /** The target matches no minion. */
  | 'nobody'
  /** The call is invalid, because its target cannot be parsed or the function does not exist. */
  | 'unusable'
  /** The reaction was removed from the configuration. */
  | 'removed'
  /**
   * The master stopped after it had published the job or started the runner, so the result is
   * unknown.
   */
  | 'interrupted';
