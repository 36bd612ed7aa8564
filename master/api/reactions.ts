/** Outcome of a reaction run. */
export type ReactionOutcome =
  /** Every minion or the runner succeeded. */
  | 'succeeded'
  /** A minion failed or did not answer, or the runner failed. */
  | 'failed'
  /** The run exceeded `timeout`. Minions may still execute it. */
  | 'timeout'
  /** No rule permits the reaction to do this. */
  | 'denied'
  /** The target matches no minion. */
  | 'nobody'
  /** The call is invalid: its target cannot be parsed, or the function does not exist. */
  | 'unusable'
  /** The reaction was removed from the configuration. */
  | 'removed'
  /** The master stopped after it had published the job or started the runner. */
  | 'interrupted';
