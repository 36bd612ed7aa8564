/** What became of a run. */
export type ReactionOutcome =
  /** Every minion answered, and none failed; or the runner did. */
  | 'succeeded'
  /** A minion failed or did not answer, or the runner failed. */
  | 'failed'
  /** It took longer than `timeout`; minions may still be at it. */
  | 'timeout'
  /** No rule lets the reaction do so. */
  | 'denied'
  /** The target means no minion. */
  | 'nobody'
  /** The call cannot be made: its target cannot be read, or there is no such function. */
  | 'unusable'
  /** The reaction is not in the configuration any more. */
  | 'removed'
  /** The master was stopped when the job had left, or the runner was under way. */
  | 'interrupted';
